"""Linear algebra: matrix decompositions and solvers.

The last two axes of an operand are the rows and columns of a matrix; all axes before are batch
axes.
"""
