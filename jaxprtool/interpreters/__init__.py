"""One module for each interpreter: its contract, trace, tracer and rule table.

The rooms hold what is none: `columns` the further columns of the table of rules, `evaluation` what surrounds a run on NumPy,
`reuse` what is not done twice, and `functions` the transformations of Python functions.
"""
