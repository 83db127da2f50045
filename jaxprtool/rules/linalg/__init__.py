"""Rows of linear algebra, by decomposition."""
