"""How `compare` looks for the first difference of two runs."""
