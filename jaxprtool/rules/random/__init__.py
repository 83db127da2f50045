"""Random numbers.

`generators` makes bits, `prng` has the operations on typed keys, `samples` the distributions.
"""

from jaxprtool.rules.random import generators as generators
from jaxprtool.rules.random import prng as prng
from jaxprtool.rules.random import samples as samples
