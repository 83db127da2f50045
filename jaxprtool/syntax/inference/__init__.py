"""Infer types that a text does not state: forwards from arguments, and backwards from uses."""
