"""The row of `custom_linear_solve`: the equation is differentiated, not the steps of the solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.columns.solutions import Solved
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.jvp import Zero, add_tangents, instantiate
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.diagnostics import UnsupportedError, counted, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.makers.call_types import alike, check_call
from jaxprtool.makers.calls import inline_jvp, prepared_impl
from jaxprtool.rules.define import define

__all__: list[str] = []

_RECORD = "_LinearSolveTuple"


class _Four(NamedTuple):
    """One value for each of the four jaxprs of a solve: matvec, vecmat, solve, transpose_solve."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def swapped(self) -> _Four:
        """Return the values for the transposed system."""
        return _Four(self.vecmat, self.matvec, self.transpose_solve, self.solve)

    def record(self) -> Record:
        """Return the values as a record, the form of a param."""
        return Record(_RECORD, (), **self._asdict())


def _four(param: str, value: Value) -> _Four:
    try:
        return _Four(*[getattr(value, field) for field in _Four._fields])
    except AttributeError:
        fields = ", ".join(_Four._fields)
        ill_typed(f"custom_linear_solve {param}={value!r} has to have {fields}", "param-value")


def _split(operands: Sequence[Value], lengths: _Four) -> tuple[_Four, list[Value]]:
    """Split operands into the constants of each jaxpr, and b."""
    *consts, b = split_list(operands, *lengths)
    return _Four(*consts), b


def _types(*operands: Aval, const_lengths: ParamValue, jaxprs: ParamValue) -> list[Aval]:
    name = "custom_linear_solve"
    lengths, four = _four("const_lengths", const_lengths), _four("jaxprs", jaxprs)
    if any(not isinstance(n, int) or n < 0 for n in lengths) or sum(lengths) > len(operands):
        ill_typed(
            f"{name} const_lengths={tuple(lengths)} do not fit {counted(len(operands), 'operand')}",
            "param-value",
        )
    consts, b = _split(operands, lengths)

    def called(field: str) -> list[Aval]:
        args = [*getattr(consts, field), *b]
        return check_call(f"{name}: {field}", getattr(four, field), args, "jaxprs", tracked=False)

    solve = called("solve")
    checked = {"matvec": called("matvec"), "solve": solve}
    for field in ("vecmat", "transpose_solve"):
        if getattr(four, field) is not None:
            checked[field] = called(field)
    for field, outs in checked.items():
        if len(outs) < len(b) or not all(map(alike, outs, b)):
            shown = ", ".join(map(str, outs))
            ill_typed(
                f"{name}: {field} has to return values of the types of b, and returns {shown}",
                "result-types",
            )
    return [*b, *solve[len(b) :]]


@prepared_impl
def _impl(xp: Namespace, **params: Any) -> Callable[..., Value]:
    """Return the function that runs the jaxpr `solve` on its constants and b."""
    lengths = _four("const_lengths", params["const_lengths"])
    solve = runner(_four("jaxprs", params["jaxprs"]).solve)
    start = lengths.matvec + lengths.vecmat
    end, b = start + lengths.solve, sum(lengths)
    return lambda *operands: solve([*operands[start:end], *operands[b:]])


