"""Collectives in two steps: `..._start` begins the exchange and returns a future, `..._done` waits
for the value of the future.
"""

from jaxprtool.core.primitive import primitive
from jaxprtool.ops.parallel import (
    all_gather,
    all_gather_reduced,
    all_to_all,
    pbroadcast,
    ppermute,
    psum,
    psum_invariant,
    reduce_scatter,
    unreduced_psum,
    unreduced_reduce_scatter,
)

__all__ = [
    "all_gather_done",
    "all_gather_reduced_start",
    "all_gather_start",
    "all_to_all_done",
    "all_to_all_start",
    "pbroadcast_done",
    "pbroadcast_start",
    "ppermute_done",
    "ppermute_start",
    "psum_done",
    "psum_invariant_start",
    "psum_start",
    "reduce_scatter_done",
    "reduce_scatter_start",
    "unreduced_psum_start",
    "unreduced_reduce_scatter_start",
]


@primitive(like=psum)
def psum_start():
    """A future of `psum(operand)`, whose exchange it starts."""


@primitive(like=psum_invariant)
def psum_invariant_start():
    """A future of `psum_invariant(operand)`, whose exchange it starts."""


@primitive(like=unreduced_psum)
def unreduced_psum_start():
    """A future of `unreduced_psum(operand)`, whose exchange it starts."""


@primitive(like=unreduced_reduce_scatter)
def unreduced_reduce_scatter_start():
    """A future of `unreduced_reduce_scatter(operand)`, whose exchange it starts."""


@primitive(like=all_gather_reduced)
def all_gather_reduced_start():
    """A future of `all_gather_reduced(operand)`, whose exchange it starts."""


@primitive(like=ppermute)
def ppermute_start():
    """A future of `ppermute(operand)`, whose exchange it starts."""


@primitive(like=pbroadcast)
def pbroadcast_start():
    """A future of `pbroadcast(operand)`, whose exchange it starts."""


@primitive(like=all_gather)
def all_gather_start():
    """A future of `all_gather(operand)`, whose exchange it starts."""


@primitive(like=all_to_all)
def all_to_all_start():
    """A future of `all_to_all(operand)`, whose exchange it starts."""


@primitive(like=reduce_scatter)
def reduce_scatter_start():
    """A future of `reduce_scatter(operand)`, whose exchange it starts."""


@primitive
def psum_done(future):
    """The value of a future that `psum_start` or `psum_invariant_start` returned."""


@primitive
def ppermute_done(future):
    """The value of a future that `ppermute_start` returned."""


@primitive
def pbroadcast_done(future):
    """The value of a future that `pbroadcast_start` returned."""


@primitive
def all_gather_done(future):
    """The value of a future that `all_gather_start` returned."""


@primitive
def all_to_all_done(future):
    """The value of a future that `all_to_all_start` returned."""


@primitive
def reduce_scatter_done(future):
    """The value of a future that `reduce_scatter_start` returned."""
