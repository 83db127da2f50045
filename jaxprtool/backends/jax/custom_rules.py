"""Convert the rules of `custom_jvp` and `custom_vjp` functions from our jaxprs to JAX's callables.

The inverse of `backends.jax.rules`. Where a program holds no rule, that of JAX's own function is
taken, or the function itself is differentiated.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax.private import jaxpr_as_fun, wrapped, zeros_of_type
from jaxprtool.backends.jax.rules import (
    GivenConstants,
    MadeOfOurs,
    is_inexact,
    wrapped_backward,
)
from jaxprtool.core.partition import merge_lists, partition_list, split_list, spread
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var
from jaxprtool.rules.jax_functions import known_function

__all__ = ["rebuild_custom_rule"]

Closed = Callable[..., Any]


def rebuild_custom_rule(
    eqn: JaxprEqn, closed: Closed, to_aval: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return JAX's params of a `custom_jvp_call`, `custom_vjp_call` or `custom_lin` equation of ours.

    Args:
      eqn: the equation.
      closed: converts a jaxpr of ours to JAX's, given a name for it.
      to_aval: converts a type.
    """
    p = eqn.params
    if eqn.primitive.name == "custom_lin":
        return _lin_params(eqn, closed, to_aval)
    call = closed(p["call_jaxpr"], str(p["name"]))
    n, rule = p["num_consts"], p["jvp_jaxpr" if "jvp_jaxpr" in p else "fwd_jaxpr"]
    if _reads_constants(rule, n):
        n = GivenConstants(n)
    shared = {"call_jaxpr": call, "num_consts": n, "symbolic_zeros": p["symbolic_zeros"]}
    if eqn.primitive.name == "custom_jvp_call":
        known = known_function(p) if rule is None else None
        differentiate = (
            _jvp_function(call, rule, closed)
            if known is None
            else lambda *xs: jaxpr_as_fun(closed(known.jaxpr(p)))(*xs)  # has the same call inside
        )
        if isinstance(n, GivenConstants):
            differentiate = _without_tangents(differentiate, call.in_avals, n.stated)
        thunk = functools.cache(functools.partial(_jvp_thunk, call, n, differentiate))
        held = _held(p, closed, "jvp_jaxpr")
        return {**shared, "jvp_jaxpr_fun": wrapped(MadeOfOurs(thunk, held), p["jvp"])}
    return {**shared, **_vjp_params(call, p, closed, n)}


def _held(params: dict[str, Any], closed: Closed, *rules: str) -> dict[str, Any]:
    """Return the params that `MadeOfOurs` keeps: the rules as jaxprs of JAX's, None where there is none."""
    held = {k: None if params[k] is None else closed(params[k]) for k in rules}
    return {**held, "num_consts": params["num_consts"]}


def _reads_constants(rule: ClosedJaxpr | None, n: int) -> bool:
    """Whether a rule needs the values of the first `n` operands, as the function itself does where
    it stands for a rule.
    """
    if rule is None or not n:
        return n > 0
    constants = {*rule.jaxpr.in_binders[:n]}
    atoms = itertools.chain(rule.jaxpr.outs, *(e.inputs for e in rule.jaxpr.eqns))
    return any(isinstance(x, Var) and x in constants for x in atoms)


def _without_tangents(rule: Callable[..., Any], in_avals: Sequence[Any], n: int) -> Any:
    """Return the rule with zeros in place of the tangents of the first `n` operands."""
    skipped = sum(map(is_inexact, in_avals[:n]))

    def differentiate(*xs: Any) -> Any:
        primals, tangents = split_list(xs, len(in_avals))
        fixed = [zeros_of_type(a) for a in in_avals[:n] if is_inexact(a)]
        return rule(*primals, *fixed, *tangents[skipped:])

    return differentiate


def _jvp_function(call: Any, rule: ClosedJaxpr | None, closed: Closed) -> Callable[..., Any]:
    """(*primals, *tangents of the inexact ones) -> [*primals_out, *tangents of the inexact ones]."""
    if rule is not None:
        return jaxpr_as_fun(closed(rule))
    flags = [is_inexact(a) for a in call.in_avals]

    def differentiate(*xs: Any) -> list[Any]:
        primals, tangents = split_list(xs, len(flags))
        fixed = [_float0(x) for f, x in zip(flags, primals, strict=True) if not f]
        full = merge_lists(flags, fixed, tangents)
        outs, out_tangents = jax.jvp(jaxpr_as_fun(call), primals, full)
        kept = [t for t, a in zip(out_tangents, call.out_avals, strict=True) if is_inexact(a)]
        return [*outs, *kept]

    return differentiate


def _jvp_thunk(call: Any, n: int, rule: Callable[..., Any], *in_zeros: bool) -> Any:
    """Trace the rule for a pattern of zero tangents: (jaxpr, consts, for each result whether its tangent is zero).

    As in JAX, constants (the first `n` operands) are not passed and have no tangents; zeros stand
    for them, which the rule does not read.
    """
    consts_in, in_avals = split_list(call.in_avals, n)
    given = [a for a, zero in zip(in_avals, in_zeros, strict=True) if not zero]

    def traced(*xs: Any) -> list[Any]:
        primals, tangents = split_list(xs, len(in_avals))
        rest = iter(tangents)
        placeholders = [zeros_of_type(a) for a in consts_in]
        full = [zeros_of_type(a) for a in consts_in if is_inexact(a)]
        for a, zero in zip(in_avals, in_zeros, strict=True):
            tangent = None if zero else next(rest)
            if is_inexact(a):
                full.append(zeros_of_type(a) if tangent is None else tangent)
        outs, out_tangents = split_list(rule(*placeholders, *primals, *full), len(call.out_avals))
        live = iter(out_tangents)
        return [*outs, *[next(live) if is_inexact(a) else _float0(a) for a in call.out_avals]]

    tangent_avals = [a.to_tangent_aval() for a in given]
    jaxpr = jax.make_jaxpr(traced)(*in_avals, *tangent_avals)
    return jaxpr.jaxpr, jaxpr.consts, [False] * len(call.out_avals)


