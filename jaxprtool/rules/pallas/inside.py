"""Rows of primitives that only occur in kernels: program ids, hints, and `run_scoped`, which
allocates references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.interpreters.batch import elementwise_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.passing import call_passing
from jaxprtool.interpreters.columns.runs import call_of
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.cost import FREE, cost_jaxpr
from jaxprtool.interpreters.discharge import State, discharge_jaxpr
from jaxprtool.interpreters.evaluation.grid import current_grid
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value, type_of
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.rules.pallas.layout import held, nothing_in

__all__: list[str] = []


# -- program_id, num_programs ------------------------------------------------------------------


def _of_grid(op: Any, field: str) -> None:
    name = op.primitive.name

    def type_(*, axis: int) -> Aval:
        if axis < 0:
            ill_typed(f"{name}: axis {axis} is negative", "axis-range")
        return ShapedArray((), INT32)

    def impl(xp: Namespace, *, axis: int) -> Value:
        grid = current_grid()
        if grid is None:
            fail(UsageError, f"{name} is of a kernel, and none runs here", "no-kernel")
        numbers: Sequence[int] = getattr(grid, field)
        if axis >= len(numbers):
            fail(
                UsageError,
                f"{name}: axis {axis} of a grid of {counted(len(numbers), 'axis')}",
                "axis-range",
            )
        return xp.asarray(numbers[axis], xp.dtype_of_aval(INT32))[()]

    define(
        op,
        abstract_eval=type_,
        impl=impl,
        **LOCALLY_CONSTANT,
        batch=unsupported("it has no operands"),
        lower=unsupported("it is of a kernel, which is lowered as a whole"),
        cost=FREE,
        residual="made again",
    )


_of_grid(lax.program_id, "ids")
_of_grid(lax.num_programs, "sizes")

# -- multiple_of -------------------------------------------------------------------------------


def _multiple_type(x: Aval, *, values: tuple[int, ...]) -> Aval:
    if not x.dtype.is_integer:
        ill_typed(f"multiple_of is of integers, and not of {x}", "operand-dtype")
    return x


define(
    lax.multiple_of,
    abstract_eval=_multiple_type,
    impl=lambda xp, x, *, values: x,
    **LOCALLY_CONSTANT,
    batch=elementwise_batch,
    lower=lambda ctx, x, *, values: x,
    cost=FREE,
    elements="kept",
)

# -- run_scoped --------------------------------------------------------------------------------


def _joined(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr with its constants as leading arguments: in JAX's jaxpr the operands are its constants."""
    inner = jaxpr.jaxpr
    if not inner.const_binders:
        return jaxpr
    return ClosedJaxpr(inner.replace(in_binders=inner.all_binders, const_binders=()), [])


def _cells(jaxpr: ClosedJaxpr, n: int) -> list[RefType]:
    """Return the types of the new references that a jaxpr takes after n arguments."""
    found = []
    for v in jaxpr.jaxpr.in_binders[n:]:
        held("a new cell", v.aval)
        found.append(v.aval.strong)
    return found


def _scoped_types(*avals: Aval, jaxpr: ClosedJaxpr, **params: Any) -> list[Aval]:
    jaxpr = _joined(jaxpr)
    binders = jaxpr.jaxpr.in_binders
    if params["collective_axes"]:
        axes = params["collective_axes"]
        ill_typed(f"run_scoped: collective_axes={axes} are not known here", "param-value")
    if any(params.get("ref_transforms", ())):
        ill_typed(
            f"run_scoped: ref_transforms={params['ref_transforms']} are not known here",
            "param-value",
        )
    if len(binders) < len(avals) or any(
        v.aval.strong is not a and not isinstance(a, RefType)
        for v, a in zip(binders, avals, strict=False)
    ):
        ill_typed(f"run_scoped: its jaxpr takes {[v.aval for v in binders]}, and {avals} are given")
    _cells(jaxpr, len(avals))
    return [*map(type_of, jaxpr.jaxpr.outs)]


def _scoped_impl(xp: Namespace, *args: Value, jaxpr: ClosedJaxpr, **_: ParamValue) -> list[Value]:
    jaxpr = _joined(jaxpr)
    new = [
        Cell(xp.full(h.shape, nothing_in(h.dtype), xp.dtype_of_aval(h.dtype)), RefType(h))
        for h in [held("a new cell", ref) for ref in _cells(jaxpr, len(args))]
    ]
    return xp.run(jaxpr, [*args, *new])


def _scoped_discharge(*args: Value, jaxpr: ClosedJaxpr, **_: ParamValue) -> list[Value]:
    """Discharge `run_scoped`: store the new contents of outer references, and drop those of the new ones."""
    jaxpr = _joined(jaxpr)
    new = [held("a new cell", ref) for ref in _cells(jaxpr, len(args))]
    starts = [full(h, nothing_in(h.dtype)) for h in new]
    body = discharge_jaxpr(jaxpr)
    values = [x.value if type(x) is State else x for x in args]
    outs = apply_jaxpr(body, [*values, *starts])
    n = len(jaxpr.jaxpr.outs)
    states = [x for x in args if type(x) is State]
    for state, value in zip(states, outs[n:], strict=False):
        state.value = value
    return outs[:n]


_DISCHARGED = unsupported("references are discharged first; `jaxprtool discharge` does")

define(
    lax.run_scoped,
    abstract_eval=_scoped_types,
    impl=_scoped_impl,
    **dict.fromkeys(("jvp", "transpose", "batch", "lower"), _DISCHARGED),
    cost=lambda ins, outs, *, jaxpr, **_: cost_jaxpr(jaxpr),
    discharge=_scoped_discharge,
    runs=call_of("jaxpr"),
    passing=call_passing("jaxpr"),
)
