"""Transposition of linear functions. Reverse-mode differentiation is linearize, then transpose.

Contract of a `transpose` rule:

    rule(ct, *operands, **params) -> [cotangent of each operand]      (`cts`, a list, for multiple_results)

Operands in which the operation is linear are `UndefPrimal(aval)`; the others are values, and get None
back. A linear operand's cotangent has its aval, or is a Zero. `ct` is never a Zero; of several some may be.
A rule calls `not_linear` where its operation is not linear in the `UndefPrimal` operands.

Makers: `transpose_unary` and `NONLINEAR`, `ZERO` for those without a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool.core.bind import interpreted, interpreting, set_current_trace, state
from jaxprtool.core.env import Env
from jaxprtool.core.partition import check_flags, merge_lists, partition_list
from jaxprtool.core.rule_table import RuleTable, Unsupported, unsupported
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import Symbolic, get_aval, is_inexact
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.interpreters.interfaces import of_transpose, with_interface
from jaxprtool.interpreters.jvp import Zero, add_tangents, instantiate
from jaxprtool.interpreters.lost_rules import explain_lost_rule
from jaxprtool.interpreters.reuse.copies import once
from jaxprtool.interpreters.reuse.replay import Replayer
from jaxprtool.interpreters.stage import JaxprTrace
from jaxprtool.ir.diagnostics import JaxprToolError, NotLinearError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue

__all__ = [
    "NONLINEAR",
    "UndefPrimal",
    "backward_pass",
    "is_linear",
    "not_linear",
    "transpose_jaxpr",
    "transpose_rules",
    "transpose_unary",
]

transpose_rules = RuleTable("transpose")

NONLINEAR = unsupported("it is not linear in its operands")


class UndefPrimal(Symbolic):
    """A linear operand, of which only the type is known."""

    __slots__ = ()

    def __init__(self, aval: Aval):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefPrimal({self.aval})"

    def refuse_as_constant(self) -> NoReturn:
        """Raise NotLinearError: a rule uses the operand as a value, so the operation is not linear in it."""
        fail(NotLinearError, "a linear argument has no value", _NO_VALUE)


_NO_VALUE = "linear-value"


def is_linear(x: Value) -> bool:
    """Whether an operand of a transpose rule is a linear one."""
    return type(x) is UndefPrimal


def not_linear(primitive: str, why: str = "") -> NoReturn:
    """Raise the error for an operation that is not linear in its linear operands."""
    reason = f": {why}" if why else ""
    fail(
        NotLinearError,
        f"{primitive} is not linear in the arguments to transpose{reason}",
        "not-linear",
        help="linearize the program first, or name other arguments with --linear",
    )


def backward_pass(jaxpr: Jaxpr, args: Sequence[Value], cts_out: Sequence[Value]) -> list[Value]:
    """Pull cotangents back through a jaxpr, in the current trace.

    Args:
      jaxpr: linear in the linear arguments, for any values of the others.
      args: for each constant and argument its value, or an `UndefPrimal` for a linear one.
      cts_out: the cotangents of the results; Zero where there is none.

    Returns:
      For each linear argument, in order, its cotangent (or Zero).

    Raises:
      NotLinearError: an equation is not linear; the diagnostic names it and its position.
      MissingRuleError: an operation has no transpose, and why.
    """
    env = Env(zip(jaxpr.all_binders, args, strict=True))
    linear_args = [v for v, x in env.items() if type(x) is UndefPrimal]
    linear = set(linear_args)
    with interpreting():
        linear_eqns = _forward(jaxpr, env, linear)
        ct_env: dict[Any, Any] = {}
        replayer = Replayer(state.trace, linear_eqns)
        for x, ct in zip(jaxpr.outs, cts_out, strict=True):
            if x in linear and type(ct) is not Zero:
                ct_env[x] = add_tangents(ct_env[x], ct) if x in ct_env else ct
        for eqn in interpreted(linear_eqns[::-1]):
            inputs, binders = eqn.inputs, eqn.out_binders
            if ct_env.keys().isdisjoint(binders):
                continue
            if not is_inexact(binders[0].aval):
                linear_atoms = (*binders, *(x for x in inputs if x in linear))
                if not any(is_inexact(x.aval) for x in linear_atoms):
                    continue  # from integers to integers: the cotangents are zero, and need no rule
            if eqn.primitive.multiple_results:
                ct = [ct_env.pop(v) if v in ct_env else Zero(v.aval) for v in binders]
                cts = ct
            else:
                ct = ct_env.pop(binders[0])
                cts = [ct]
            ins = env.read(inputs)
            if eqn in replayer.often:
                cts_in = replayer.apply(eqn, [*cts, *ins], (), _transpose_eqn, eqn, ct, ins)
            else:
                cts_in = _transpose_eqn(eqn, ct, ins)
            for x, ct_in in zip(inputs, cts_in, strict=True):
                if ct_in is None or type(ct_in) is Zero or x not in linear:
                    continue
                if is_inexact(x.aval):  # other types have zero cotangents
                    ct_env[x] = add_tangents(ct_env[x], ct_in) if x in ct_env else ct_in
    return [ct_env[v] if v in ct_env else Zero(v.aval) for v in linear_args]


def _forward(jaxpr: Jaxpr, env: Env, linear: set[Value]) -> list[JaxprEqn]:
    """Apply the equations that depend on no linear argument.

    Returns the other equations, and adds the variables that they bind to `linear`.
    """
    rest = []
    for eqn in interpreted(jaxpr.eqns):
        if linear.isdisjoint(eqn.inputs):
            env.write(eqn.out_binders, bind_eqn(eqn, env.read(eqn.inputs)))
        else:
            rest.append(eqn)
            for v in eqn.out_binders:
                env[v] = UndefPrimal(v.aval)
            linear.update(eqn.out_binders)
    return rest


def _transpose_eqn(eqn: JaxprEqn, ct: Value, ins: list[Value]) -> Sequence[Value]:
    """Return the cotangents of an equation's operands, given those of its results."""
    primitive = eqn.primitive
    rule = transpose_rules.rules.get(primitive) or transpose_rules[primitive]
    try:
        return rule(ct, *ins, **eqn.params)
    except JaxprToolError as e:
        if isinstance(rule, Unsupported) and rule.why == NONLINEAR.why:
            not_linear(primitive.name)
        if e.diagnostics[0].code == _NO_VALUE:
            not_linear(primitive.name, "several of its operands depend on them")
        explain_lost_rule(e, eqn.span)
        raise