def _float0(x: Any) -> Any:
    """Return the tangent of a value or a type that has none."""
    return np.zeros(np.shape(x), jax.dtypes.float0)


def _dense(ct: Any) -> Any:
    """Return a cotangent as an array; where a rule asks for symbolic zeros, JAX passes objects for some."""
    symbolic = isinstance(ct, jax.custom_derivatives.SymbolicZero)
    return zeros_of_type(ct.aval) if symbolic else ct


def _vjp_params(call: Any, p: dict[str, Any], closed: Closed, n: int) -> dict[str, Any]:
    fixed = p["num_consts"]
    consts_in, in_avals = split_list(call.in_avals, n)
    fwd, bwd, n_res = _vjp_functions(call, p, closed)

    @functools.cache
    def fwd_thunk(*_nonzeros: bool) -> Any:
        def traced(*xs: Any) -> list[Any]:
            return fwd(*[zeros_of_type(a) for a in consts_in], *xs)

        jaxpr = jax.make_jaxpr(traced)(*in_avals)
        return jaxpr.jaxpr, jaxpr.consts

    def out_trees() -> Any:
        structure = jax.tree.structure
        outs, residuals = (0,) * len(call.out_avals), (0,) * n_res
        return structure(outs), structure(residuals), [None] * n_res

    held = _held(p, closed, "fwd_jaxpr", "bwd_jaxpr")
    return {
        "fwd_jaxpr_thunk": wrapped(MadeOfOurs(fwd_thunk, held), p["fwd"]),
        "bwd": wrapped_backward(
            _flat_bwd(bwd, n_res, call.out_avals, call.in_avals, n, fixed), p["bwd"]
        ),
        "out_trees": out_trees,
    }


def _vjp_functions(call: Any, p: dict[str, Any], closed: Closed) -> tuple[Any, Any, int]:
    """Return the rules as functions of all operands, and the number of residuals."""
    if p["fwd_jaxpr"] is not None and p["bwd_jaxpr"] is not None:
        n_res = len(p["fwd_jaxpr"].out_avals) - len(call.out_avals)
        return jaxpr_as_fun(closed(p["fwd_jaxpr"])), jaxpr_as_fun(closed(p["bwd_jaxpr"])), n_res
    flags = [is_inexact(a) for a in call.in_avals]

    def fwd(*xs: Any) -> list[Any]:
        return [*xs, *jaxpr_as_fun(call)(*xs)]

    def bwd(*xs: Any) -> list[Any]:
        primals, cotangents = split_list(xs, len(flags))
        fixed, free = partition_list(flags, primals)

        def of_free(*free: Any) -> list[Any]:
            outs = jaxpr_as_fun(call)(*merge_lists(flags, fixed, free))
            return [x for x, a in zip(outs, call.out_avals, strict=True) if is_inexact(a)]

        return list(jax.vjp(of_free, *free)[1](cotangents))

    return fwd, bwd, len(flags)


def _flat_bwd(
    bwd: Callable[..., Any],
    n_res: int,
    out_avals: Sequence[Any],
    in_avals: Sequence[Any],
    n_consts: int,
    fixed: int,
) -> Callable[..., list[Any]]:
    """Return a backward rule as JAX calls it.

    It takes the cotangents of all results, and returns those of all arguments but `n_consts`
    constants; those of the first `fixed` arguments are zero.
    """

    def flat(*xs: Any) -> list[Any]:
        residuals, cotangents = split_list(xs, n_res)
        kept = [_dense(ct) for ct, a in zip(cotangents, out_avals, strict=True) if is_inexact(a)]
        rest = iter(bwd(*residuals, *kept))
        full = [next(rest) if is_inexact(a) else _float0(a) for a in in_avals]
        zeros = [
            zeros_of_type(a) if is_inexact(a) else x
            for a, x in zip(in_avals, full[:fixed], strict=False)
        ]
        return [*zeros, *full[fixed:]][n_consts:]

    return flat


def _lin_params(eqn: JaxprEqn, closed: Closed, to_aval: Callable[[Any], Any]) -> dict[str, Any]:
    p = eqn.params
    rule = None if p["bwd_jaxpr"] is None else closed(p["bwd_jaxpr"])
    outs = [to_aval(v.aval) for v in eqn.out_binders]
    zeros = list(p["in_zeros"])

    def flat(*xs: Any) -> list[Any]:
        if rule is None:
            message = "the backward rule of this custom_lin is not in the text"
            fail(UnsupportedError, message, "no-rule")
        residuals, cotangents = split_list(xs, p["num_res"])
        kept = [_dense(ct) for ct, a in zip(cotangents, outs, strict=True) if is_inexact(a)]
        return spread([not z for z in zeros], jaxpr_as_fun(rule)(*residuals, *kept))

    return {
        "num_res": p["num_res"],
        "in_zeros": zeros,
        "out_avals": outs,
        "symbolic_zeros": p["symbolic_zeros"],
        "bwd": wrapped_backward(flat, p["bwd"]),
    }
