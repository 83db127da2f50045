"""Rows of the collectives, and of the primitives that map functions over devices."""

from jaxprtool.rules.parallel import exchange as exchange
from jaxprtool.rules.parallel import pgather as pgather
from jaxprtool.rules.parallel import pmap as pmap
from jaxprtool.rules.parallel import ragged_all_to_all as ragged_all_to_all
from jaxprtool.rules.parallel import reductions as reductions
from jaxprtool.rules.parallel import sending as sending
from jaxprtool.rules.parallel import shard_map as shard_map
from jaxprtool.rules.parallel import spread as spread
from jaxprtool.rules.parallel import sums_to_come as sums_to_come
from jaxprtool.rules.parallel import xmap as xmap
