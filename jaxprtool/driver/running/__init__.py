"""Runs of programs: where they run, whether they end, what is recorded of them, and their results."""
