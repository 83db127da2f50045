"""Control flow: primitives that evaluate one of several jaxprs, or one jaxpr repeatedly."""

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
    """Return, for each position, the results of all branches there, whose types must agree."""
    del params
    return [United(outs) for outs in zip(*[branch.jaxpr.outs for branch in branches], strict=True)]


def _of_carry(
    *, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Iterable[United]:
    """Return, for each element of the carry, its values before and after a step, whose types must
    agree.

    Under vmap the predicate is an array, whose axes are then the first axes of the carry.
    """
    test = getattr(cond_jaxpr.jaxpr.outs[0].aval, "shape", ())
    carry = body_jaxpr.jaxpr.in_binders[body_nconsts:], body_jaxpr.jaxpr.outs
    return [
        United(of_one, test)
        for of_one in zip(cond_jaxpr.jaxpr.in_binders[cond_nconsts:], *carry, strict=True)
    ]


def _of_steps(*, jaxpr: Any, num_consts: int, num_carry: int, **params: Any) -> Iterable[United]:
    """Return, for each element of the carry, its values before and after a step, whose types must
    agree.
    """
    del params
    before = jaxpr.jaxpr.in_binders[num_consts : num_consts + num_carry]
    return [United(of_one) for of_one in zip(before, jaxpr.jaxpr.outs, strict=False)]


@primitive(name="cond", multiple_results=True, takes=_by_branches, unites=_of_branches)
def cond_call(
    index, *operands, branches: tuple[ClosedJaxpr, ...], branches_platforms: Platforms | None = None
):
    """branches[index](*operands); an index out of range selects the last branch, as in XLA.

    index is i32[], or bool[] for two branches, of which False selects the first.

    branches: the functions to choose from, all with the same types of arguments and results.
    branches_platforms: for a choice by platform, the platforms of each branch; otherwise None.
    """


@primitive(name="while", multiple_results=True, takes=_by_condition_and_body, unites=_of_carry)
def while_call(
    *operands,
    cond_jaxpr: ClosedJaxpr = param(met_first=True),
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
):
    """carry = init; while cond_jaxpr(cond_consts, carry): carry = body_jaxpr(body_consts, carry);
    the results are the last carry.

    The operands are cond_consts, body_consts and init, one after the other.

    cond_jaxpr: (constants, carry) -> bool[].
    body_jaxpr: (constants, carry) -> carry.
    cond_nconsts: the number of constants of cond_jaxpr.
    body_nconsts: the number of constants of body_jaxpr.
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
    """carry, ys[i] = jaxpr(constants, carry, xs[i]) for i = 0, ..., length - 1; the results are the
    last carry and the arrays ys.

    The operands are the constants, the first carry, and the arrays xs, which have `length` slices
    along their first axis.

    jaxpr: (constants, carry, slices of xs) -> (carry, slices of ys).
    length: the number of steps.
    num_carry: the number of operands that are the carry; they follow the constants.
    num_consts: the number of operands that are constants.
    reverse: whether i runs from length - 1 down to 0.
    unroll: how many steps one iteration of the compiled loop takes; 0 means all of them.
    linear: for each operand, whether it is linear in JAX's transpose; does not change the results.
    _split_transpose: a hint to JAX's transpose; does not change the results.
    ft_in: JAX's pytrees of the constants, the carry and xs.
    ft_out: JAX's pytrees of the carry and ys.
    """
