"""Rows of special functions: evaluated by SciPy, and lowered to CHLO or to the expansions that JAX
uses.
"""

from jaxprtool.rules.special import bessel as bessel
from jaxprtool.rules.special import gamma as gamma
from jaxprtool.rules.special import incomplete_beta as incomplete_beta
from jaxprtool.rules.special import incomplete_gamma as incomplete_gamma
