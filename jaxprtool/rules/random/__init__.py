"""Random numbers.

`generators` and `counters` make bits, `prng` has the operations on typed keys, `samples` the distributions.
"""

from jaxprtool.rules.random import counters as counters
from jaxprtool.rules.random import generators as generators
from jaxprtool.rules.random import prng as prng
from jaxprtool.rules.random import samples as samples
