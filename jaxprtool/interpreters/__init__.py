"""One module for each interpreter: its contract, trace, tracer and rule table.

The packages hold the rest: `columns` the other columns of the table of rules, `evaluation` what
surrounds a run on NumPy, `reuse` the ways to avoid repeated work, and `functions` the
transformations of Python functions.
"""
