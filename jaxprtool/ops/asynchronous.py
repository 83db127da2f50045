"""Collectives in two steps: one that starts the exchange and gives a future, one that waits for its value."""

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
    """Starts a `psum`."""


@primitive(like=psum_invariant)
def psum_invariant_start():
    """Starts a `psum_invariant`."""


@primitive(like=unreduced_psum)
def unreduced_psum_start():
    """Starts an `unreduced_psum`."""


@primitive(like=unreduced_reduce_scatter)
def unreduced_reduce_scatter_start():
    """Starts an `unreduced_reduce_scatter`."""


@primitive(like=all_gather_reduced)
def all_gather_reduced_start():
    """Starts an `all_gather_reduced`."""


@primitive(like=ppermute)
def ppermute_start():
    """Starts a `ppermute`."""


@primitive(like=pbroadcast)
def pbroadcast_start():
    """Starts a `pbroadcast`."""


@primitive(like=all_gather)
def all_gather_start():
    """Starts an `all_gather`."""


@primitive(like=all_to_all)
def all_to_all_start():
    """Starts an `all_to_all`."""


@primitive(like=reduce_scatter)
def reduce_scatter_start():
    """Starts a `reduce_scatter`."""


@primitive
def psum_done(future):
    """The value of a future that `psum_start` or `psum_invariant_start` gave."""


@primitive
def ppermute_done(future):
    """The value of a future that `ppermute_start` gave."""


@primitive
def pbroadcast_done(future):
    """The value of a future that `pbroadcast_start` gave."""


@primitive
def all_gather_done(future):
    """The value of a future that `all_gather_start` gave."""


@primitive
def all_to_all_done(future):
    """The value of a future that `all_to_all_start` gave."""


@primitive
def reduce_scatter_done(future):
    """The value of a future that `reduce_scatter_start` gave."""
