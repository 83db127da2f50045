"""The search of `compare` for the first difference of two runs."""
