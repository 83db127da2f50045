"""Rows of random numbers: `generators` and `counters` for random bits, `prng` for typed keys,
`samples` for distributions.
"""

from jaxprtool.rules.random import counters as counters
from jaxprtool.rules.random import generators as generators
from jaxprtool.rules.random import prng as prng
from jaxprtool.rules.random import samples as samples
