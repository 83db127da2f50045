"""The row of `CustomRoot`: a call of its solver with the first operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.columns.runs import call_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.calls import CallImpl, inline_jvp, inline_transpose
from jaxprtool.rules.define import define

__all__: list[str] = []


def _own(solve_jaxpr: ClosedJaxpr, args: Sequence[Value]) -> Sequence[Value]:
    """Return the operands that the solver takes, which are the first ones."""
    return args[: len(solve_jaxpr.jaxpr.in_binders)]


def _types(*avals: Aval, solve_jaxpr: ClosedJaxpr, has_aux: bool) -> list[Aval]:
    return check_call("CustomRoot", solve_jaxpr, _own(solve_jaxpr, avals), "solve_jaxpr")


class _Impl(CallImpl):
    """Evaluates a call of the solver with its operands on NumPy."""

    def __call__(self, xp: Namespace, *args: Value, **params: Any) -> list[Value]:
        return super().__call__(xp, *_own(params[self.param], args), **params)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        solve = params[self.param]
        run = super().prepare(xp, _own(solve, in_avals), out_avals, params)
        return lambda *args: run(*_own(solve, args))


def _jvp(primals: Any, tangents: Any, *, solve_jaxpr: ClosedJaxpr, **_: Any) -> PrimalAndTangent:
    return inline_jvp(solve_jaxpr, _own(solve_jaxpr, primals), _own(solve_jaxpr, tangents))


def _transpose(cts: Any, *args: Value, solve_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    own = _own(solve_jaxpr, args)
    return [*inline_transpose(cts, own, solve_jaxpr), *[None] * (len(args) - len(own))]


def _batch(
    axis_size: int, vals: Any, dims: Any, *, solve_jaxpr: ClosedJaxpr, **_: ParamValue
) -> OutAndDim:
    own = _own(solve_jaxpr, vals)
    batched, out_dims = vmap_jaxpr(solve_jaxpr, axis_size, _own(solve_jaxpr, dims), None)
    return apply_jaxpr(batched, own, solve_jaxpr), out_dims


def _lower(
    ctx: LoweringContext, *args: HloValue, solve_jaxpr: ClosedJaxpr, has_aux: bool
) -> list[HloValue]:
    return ctx.inline(solve_jaxpr, _own(solve_jaxpr, args))


define(
    lax.custom_root,
    abstract_eval=_types,
    impl=_Impl("solve_jaxpr"),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    cost=lambda ins, outs, *, solve_jaxpr, **_: cost_jaxpr(solve_jaxpr),
    runs=call_of("solve_jaxpr"),
    partial_eval=lambda trace, args, *, solve_jaxpr, **_: apply_jaxpr(
        solve_jaxpr, _own(solve_jaxpr, args)
    ),
)
