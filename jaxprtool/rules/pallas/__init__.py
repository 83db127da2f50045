"""Rows of kernels of Pallas: the call, and what only kernels hold."""

from jaxprtool.rules.pallas import call as call
from jaxprtool.rules.pallas import inside as inside
from jaxprtool.rules.pallas import vectors as vectors
