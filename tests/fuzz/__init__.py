"""Fuzz targets: texts and programs drawn at random, and what has to hold for each."""