@deep
def transpose_jaxpr(
    closed: Jaxpr | ClosedJaxpr,
    linear: Sequence[bool],
    nonzero_cts: Sequence[bool] | None = None,
    *,
    instantiate_cts: bool | Sequence[bool] = True,
) -> tuple[ClosedJaxpr, list[bool]]:
    """Transpose a jaxpr.

    Args:
      closed: (a, b) -> c, linear in b.
      linear: for each argument whether it is one of b.
      nonzero_cts: for each result whether it has a cotangent; all of them by default.
      instantiate_cts: whether cotangents that are zero are results too, for all or for each of b.

    Returns:
      (a, ct of c) -> (ct of b), and for each of b whether its cotangent is among the results.

    Raises:
      NotLinearError: an equation is not linear in b; MissingRuleError: a primitive has no `transpose` rule.
      UsageError: there are more or fewer `linear` than arguments.
    """
    closed = transformable(closed)
    nonzero = nonzero_cts if nonzero_cts is not None else [True] * len(closed.jaxpr.outs)
    wanted = instantiate_cts
    if isinstance(wanted, bool):
        wanted = [wanted] * sum(linear)
    key = (tuple(linear), tuple(nonzero), tuple(wanted))
    found = _TRANSPOSED.find(closed, key)
    if found is None:
        check_flags("transpose_jaxpr", linear, closed.in_avals)
        made, flags = _transpose_jaxpr(closed, linear, nonzero, wanted)
        if closed.interface is not None:
            made = with_interface(made, of_transpose(closed.interface, linear, nonzero, flags))
        found = _TRANSPOSED.keep(closed, key, (made, flags))
        # also kept under the flags of the results, since some callers know those and ask by them
        _TRANSPOSED.keep(closed, (tuple(linear), tuple(nonzero), tuple(found[1])), found)
    return found


_TRANSPOSED = MemoTable[tuple[ClosedJaxpr, list[bool]]]("transposed")


def _transpose_jaxpr(
    closed: ClosedJaxpr, linear: Sequence[bool], nonzero: Sequence[bool], wanted: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    jaxpr = closed.jaxpr
    trace = JaxprTrace()
    with set_current_trace(trace):
        others, lin_binders = partition_list(linear, jaxpr.in_binders)
        undef: list[Value] = [UndefPrimal(v.aval.strong) for v in lin_binders]
        consts, inputs = trace.new_consts(closed), trace.new_inputs(others)
        args = [*consts, *merge_lists(linear, inputs, undef)]
        cts = [
            trace.new_input(x.aval.cotangent()) if nz else Zero(x.aval)
            for x, nz in zip(jaxpr.outs, nonzero, strict=True)
        ]
        out = backward_pass(jaxpr, args, cts)
        flags = [w or type(ct) is not Zero for w, ct in zip(wanted, out, strict=True)]
        results = [instantiate(ct) for ct, flag in zip(out, flags, strict=True) if flag]
    return once(trace.finish(results)), flags


# -- makers ------------------------------------------------------------------------------------


def transpose_unary(f: Callable[..., Value]) -> Callable[..., Value]:
    """Return the rule of a linear operation of one operand: f(ct, operand's aval, **params) is its cotangent."""

    def rule(ct: Value, x: Value, **params: ParamValue) -> list[Value]:
        return [f(ct, get_aval(x), **params) if is_linear(x) else None]

    return rule
