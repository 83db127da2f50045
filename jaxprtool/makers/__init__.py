"""Makers and helpers of rules that many primitives share: elementwise functions, reductions, windows, indexing, calls."""
