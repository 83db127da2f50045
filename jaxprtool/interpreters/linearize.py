"""linearize, vjp and grad of jaxprs: compositions of jvp, partial evaluation and transposition.

linearize is jvp with known primals and unknown tangents; vjp is linearize, then transpose. `gradients.py` has them for
Python functions.

Contract of a `linearize` rule, for primitives whose params hold jaxprs:

    rule(trace, primals, tangents, **params) -> (primals_out, tangents_out)

It is the jvp rule and its partial evaluation in one step, so that no jaxpr of the jvp is made. Primals are known; tangents
are tracers of `trace`, or Zero. For primitives without a `linearize` rule the jvp rule is partially evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import NamedTuple

from jaxprtool.core.bind import set_current_trace
from jaxprtool.core.rule_table import RuleTable, Unsupported
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import get_aval, inexact, is_inexact, scalar_lit
from jaxprtool.interpreters.dce import prune_consts
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.interpreters.interfaces import of_grad, of_linearize, of_vjp, with_interface
from jaxprtool.interpreters.jvp import (
    Zero,
    instantiate,
    jvp_interpret,
    jvp_rules,
)
from jaxprtool.interpreters.lost_rules import explain_lost_rule
from jaxprtool.interpreters.origins import within_jaxpr
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, parts
from jaxprtool.interpreters.reuse.copies import merge_residuals, once
from jaxprtool.interpreters.reuse.sharing import computes_again, rematerialised
from jaxprtool.interpreters.stage import JaxprTrace, JaxprTracer
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass, transpose_rules
from jaxprtool.ir.diagnostics import Diagnostic, UnsupportedError, UsageError, fail
from jaxprtool.ir.interface import argument_label
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Primitive, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = [
    "check_known",
    "grad_jaxpr",
    "linearize_body",
    "linearize_jaxpr",
    "linearize_rules",
    "vjp_jaxpr",
]

linearize_rules = RuleTable("linearize")


def check_known(trace: PartialEvalTrace, outs: Sequence[Value]) -> None:
    """Raise UnsupportedError for a result that depends on tangents: some jvp rules compute primal and tangent in one operation."""
    for i, x in enumerate(outs):
        if trace.is_unknown(x):
            eqn = _cause(trace.eqns, x.atom)
            why = "it is a tangent"
            if eqn is not None:
                inside = eqn.primitive.holds_jaxprs and not _is_not_linear(eqn)
                rule = f"the jvp rule of {'an operation in ' if inside else ''}{eqn.primitive}"
                why = _unlinearizable(eqn) or f"{rule} computes both at once"
            message = f"result {i} has no value without tangents: {why}"
            span = eqn.span if eqn else None
            error = UnsupportedError(
                Diagnostic(message, "no-known-value", span, "forward mode (jvp) works")
            )
            explain_lost_rule(error, span)
            raise error


def _cause(eqns: Sequence[JaxprEqn], result: Atom) -> JaxprEqn | None:
    """Return the equation that makes a value from tangents; None where the value is a tangent.

    It is the first on the way to the result that is not linear in tangents, or else that of the result.
    """
    needed, way = {result}, list[JaxprEqn]()
    for eqn in reversed(eqns):
        if not needed.isdisjoint(eqn.out_binders):
            needed.update(eqn.inputs)
            way.append(eqn)
    first = way[::-1]
    causes = (*filter(_is_not_linear, first), *filter(_holds_what_is_not_linear, first), *way)
    return next(iter(causes), None)


def _is_not_linear(eqn: JaxprEqn) -> bool:
    return isinstance(transpose_rules.find(eqn.primitive), Unsupported)


def _holds_what_is_not_linear(eqn: JaxprEqn) -> bool:
    """Whether a jaxpr of an equation has such an operation; that of a tangent may have it for known values."""
    return any(_is_not_linear(e) for closed in sub_jaxprs(eqn) for e in all_eqns(closed.jaxpr))


def _unlinearizable(eqn: JaxprEqn) -> str | None:
    """Return why an operation inside of an equation has no linearize rule; None where all have."""
    for inner in (e for closed in sub_jaxprs(eqn) for e in all_eqns(closed.jaxpr)):
        rule = linearize_rules.find(inner.primitive)
        if isinstance(rule, Unsupported):
            return f"{inner.primitive} in it has no linearize rule: {rule.why}"
    return None


class LinearParts(NamedTuple):
    """A linearized jaxpr.

    Attributes:
      primal: (a) -> (b, res).
      linear: (res, tangents of a) -> (tangents of b).
      flags: for each result whether it has a tangent.
      n_res: the number of residuals.
    """

    primal: ClosedJaxpr
    linear: ClosedJaxpr
    flags: list[bool]
    n_res: int


@deep
def linearize_body(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], wanted: Sequence[bool]
) -> LinearParts:
    """Linearize a jaxpr in a param; the result is cached for each combination of flags.

    Args:
      closed: (a) -> (b).
      nonzeros: for each argument whether it has a tangent.
      wanted: for each result whether its tangent is a result even if it is zero.
    """
    key = (tuple(nonzeros), tuple(wanted))
    made = _LINEARIZED.find(closed, key)
    if made is None:
        made = _Linearized(closed, nonzeros).split(wanted)
        if computes_again(closed, made.n_res):
            made = _Linearized(rematerialised(closed), nonzeros).split(wanted)
        _LINEARIZED.keep(closed, key, made)
        # also kept under the flags of the results, since some callers know those and ask by them
        _LINEARIZED.keep(closed, (tuple(nonzeros), tuple(made.flags)), made)
    return made


_LINEARIZED = MemoTable[LinearParts]("linearized")


class _Linearized:
    """A linearized jaxpr: the trace `first` recorded operations on primals, and `second` those on tangents."""

    def __init__(self, closed: ClosedJaxpr, wrt: Sequence[bool]):
        closed = transformable(closed)
        jaxpr = closed.jaxpr
        self.first = JaxprTrace()
        self.second = PartialEvalTrace(self.first)
        with set_current_trace(self.second):
            consts = self.first.new_consts(closed)
            primals = self.first.new_inputs(jaxpr.in_binders)
            tangents = [
                self.second.new_input(v.aval.tangent()) if w else Zero(v.aval)
                for v, w in zip(jaxpr.in_binders, wrt, strict=True)
            ]
            self.outs, self.out_tangents = jvp_interpret(
                jaxpr, consts, primals, tangents, self._apply, self._rule
            )
        check_known(self.second, self.outs)

    def _apply(self, eqn: JaxprEqn, primals: Sequence[Value]) -> list[Value]:
        """Apply an equation to the primals.

        They are known, unless a rule has computed one in the same operation as its tangent.
        """
        second = self.second
        for x in primals:
            if type(x) is JaxprTracer and x._trace is second:
                return bind_eqn(eqn, primals)
        return self.first.copy_eqn(eqn, primals)

    def _rule(self, primitive: Primitive) -> Callable[..., Value] | None:
        """Return the linearize rule of a primitive as a jvp rule; None where it has none.

        The jvp rule itself is used where a primal is unknown.
        """
        rule = linearize_rules.find(primitive) if primitive.holds_jaxprs else None
        if rule is None:
            return None

        def jvp_rule(
            primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
        ) -> Value:
            if any(map(self.second.is_unknown, primals)):
                return jvp_rules[primitive](primals, tangents, **params)
            return rule(self.second, primals, tangents, **params)

        return jvp_rule

    def split(self, wanted: Sequence[bool]) -> LinearParts:
        """Return both parts, with the tangents of results that are nonzero or wanted."""
        flags = [w or type(t) is not Zero for w, t in zip(wanted, self.out_tangents, strict=True)]
        with set_current_trace(self.second):
            kept = [*map(instantiate, compress(self.out_tangents, flags))]
        split = parts(self.first, self.outs, self.second.finish(kept))
        primal, linear, n_res = merge_residuals(*split)
        return LinearParts(primal, linear, flags, n_res)

    def forget_tangents(self) -> None:
        """Free the memory of the operations on tangents."""
        self.second, self.out_tangents = PartialEvalTrace(self.first), []


@deep
def linearize_jaxpr(
    closed: ClosedJaxpr, wrt: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """Linearize a jaxpr: split its jvp into a primal part and a linear part.

    Args:
      closed: (a) -> (b).
      wrt: for each argument whether it has a tangent; all inexact ones by default.

    Returns:
      primal: (a) -> (b, res); linear: (res, tangents of a) -> (tangents of the inexact b); and the number
      of residuals.
    """
    flags, flags_out = inexact(closed.in_avals) if wrt is None else wrt, inexact(closed.out_avals)
    lin = _Linearized(closed, flags)
    primal, linear, _, n_res = lin.split(flags_out)
    primal = prune_consts(primal)
    if closed.interface is not None:
        faces = of_linearize(closed.interface, flags, flags_out, n_res)
        primal, linear = map(with_interface, (primal, linear), faces)
    return primal, linear, n_res


@deep
def vjp_jaxpr(
    closed: ClosedJaxpr, wrt: Sequence[bool] | None = None, *, keep_outs: bool = True
) -> ClosedJaxpr:
    """Return the jaxpr of value and pullback: (a, cotangents of the inexact b) -> (b, cotangents of a).

    Args:
      closed: (a) -> (b).
      wrt: for each argument whether its cotangent is wanted; all inexact ones by default.
      keep_outs: whether b is among the results.
    """
    flags = inexact(closed.in_avals) if wrt is None else wrt
    lin = _Linearized(closed, flags)
    made = _pull_back(lin, keep_outs, lin.first.new_input)
    if closed.interface is None:
        return made
    flags_out = inexact(closed.out_avals)
    return with_interface(made, of_vjp(closed.interface, flags, flags_out, keep_outs=keep_outs))


def _pull_back(
    lin: _Linearized,
    keep_outs: bool,
    cotangent: Callable[[Value], Value],
    wanted: Sequence[int] | None = None,
) -> ClosedJaxpr:
    """Return the program of the results, if they are kept, and the cotangents of the arguments with a tangent.

    cotangent(aval) is the cotangent of a result. wanted: which of the arguments' cotangents; all by
    default.
    """
    results = _cotangents(lin, cotangent, wanted)
    return once(lin.first.finish([*(lin.outs if keep_outs else []), *results]))


def _cotangents(
    lin: _Linearized, cotangent: Callable[[Value], Value], wanted: Sequence[int] | None
) -> list[Value]:
    """Compute the cotangents of the arguments with a tangent in `lin.first`; see `_pull_back`.

    The tangents are dropped.
    """
    with set_current_trace(lin.first):
        avals = [get_aval(x) for x in lin.outs]
        cts = [cotangent(a.cotangent()) if is_inexact(a) else Zero(a) for a in avals]
        pairs = zip(lin.out_tangents, cts, strict=True)
        live = [(t, ct) for t, ct in pairs if type(t) is not Zero]
        linear = lin.second.build([t for t, _ in live])
        undef = [UndefPrimal(v.aval) for v in linear.jaxpr.in_binders]
        operands, back = [*linear.const_operands, *undef], within_jaxpr(linear.jaxpr, "transpose")
        cts = [ct for _, ct in live]
        # `back` stands for these operations from here on, which are half of all
        lin.forget_tangents()
        del linear, pairs, live
        out = backward_pass(back, operands, cts)
        return [instantiate(ct) for ct in (out if wanted is None else [out[i] for i in wanted])]


@deep
def grad_jaxpr(
    closed: ClosedJaxpr, wrt: Sequence[int] = (0,), *, with_value: bool = False
) -> ClosedJaxpr:
    """Return the jaxpr of the gradient: (a) -> (gradients by the arguments `wrt`), after the value with `with_value`.

    The gradient by a complex argument x + iy is df/dx - i df/dy, as JAX's.

    Raises:
      UsageError: not exactly one real scalar result; an argument of `wrt` that is an integer or
        does not exist.
    """
    closed = transformable(closed)
    avals = closed.out_avals
    if len(avals) != 1 or avals[0].shape != () or avals[0].dtype.kind != "f":
        got = ", ".join(map(str, avals)) or "none"
        fail(
            UsageError,
            f"grad needs one real floating scalar as the result, and the results are {got}",
            "grad-output",
            span=closed.jaxpr.span,
            help="use vjp, which takes a cotangent for each result",
        )
    for i in wrt:
        _check_wrt(closed, i)
    chosen = set(wrt)
    lin = _Linearized(closed, [i in chosen for i in range(len(closed.jaxpr.in_binders))])
    order = [sorted(chosen).index(i) for i in wrt]
    made = _pull_back(lin, with_value, lambda aval: scalar_lit(1.0, aval.dtype), order)
    if closed.interface is None:
        return made
    return with_interface(made, of_grad(closed.interface, len(order), with_value=with_value))


def _check_wrt(closed: ClosedJaxpr, i: int) -> None:
    binders = closed.jaxpr.in_binders
    if not 0 <= i < len(binders):
        message = f"there is no argument {i}: the program takes {len(binders)}"
        fail(UsageError, message, "argument-index")
    v = binders[i]
    if v.aval.dtype.kind not in "fc":
        fail(
            UsageError,
            f"grad needs real or complex floating arguments, and {argument_label(i, v.name, closed.interface)} is {v.aval}",
            "grad-input",
            span=v.span,
            help="choose other arguments with --wrt",
        )
