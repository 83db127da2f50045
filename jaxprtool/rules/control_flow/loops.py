"""Helpers of the rules of loops: fixed points over the flags of the carry, and jaxprs with rearranged binders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import state
from jaxprtool.core.partition import split_list
from jaxprtool.interpreters.check import ill_typed, verified
from jaxprtool.interpreters.dce import dce_body, prune_consts, rebound
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import (
    Aval,
    ClosedJaxpr,
    Value,
    Var,
    new_closed,
    new_jaxpr,
    type_of,
)
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import Placement, placed

__all__ = [
    "apply_scan",
    "check_carry",
    "check_counts",
    "fixpoint",
    "narrowed",
    "pick",
    "scan_params",
    "split_operands",
    "stacked_aval",
    "with_unused",
]


def fixpoint(step: Callable[[list[bool]], Sequence[bool]], start: Sequence[bool]) -> list[bool]:
    """Return the least fixed point of `step` above `start`, flag by flag.

    `step` is not called again once all flags are True.
    """
    flags = list(start)
    while not all(flags):
        new = [a or b for a, b in zip(flags, step(flags), strict=True)]
        if new == flags:
            break
        flags = new
    return flags


def pick(closed: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int] | None = None) -> ClosedJaxpr:
    """Return a jaxpr with its arguments and results reordered, or with some of the results left out.

    It is memoised: the same choice twice gives the same object, so that what is derived from it is
    derived once.

    Args:
      closed: the jaxpr.
      ins: the position of each new argument among the old ones.
      outs: the position of each new result among the old ones; None: all of them, in order.
    """

    def make() -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        binders = [jaxpr.in_binders[i] for i in ins]
        if outs is None:
            picked = rebound(jaxpr, binders)
        elif len({*outs}) == len(jaxpr.outs):
            picked = rebound(jaxpr, binders, [jaxpr.outs[i] for i in outs])
        else:
            picked = new_jaxpr(
                binders, jaxpr.eqns, [jaxpr.outs[i] for i in outs], jaxpr.const_binders
            )
        return verified(new_closed(picked, closed.consts))

    return _PICKED.of(closed, (tuple(ins), None if outs is None else tuple(outs)), make)


_PICKED = MemoTable[ClosedJaxpr]("picked")


def with_unused(closed: ClosedJaxpr, avals: Sequence[Aval]) -> ClosedJaxpr:
    """Return the same function with further arguments, which it does not read."""
    jaxpr = closed.jaxpr

    def make() -> ClosedJaxpr:
        binders = [*jaxpr.in_binders, *map(Var, avals)]
        return verified(ClosedJaxpr(rebound(jaxpr, binders), closed.consts))

    return _WITH_UNUSED.of(closed, tuple(avals), make)


_WITH_UNUSED = MemoTable[ClosedJaxpr]("with unused arguments")


def narrowed(
    closed: ClosedJaxpr, used_ins: Sequence[bool], used_outs: Sequence[bool]
) -> ClosedJaxpr:
    """Return the jaxpr with only some of its results and arguments.

    Arguments that `used_ins` keeps stay even if nothing reads them.
    """

    def make() -> ClosedJaxpr:
        jaxpr, _ = dce_body(closed, used_outs)
        binders = [*compress(jaxpr.in_binders, used_ins)]
        return verified(prune_consts(ClosedJaxpr(rebound(jaxpr, binders), closed.consts)))

    if all(used_ins) and dce_body(closed, used_outs)[0] is closed.jaxpr:
        return closed
    return _NARROWED.of(closed, (tuple(used_ins), tuple(used_outs)), make)


_NARROWED = MemoTable[ClosedJaxpr]("narrowed")


def check_counts(name: str, n_operands: int, counts: dict[str, Any]) -> None:
    """Raise an error where the params count more operands of a kind than there can be."""
    for key, n in counts.items():
        if not isinstance(n, int) or n < 0:
            ill_typed(f"{name}: {key}={n} is no number of operands", "param-value")
    if sum(counts.values()) > n_operands:
        wanted = " and ".join(f"{k}={v}" for k, v in counts.items())
        ill_typed(
            f"{name}: {wanted}, and there {'is' if n_operands == 1 else 'are'} {counted(n_operands, 'operand')}",
            "argument-count",
        )


def check_carry(
    name: str, before: Sequence[Value], after: Sequence[Value], binders: Sequence[Var]
) -> None:
    """Raise an error that names the first part of the carry whose type a step changes.

    What has no placement before a step may have one after it, as in JAX: a value of no mesh is
    taken where a sharded one is.
    """
    for i, (a, b, v) in enumerate(zip(before, after, binders, strict=False)):
        if a is not b and placed(b, Placement()) is not a:
            called = f" ({v.name})" if v.name else ""
            ill_typed(
                f"{name}: part {i} of the carry{called} is {a} before a step, and {b} after it",
                "carry-type",
                help="a step has to give back what it takes, with the same shape and dtype",
            )


# -- scan --------------------------------------------------------------------------------------


@functools.cache
def stacked_aval(aval: Aval, length: int) -> Aval:
    """The type of `length` values along a new first axis."""
    return aval.update(shape=(length, *aval.shape))


def apply_scan(
    closed: ClosedJaxpr,
    consts: Sequence[Value],
    carry: Sequence[Value],
    xs: Sequence[Value],
    params: dict[str, Any],
) -> list[Value]:
    """Bind `scan` with a transformed body, whose arguments have the types of the operands."""
    n_carry, length = len(carry), params["length"]
    fields = scan_params(closed, len(consts), n_carry, params)
    avals = [*map(type_of, closed.jaxpr.outs)]
    avals[n_carry:] = [stacked_aval(a, length) for a in avals[n_carry:]]
    operands = [*consts, *carry, *xs]
    return state.trace.process_typed(lax.scan_call.primitive, operands, fields, avals)


def scan_params(
    closed: ClosedJaxpr, n_consts: int, n_carry: int, params: dict[str, ParamValue]
) -> dict[str, Any]:
    """Return the params of a scan with a transformed body."""
    return {
        **params,
        "jaxpr": closed,
        "num_consts": n_consts,
        "num_carry": n_carry,
        "linear": None,
    }


def split_operands(values: Sequence[Any], params: dict[str, Any]) -> list[list[Any]]:
    """Split a list with one entry for each operand of a scan into the entries for consts, carry and xs."""
    return split_list(values, params["num_consts"], params["num_carry"])
