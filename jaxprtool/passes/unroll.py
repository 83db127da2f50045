"""unroll: the steps of short loops one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.evaluate import apply_eqns
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import count_eqns
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.rewrite import rewrite

__all__ = ["unroll"]


@define_pass("unroll", "bits types", {"steps": 0, "size": 0})
def unroll(program: ClosedJaxpr, *, steps: int = 8, size: int = 2000) -> ClosedJaxpr:
    """Write out scans of at most so many steps, where that gives at most size equations; inner ones first."""

    def rule(eqn: JaxprEqn) -> Callable[..., Sequence[Any]] | None:
        if eqn.primitive is not lax.scan_call.primitive:
            return None
        length = eqn.params["length"]
        if not isinstance(length, int) or not 0 < length <= steps:
            return None
        if length * count_eqns(eqn.params["jaxpr"].jaxpr) > size:
            return None
        return _steps_of(**{k: eqn.params[k] for k in _USED})

    return rewrite(program, rule)


_USED = ("jaxpr", "length", "num_consts", "num_carry", "reverse")


def _steps_of(
    jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int, reverse: bool
) -> Callable[..., Sequence[Any]]:
    """Return the function of a scan's operands that runs its iterations one by one."""

    def steps(*operands: Any) -> list[Any]:
        consts, carry = operands[:num_consts], [*operands[num_consts : num_consts + num_carry]]
        xs = operands[num_consts + num_carry :]
        ys: list[Sequence[Any]] = []
        order = range(length)
        for i in reversed(order) if reverse else order:
            outs = apply_eqns(jaxpr, [*consts, *carry, *(_slice(x, i) for x in xs)])
            carry = outs[:num_carry]
            ys.append(outs[num_carry:])
        columns = zip(*(reversed(ys) if reverse else ys), strict=True)
        return [*carry, *map(_stacked, columns)]

    return steps


def _slice(x: Any, i: int) -> Any:
    """x[i]"""
    zeros = (0,) * (x.ndim - 1)
    row = lax.slice(x, start_indices=(i, *zeros), limit_indices=(i + 1, *x.shape[1:]), strides=None)
    return lax.squeeze(row, dimensions=(0,))


def _stacked(rows: Sequence[Any]) -> Any:
    """Stack arrays along a new first axis."""
    tall = [
        lax.broadcast_in_dim(
            x, shape=(1, *x.shape), broadcast_dimensions=tuple(range(1, len(x.shape) + 1))
        )
        for x in rows
    ]
    return lax.concatenate(*tall, dimension=0)
