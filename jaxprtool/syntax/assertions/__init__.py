"""Expressions of `assert` and `grep`: what they consist of, and how they are read."""
