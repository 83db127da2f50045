"""Transposition of `scan`: the transposed body, scanned the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

from jaxprtool.core.bind import set_current_trace
from jaxprtool.core.partition import partition_list, split_list, spread
from jaxprtool.interpreters.jvp import Zero, add_tangents, fill_zeros, instantiate
from jaxprtool.interpreters.reuse.copies import once
from jaxprtool.interpreters.stage import JaxprTrace
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass, is_linear
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.rules.control_flow.loops import (
    apply_scan,
    fixpoint,
    scan_params,
    split_operands,
)
from jaxprtool.rules.control_flow.scan_partial_eval import carried_unknowns, split_scan

__all__ = ["transpose_scan"]


def transpose_scan(cts: Value, *args: Value, **params: Any) -> list[Value]:
    """The transpose rule: scan the transposed body in the opposite direction.

    Cotangents of the carry are carried. Those of the constants are summed up in the carry. Those of
    xs come out stacked. Parts of the carry that are not linear are computed by a forward scan
    first.
    """
    linear = [is_linear(x) for x in args]
    linear_consts, linear_carry, linear_xs = split_operands(linear, params)
    if not all(carried_unknowns(params["jaxpr"], linear_consts, linear_carry, linear_xs)):
        return _transpose_after_split(cts, args, linear, params)
    consts, carry, xs = split_operands(args, params)
    known_consts, _ = partition_list(linear_consts, consts)
    known_xs, undef_xs = partition_list(linear_xs, xs)
    carry_cts, ys_cts = split_list(cts, len(carry))
    body = _transposed_body(params, linear, [type(ct) is not Zero for ct in cts])
    start = [*[Zero(a) for a in body.avals[: body.n_const]], *carry_cts]
    live_ys = [ct for ct in ys_cts if type(ct) is not Zero]
    outs = iter(
        apply_scan(
            body.closed,
            known_consts,
            [*map(instantiate, compress(start, body.carried))],
            [*live_ys, *known_xs],
            {**params, "reverse": not params["reverse"]},
        )
    )
    carried = fill_zeros(body.carried, outs, body.avals)
    const_cts, carry_cts = split_list(carried, body.n_const)
    xs_cts = fill_zeros(body.xs_nonzero, outs, [x.aval for x in undef_xs])
    return [
        *spread(linear_consts, const_cts),
        *[ct if lin else None for ct, lin in zip(carry_cts, linear_carry, strict=True)],
        *spread(linear_xs, xs_cts),
    ]


class _TransposedBody(NamedTuple):
    """The body of the transposed scan.

    Attributes:
      closed: (non-linear constants, carried cotangents, cotangents of ys, non-linear slices of xs)
        -> (carried cotangents, cotangents of linear slices of xs).
      avals: the types of the cotangents that may be carried: of the linear constants, then of the
        carry.
      n_const: how many of `avals` belong to constants.
      carried: for each of `avals` whether it is carried; False means that it is zero in every step.
      xs_nonzero: for each linear operand among xs whether it gets a cotangent.
    """

    closed: ClosedJaxpr
    avals: list[Any]
    n_const: int
    carried: list[bool]
    xs_nonzero: list[bool]


def _transposed_body(
    params: dict[str, Any], linear: Sequence[bool], nonzero: Sequence[bool]
) -> _TransposedBody:
    """Return the transposed body of a scan. It is memoised for each way to transpose it."""
    closed: ClosedJaxpr = params["jaxpr"]
    key = (params["num_consts"], params["num_carry"], *linear, *nonzero)

    def make() -> _TransposedBody:
        flags = split_list(nonzero, params["num_carry"])
        return _transpose_body(closed, split_operands(linear, params), flags)

    return _TRANSPOSED.of(closed, key, make)


_TRANSPOSED = MemoTable[_TransposedBody]("transposed body of a scan")


def _transpose_body(
    closed: ClosedJaxpr, linear: list[list[bool]], nonzero: list[list[bool]]
) -> _TransposedBody:
    """Transpose the body of a scan.

    Args:
      closed: the body.
      linear: which of its constants, carry and xs are linear; all of the carry are.
      nonzero: which results have a cotangent, of the carry and of ys.
    """
    build = _Builder(closed, linear, nonzero[1])
    built: dict[tuple[bool, ...], _Built] = {}

    def body(flags: Sequence[bool]) -> _Built:
        if tuple(flags) not in built:
            built[tuple(flags)] = build(flags)
        return built[tuple(flags)]

    # Usually every constant gets a cotangent: try that first.
    reached = body([*[True] * build.n_const, *nonzero[0]]).consts_reached
    carried = fixpoint(lambda flags: body(flags).nonzero, [*reached, *nonzero[0]])
    made = body(carried)
    return _TransposedBody(made.closed, build.avals, build.n_const, carried, made.xs_nonzero)


class _Built(NamedTuple):
    """A body transposed for one choice of the carried cotangents that are nonzero.

    Attributes:
      closed: the transposed body.
      nonzero: for each carried cotangent whether it comes out nonzero.
      xs_nonzero: for each linear operand among xs whether its cotangent comes out nonzero.
      consts_reached: for each linear constant whether a step adds to its cotangent.
    """

    closed: ClosedJaxpr
    nonzero: list[bool]
    xs_nonzero: list[bool]
    consts_reached: list[bool]


class _Builder:
    """Transposes a body, given which of the carried cotangents are nonzero."""

    def __init__(
        self, closed: ClosedJaxpr, linear: list[list[bool]], ys_nonzero: list[bool]
    ) -> None:
        self.source, self.linear, self.ys_nonzero = closed, linear, ys_nonzero
        consts, carry, _ = self.binders = split_list(
            closed.jaxpr.in_binders, len(linear[0]), len(linear[1])
        )
        linear_consts = partition_list(linear[0], consts)[1]
        self.n_const = len(linear_consts)
        self.avals = [v.aval.strong for v in (*linear_consts, *carry)]

    def __call__(self, nonzero: Sequence[bool]) -> _Built:
        """Transpose the body for this choice of nonzero carried cotangents."""
        jaxpr = self.source.jaxpr
        consts, carry, xs = self.binders
        trace = JaxprTrace()
        with set_current_trace(trace):
            known_consts = trace.new_consts(self.source)
            const_args = _undefined(trace, consts, self.linear[0])
            before = [
                trace.new_input(a.tangent()) if nz else Zero(a)
                for a, nz in zip(self.avals, nonzero, strict=True)
            ]
            ys = [
                trace.new_input(x.aval.tangent()) if nz else Zero(x.aval)
                for x, nz in zip(jaxpr.outs[len(carry) :], self.ys_nonzero, strict=True)
            ]
            carry_args = [UndefPrimal(v.aval.strong) for v in carry]
            args = [*known_consts, *const_args, *carry_args]
            args += _undefined(trace, xs, self.linear[2])
            out = backward_pass(jaxpr, args, [*before[self.n_const :], *ys])
            const_cts, carry_cts, xs_cts = split_list(out, self.n_const, len(carry))
            sums = [
                add_tangents(a, b) for a, b in zip(before[: self.n_const], const_cts, strict=True)
            ]
            after = [*sums, *carry_cts]
            kept = [*map(instantiate, compress(after, nonzero))]
            results = [*kept, *[ct for ct in xs_cts if type(ct) is not Zero]]
        flags = [type(ct) is not Zero for ct in after]
        xs_flags = [type(ct) is not Zero for ct in xs_cts]
        reached = [type(ct) is not Zero for ct in const_cts]
        made = once(trace.finish(results))
        return _Built(made, flags, xs_flags, reached)


def _undefined(trace: JaxprTrace, binders: Sequence[Value], linear: Sequence[bool]) -> list[Value]:
    """Return an `UndefPrimal` for each linear binder, and a new argument for each other one."""
    return [
        UndefPrimal(v.aval.strong) if lin else trace.new_input(v.aval)
        for v, lin in zip(binders, linear, strict=True)
    ]


def _transpose_after_split(
    cts: Value, args: Sequence[Any], linear: Sequence[bool], params: dict[str, Any]
) -> list[Any]:
    """Transpose a scan of which a part of the carry is not linear: run that part forward, then transpose the rest."""
    cut = split_scan(linear, args, params, lambda f, *xs: f(*xs))
    n_carry = params["num_carry"]
    carry_cts = [ct for ct, u in zip(cts[:n_carry], cut.unks_out[:n_carry], strict=True) if u]
    ys_cts = [ct for ct, u in zip(cts[n_carry:], cut.unks_out[n_carry:], strict=True) if u]
    fields = scan_params(cut.closed, len(cut.consts), len(cut.carry), params)
    operands = [*cut.consts, *cut.carry, *cut.xs]
    out = transpose_scan([*carry_cts, *ys_cts], *operands, **fields)
    return spread(linear, [ct for ct, x in zip(out, operands, strict=True) if is_linear(x)])
