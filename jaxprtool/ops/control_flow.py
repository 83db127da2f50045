"""Control flow: primitives that choose or repeat jaxprs."""

from collections.abc import Iterable, Sequence
from typing import Any

from jaxprtool.core.inner import Arguments, United, slice_of
from jaxprtool.core.kinds.numbers import Dimension
from jaxprtool.core.kinds.objects import Bookkeeping, Flags
from jaxprtool.core.kinds.placement import Platforms
from jaxprtool.core.primitive import param, primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["cond_call", "scan_call", "while_call"]


def _by_branches(avals: Sequence[Any], *, branches: Any, **params: Any) -> Arguments:
    del params
    return [(branch, avals[1:]) for branch in branches]


def _by_condition_and_body(
    avals: Sequence[Any], *, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Arguments:
    carry = avals[cond_nconsts + body_nconsts :]
    return [(cond_jaxpr, [*avals[:cond_nconsts], *carry]), (body_jaxpr, avals[cond_nconsts:])]


def _by_steps(
    avals: Sequence[Any], *, jaxpr: Any, num_consts: int, num_carry: int, **params: Any
) -> Arguments:
    del params
    whole = num_consts + num_carry
    return [(jaxpr, [*avals[:whole], *(slice_of(a, 0) for a in avals[whole:])])]


def _of_branches(*, branches: Any, **params: Any) -> Iterable[United]:
    """The results of one place."""
    del params
    return [United(outs) for outs in zip(*[branch.jaxpr.outs for branch in branches], strict=True)]


def _of_carry(
    *, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Iterable[United]:
    """The carry before and after a step. Under vmap the predicate is an array: the carry begins with its axes."""
    test = getattr(cond_jaxpr.jaxpr.outs[0].aval, "shape", ())
    carry = body_jaxpr.jaxpr.in_binders[body_nconsts:], body_jaxpr.jaxpr.outs
    return [
        United(of_one, test)
        for of_one in zip(cond_jaxpr.jaxpr.in_binders[cond_nconsts:], *carry, strict=True)
    ]


def _of_steps(*, jaxpr: Any, num_consts: int, num_carry: int, **params: Any) -> Iterable[United]:
    """The carry before and after a step."""
    del params
    before = jaxpr.jaxpr.in_binders[num_consts : num_consts + num_carry]
    return [United(of_one) for of_one in zip(before, jaxpr.jaxpr.outs, strict=False)]


@primitive(name="cond", multiple_results=True, takes=_by_branches, unites=_of_branches)
def cond_call(
    index, *operands, branches: tuple[ClosedJaxpr, ...], branches_platforms: Platforms | None = None
):
    """branches[index](*operands); an index out of range takes the last branch, as in XLA.

    index: i32[], or bool[] for two branches (False takes the first).

    branches: the functions to choose from, all of one type.
    branches_platforms: for a choice by platform, the platforms of each branch; else None.
    """


@primitive(name="while", multiple_results=True, takes=_by_condition_and_body, unites=_of_carry)
def while_call(
    *operands,
    cond_jaxpr: ClosedJaxpr = param(met_first=True),
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
):
    """The carry after body_jaxpr was applied to it as long as cond_jaxpr holds of it.

    The operands are the constants of cond_jaxpr, those of body_jaxpr, and the carry at the start.

    cond_jaxpr: (constants, carry) -> bool[].
    body_jaxpr: (constants, carry) -> carry.
    cond_nconsts: how many constants cond_jaxpr has.
    body_nconsts: how many constants body_jaxpr has.
    """


@primitive(name="scan", multiple_results=True, takes=_by_steps, unites=_of_steps)
def scan_call(
    *operands,
    jaxpr: ClosedJaxpr,
    length: Dimension,
    num_carry: int,
    num_consts: int,
    reverse: bool = shown(False),
    unroll: int = shown(1),
    linear: Flags | None = None,
    _split_transpose: Bookkeeping = False,
    ft_in: Bookkeeping = None,
    ft_out: Bookkeeping = None,
):
    """The last carry, and the stacked ys, of `length` steps of jaxpr.

    The operands are constants, the carry at the start, and arrays xs whose slices along the first axis the
    steps get one by one.

    jaxpr: (constants, carry, slices of xs) -> (carry, slices of ys).
    length: the number of steps.
    num_carry: how many of the operands after the constants are the carry.
    num_consts: how many of the operands are constants.
    reverse: whether the steps go from the last slice to the first.
    unroll: how many steps a turn of the compiled loop takes; 0 stands for all.
    linear: JAX's bookkeeping: which operands the transpose takes as linear.
    _split_transpose: a hint to JAX's transpose.
    ft_in: JAX's trees of the constants, the carry and xs.
    ft_out: JAX's trees of the carry and ys.
    """
