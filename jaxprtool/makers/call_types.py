"""Types of calls, and of the derivative rules that functions bring along.

Derivative rules are jaxprs in params, which run only when the function is differentiated. So the
type of a call does not depend on them, but a rule that does not fit the function is a type error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.trace import inexact
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import AbstractType, ShapedArray
from jaxprtool.ir.diagnostics import are, counted
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value, Var, type_of
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import same_but_for_placement
from jaxprtool.ir.trees import TreeDefinition

__all__ = [
    "alike",
    "tree_call_types",
    "check_call",
    "check_leaves",
    "custom_jvp_types",
    "custom_lin_types",
    "custom_vjp_types",
]


def check_call(
    name: str,
    closed: ClosedJaxpr,
    args: Sequence[Value],
    param: str = "jaxpr",
    *,
    tracked: bool = True,
) -> list[Value]:
    """Return the result types of a call; raise a type error when the operands do not fit the jaxpr.

    tracked: whether operands have to vary along the same axes as the arguments of the jaxpr.
    """
    if not isinstance(closed, ClosedJaxpr):
        ill_typed(f"{name}: the param {param} is not a jaxpr: {closed}", "bad-param")
    binders = closed.jaxpr.in_binders
    if len(args) != len(binders):
        ill_typed(
            f"{name}: its jaxpr takes {counted(len(binders), 'argument')}, and {are(len(args))} given",
            "argument-count",
        )
    if [*map(type_of, binders)] != [*args]:
        _check_operands(name, args, binders, same_but_for_placement if tracked else alike)
    return [*map(type_of, closed.jaxpr.outs)]


def check_leaves(name: str, param: str, tree: ParamValue, n: int, what: str) -> None:
    """Raise a type error where a tree has another number of leaves than there are values.

    A tree whose number of leaves is not known is accepted. `what` names the values of the leaves:
    "operand".
    """
    leaves = tree.count() if isinstance(tree, TreeDefinition) else None
    if leaves is not None and leaves != n:
        has = "1 leaf" if leaves == 1 else f"{leaves} leaves"
        ill_typed(f"{name}: {param}={tree} has {has}, for {counted(n, what)}", "bad-param")


def tree_call_types(name: str) -> Callable[..., list[Value]]:
    """Return the type rule of a primitive that calls `call`, and whose params hold the trees of
    arguments and results.
    """

    def rule(
        *avals: Aval, call: ClosedJaxpr, in_tree: ParamValue, out_tree: ParamValue, **_: ParamValue
    ) -> list[Value]:
        outs = check_call(name, call, avals, "call")
        check_leaves(name, "in_tree", in_tree, len(avals), "operand")
        check_leaves(name, "out_tree", out_tree, len(outs), "result")
        return outs

    return rule


def _check_operands(
    name: str,
    args: Sequence[Value],
    binders: Sequence[Var],
    fits: Callable[[AbstractType, AbstractType], bool],
) -> None:
    """Report the first operand whose type the jaxpr does not accept."""
    for i, (a, v) in enumerate(zip(args, binders, strict=True)):
        if a is not v.aval.strong and not fits(a, v.aval):
            ill_typed(
                f"{name}: operand {i} is {a}, and the jaxpr takes {v.aval} there", "argument-type"
            )


def alike(a: Value, b: Value) -> bool:
    """Whether two types are equal apart from placement, memory and varying axes."""
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return a.shape == b.shape and a.dtype is b.dtype
    return same_but_for_placement(a, b)


def _check_rule(
    what: str, param: str, rule: ClosedJaxpr, ins: Sequence[Value], outs: Sequence[Value]
) -> None:
    """Reject a derivative rule that is not a function between these types."""
    for verb, have, need in (("takes", rule.in_avals, ins), ("gives", rule.out_avals, outs)):
        if len(have) != len(need) or not all(map(alike, have, need)):
            given, wanted = [
                f"({', '.join(str(a.strong) for a in avals)})" for avals in (have, need)
            ]
            ill_typed(f"{what}: {param} {verb} {given}, and {wanted} is needed", "rule-type")


def _check_count(what: str, param: str, n: int, most: int, of: str) -> None:
    if not 0 <= n <= most:
        ill_typed(f"{what}: {param} is {n}, and there are {most} {of}", "param-value")


def _tangents(avals: Sequence[Aval]) -> list[Value]:
    """Return the types of the tangents of those types that have tangents."""
    return [a.strong for a, flag in zip(avals, inexact(avals), strict=True) if flag]


def custom_jvp_types(
    *avals: Aval, call_jaxpr: ClosedJaxpr, name: str, jvp_jaxpr: Any, num_consts: int, **_: Any
) -> list[Aval]:
    """The type rule of custom_jvp_call; its rule is (args, tangents) -> (results, tangents)."""
    what = f"custom_jvp_call of {name}"
    outs = check_call(what, call_jaxpr, avals, "call_jaxpr")
    _check_count(what, "num_consts", num_consts, len(avals), "operands")
    if jvp_jaxpr is not None:
        ins = [*avals, *_tangents(avals)]
        _check_rule(what, "jvp_jaxpr", jvp_jaxpr, ins, [*outs, *_tangents(outs)])
    return outs


def custom_vjp_types(
    *avals: Aval,
    call_jaxpr: ClosedJaxpr,
    name: str,
    num_consts: int,
    fwd_jaxpr: Any,
    bwd_jaxpr: Any,
    **_: Any,
) -> list[Any]:
    """The type rule of custom_vjp_call.

    fwd_jaxpr: (args) -> (residuals, results); bwd_jaxpr: (residuals, cotangents of results) -> cotangents of args.
    """
    what = f"custom_vjp_call of {name}"
    outs = check_call(what, call_jaxpr, avals, "call_jaxpr")
    _check_count(what, "num_consts", num_consts, len(avals), "operands")
    if (fwd_jaxpr is None) != (bwd_jaxpr is None):
        missing = "fwd_jaxpr" if fwd_jaxpr is None else "bwd_jaxpr"
        ill_typed(f"{what}: {missing} is missing, of a rule that has the other half", "rule-type")
    if fwd_jaxpr is not None:
        n_res = max(len(fwd_jaxpr.out_avals) - len(outs), 0)
        residuals = fwd_jaxpr.out_avals[:n_res]
        _check_rule(what, "fwd_jaxpr", fwd_jaxpr, avals, [*residuals, *outs])
        cotangents = _tangents(outs)
        _check_rule(what, "bwd_jaxpr", bwd_jaxpr, [*residuals, *cotangents], _tangents(avals))
    return outs


def custom_lin_types(
    *avals: Aval, num_res: int, bwd_jaxpr: Any, out_avals: Any, **_: Any
) -> list[Any]:
    """The type rule of custom_lin; bwd_jaxpr: (residuals, cotangents of results) -> cotangents of tangents."""
    if out_avals is None:
        ill_typed("custom_lin: the types of its results are not in the text", "missing-param")
    _check_count("custom_lin", "num_res", num_res, len(avals), "operands")
    if bwd_jaxpr is not None:
        ins = [*avals[:num_res], *_tangents(out_avals)]
        _check_rule("custom_lin", "bwd_jaxpr", bwd_jaxpr, ins, avals[num_res:])
    return list(out_avals)
