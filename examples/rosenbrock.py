"""The Rosenbrock function in plain NumPy: traced through NumPy's own protocols, JAX is not needed.

jaxprtool trace examples/rosenbrock.py:rosenbrock --shape f64[5] > examples/rosenbrock.jaxpr
jaxprtool grad examples/rosenbrock.jaxpr | jaxprtool run - --args ramp
"""

import numpy as np


def rosenbrock(x):
    """A curved valley with its minimum, 0, at (1, ..., 1)."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
