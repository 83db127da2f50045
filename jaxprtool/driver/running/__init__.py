"""Runs of programs: where they run, whether they end, recordings of them, and their results."""
