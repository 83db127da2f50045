"""Rows of Pallas: `pallas_call`, and the primitives that only occur in kernels."""

from jaxprtool.rules.pallas import call as call
from jaxprtool.rules.pallas import inside as inside
from jaxprtool.rules.pallas import vectors as vectors