def _jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    const_lengths: ParamValue,
    jaxprs: ParamValue,
) -> PrimalAndTangent:
    """The jvp rule: x' solves A x' = b' - A' x, since A x = b; results after x have zero
    tangents.
    """
    lengths, four = _four("const_lengths", const_lengths), _four("jaxprs", jaxprs)
    outs = lax.linear_solve(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, b = _split(primals, lengths)
    const_ts, right = _split(tangents, lengths)
    n = len(b)
    if any(type(t) is not Zero for t in const_ts.matvec):
        zeros = [Zero(get_aval(x)) for x in b]
        _, moved = inline_jvp(four.matvec, [*consts.matvec, *outs[:n]], [*const_ts.matvec, *zeros])
        minus = [t if type(t) is Zero else lax.neg(t) for t in moved]
        right = [add_tangents(t, m) for t, m in zip(right, minus, strict=True)]
    if all(type(t) is Zero for t in right):
        return outs, [Zero(get_aval(x)) for x in outs]
    fixed = primals[: len(primals) - n]
    operands = [*fixed, *map(instantiate, right)]
    solved = lax.linear_solve(*operands, const_lengths=const_lengths, jaxprs=jaxprs)
    return outs, [*solved[:n], *[Zero(get_aval(x)) for x in outs[n:]]]


def _transpose(
    cts: Sequence[Value], *operands: Value, const_lengths: ParamValue, jaxprs: ParamValue
) -> list[Value]:
    lengths, four = _four("const_lengths", const_lengths), _four("jaxprs", jaxprs)
    consts, b = _split(operands, lengths)
    if any(is_linear(x) for group in consts for x in group):
        not_linear("custom_linear_solve", "the linear function depends on them")
    if four.transpose_solve is None or four.vecmat is None:
        fail(
            UnsupportedError,
            "custom_linear_solve: reverse mode needs transpose_solve, and there is none",
            "no-rule",
        )
    if any(type(ct) is not Zero for ct in cts[len(b) :]):
        not_linear("custom_linear_solve", "a result besides the solution has a cotangent")
    constants = [x for group in consts.swapped() for x in group]
    values = [instantiate(ct) for ct in cts[: len(b)]]
    outs = lax.linear_solve(
        *constants,
        *values,
        const_lengths=lengths.swapped().record(),
        jaxprs=four.swapped().record(),
    )
    found = [ct if is_linear(x) else None for ct, x in zip(outs, b, strict=False)]
    return [None] * sum(lengths) + found


def _batch(
    axis_size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    const_lengths: ParamValue,
    jaxprs: ParamValue,
) -> OutAndDim:
    """The batch rule.

    x and b have the same number of arrays. Array i of x is batched if and only if array i of b is,
    in all four jaxprs; as few arrays as possible are batched.
    """
    lengths, four = _four("const_lengths", const_lengths), _four("jaxprs", jaxprs)
    b = vals[sum(lengths) :]
    const_dims, b_dims = _split(dims, lengths)

    def batched(field: str, flags: Sequence[bool], out: Value) -> Value:
        given = [*getattr(const_dims, field), *[0 if f else None for f in flags]]
        return vmap_jaxpr(getattr(four, field), axis_size, given, out)

    flags = _batched_parts(four, batched, [d is not None for d in b_dims])
    n_more = len(four.solve.out_avals) - len(b)
    wanted = [0 if f else None for f in flags]
    more = [0] * n_more
    new = _Four(
        batched("matvec", flags, wanted)[0],
        four.vecmat and batched("vecmat", flags, wanted)[0],
        batched("solve", flags, [*wanted, *more])[0],
        four.transpose_solve and batched("transpose_solve", flags, [*wanted, *more])[0],
    )
    right = [
        materialize(x, d, axis_size) if f else x for x, d, f in zip(b, b_dims, flags, strict=True)
    ]
    constants = vals[: sum(lengths)]
    outs = lax.linear_solve(*constants, *right, const_lengths=const_lengths, jaxprs=new.record())
    return outs, [*wanted, *more]


def _batched_parts(four: _Four, batched: Any, start: list[bool]) -> list[bool]:
    """Return which arrays of x and b are batched as a consequence of those flagged in `start`, by
    iteration to a fixed point.
    """
    flags = start
    present = [f for f in _Four._fields if getattr(four, f) is not None]
    while True:
        new = list(flags)
        for field in present:
            out_dims = batched(field, flags, None)[1]
            new = [f or d is not None for f, d in zip(new, out_dims, strict=False)]
        if new == flags:
            return flags
        flags = new


def _lower(
    ctx: LoweringContext, *operands: HloValue, const_lengths: ParamValue, jaxprs: ParamValue
) -> list[HloValue]:
    consts, b = _split(operands, _four("const_lengths", const_lengths))
    solve: ClosedJaxpr = _four("jaxprs", jaxprs).solve
    return ctx.inline(solve, [*consts.solve, *b])


def _solved(params: dict[str, Any]) -> Solved:
    lengths = _four("const_lengths", params["const_lengths"])
    matvec: ClosedJaxpr = _four("jaxprs", params["jaxprs"]).matvec
    return Solved(matvec, lengths.matvec, sum(lengths))


define(
    lax.linear_solve,
    abstract_eval=_types,
    impl=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    cost=lambda ins, outs, *, jaxprs, **_: cost_jaxpr(_four("jaxprs", jaxprs).solve),
    runs=lambda params: [Run("jaxprs", _four("jaxprs", params["jaxprs"]).solve, position=2)],
    varying="rule",
    derivative="rule",
    solution=_solved,
)
