"""Convert the rules of `custom_jvp` and `custom_vjp` functions from JAX's callables to our jaxprs.

JAX keeps a rule as a function that traces it on demand, for a given pattern of zero tangents. The
rule is traced for the pattern in which every inexact argument has a tangent, or as many of them as
the rule accepts, and the jaxpr is kept. A rule commonly calls its own function again, whose rule is
traced too, and so on: `DEPTH` levels are kept, so that derivatives up to that order follow the
rules; below that the function itself is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.wide_types import with_wide_types
from jaxprtool.core.partition import split_list, spread
from jaxprtool.core.primitive import find_primitive
from jaxprtool.core.trace import scalar_lit
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.params import LostRule
from jaxprtool.makers.call_types import custom_jvp_types, custom_vjp_types

__all__ = [
    "DEPTH",
    "GivenConstants",
    "MadeOfOurs",
    "call_backward",
    "capture_custom_rule",
    "is_inexact",
    "no_tangent",
    "patterns",
    "wrapped_backward",
]

DEPTH = 2

Closed = Callable[[Any], ClosedJaxpr]


def capture_custom_rule(
    eqn: Any, closed: Closed, value: Callable[[Any], Any], active: list[Any] | None
) -> dict[str, Any]:
    """Return our params of a `custom_jvp_call`, `custom_vjp_call` or `custom_lin` equation of JAX.

    Args:
      eqn: the equation.
      closed: converts a jaxpr of JAX's.
      value: converts any other param.
      active: the rules that are being captured, outermost first; extended while one is. None to
        leave rules out.
    """
    replaced = _HELD[eqn.primitive.name]
    params = {k: value(v) for k, v in eqn.params.items() if k not in replaced}
    if "call_jaxpr" in eqn.params:
        params["name"] = private.function_name(eqn.params["call_jaxpr"].jaxpr)
    for theirs, ours in replaced.items():
        if ours:
            params[ours] = private.function_name(eqn.params[theirs])
    if isinstance(n := eqn.params.get("num_consts"), GivenConstants):
        params["num_consts"] = n.stated
    given = _of_ours(eqn, closed) if active is not None else None
    if given is not None:
        params.update(given)
    elif active is not None:
        try:
            params.update(_RULES[eqn.primitive.name](eqn, closed, active))
        except _Failed as e:
            lost = {name: LostRule(params[name], str(e)) for name in replaced.values() if name}
            params.update(lost)
    return params


class _Failed(Exception):
    """A rule cannot be traced any more; the text gives the reason."""


# The params that hold functions, and where their names go.
_HELD = {
    "custom_jvp_call": {"jvp_jaxpr_fun": "jvp"},
    "custom_vjp_call": {"fwd_jaxpr_thunk": "fwd", "bwd": "bwd", "out_trees": ""},
    "custom_lin": {"bwd": "bwd"},
}


# Whether a backward rule returns a dict of logs, or None, beside the cotangents: from 0.11 on.
_RULES_LOG = hasattr(jax.custom_vjp, "defvjp_with_logs")


def call_backward(held: Any, *args: Any) -> Sequence[Any]:
    """Return the cotangents of a backward rule that a param of a custom derivative holds."""
    given = private.call_function(held, *args)
    return given[0] if _RULES_LOG else given


def wrapped_backward(f: Callable[..., Any], name: Any) -> Any:
    """Return a backward rule that returns cotangents, in the form in which a param of a custom derivative holds it."""
    if not _RULES_LOG:
        return private.wrapped(f, name)
    return private.wrapped(lambda *args: (f(*args), None), name)


class GivenConstants(int):
    """`num_consts` of a custom call whose rule reads its constants: 0 for JAX, but printed as the
    number in the program.

    JAX gives a rule no constants, since its own rules close over them. Here JAX takes them for
    arguments.

    Attributes:
      stated: the number in the program.
    """

    stated: int

    def __new__(cls, stated: int) -> GivenConstants:
        self = super().__new__(cls, 0)
        self.stated = stated
        return self

    def __bool__(self) -> bool:
        return self.stated > 0

    def __repr__(self) -> str:
        return str(self.stated)


class MadeOfOurs:
    """A rule of a custom call for JAX, which `to_jax` made from a rule of a program.

    Attributes:
      function: the function that JAX calls.
      params: the rules of our equation from which it is made, as jaxprs of JAX's.
    """

    def __init__(self, function: Callable[..., Any], params: Mapping[str, Any]):
        self.function, self.params = function, params

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


def _of_ours(eqn: Any, closed: Closed) -> dict[str, Any] | None:
    """Return the rules of our equation from which `to_jax` made JAX's; None where JAX has changed the rule since."""
    held = eqn.params.get("jvp_jaxpr_fun") or eqn.params.get("fwd_jaxpr_thunk")
    made = getattr(held, "f", None)
    if not isinstance(made, MadeOfOurs) or held.transforms:
        return None
    call = closed(eqn.params["call_jaxpr"])
    found: dict[str, Any] = {
        k: closed(v) if isinstance(v, private.ClosedJaxpr) else v for k, v in made.params.items()
    }
    types = custom_jvp_types if "jvp_jaxpr" in found else custom_vjp_types
    try:
        types(*call.in_avals, call_jaxpr=call, name="", **found)
    except JaxprToolError:
        return None
    return found


def is_inexact(aval: Any) -> bool:
    """Whether values of this type (JAX's) have tangents."""
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, np.inexact)


def no_tangent(x: Any) -> Any:
    """Return the tangent of a value of JAX's that is known to be zero."""
    return private.NoTangent(private.type_of(x).to_tangent_aval())


def _guarded(fun: Any, active: list[Any], capture: Callable[[], Any], deeper: Any) -> Any:
    """Return the result of `capture()`, or `deeper` where the same rule is being captured already in `DEPTH` levels.

    A rule whose types are not those of its function is left out too: `vmap` makes such rules where
    the result of the function does not depend on the batched arguments and the tangent does. JAX
    cannot apply them either.

    Raises:
      _Failed: the rule cannot be traced any more.
    """
    key = private.function_place(fun)
    if active.count(key) >= DEPTH:
        return deeper
    active.append(key)
    try:
        return capture()
    except Exception as e:  # a user's function runs here, out of its context: any error is possible
        first = next(iter(str(e).splitlines()), "")
        raise _Failed(f"{type(e).__name__}: {first}" if first else type(e).__name__) from None
    finally:
        active.pop()


def _without_tracers(jaxpr: Any, consts: Sequence[Any]) -> Any:
    if any(isinstance(c, private.Tracer) for c in consts):
        raise ValueError("the rule closes over values of a function that is not traced any more")
    return private.ClosedJaxpr(jaxpr, list(consts))


_MOST_TRIES = 64


def patterns(flags: Sequence[bool], trace: Callable[[list[bool]], Any]) -> tuple[list[bool], Any]:
    """Return which arguments may have tangents, and the result of `trace` for this pattern.

    A rule may refuse tangents of some arguments, which then never have any. They are found by
    halving.

    Args:
      flags: which arguments can have tangents.
      trace: traces the rule for a pattern; raises any exception where the rule refuses.

    Raises:
      Exception: the last error of `trace`, where it accepts tangents of no argument.
    """
    chosen: list[int] = []
    found: Any = None
    error: Exception | None = None
    todo = [[i for i, f in enumerate(flags) if f]]
    for _ in range(_MOST_TRIES):
        if not todo:
            break
        more = todo.pop()
        pattern = [i in chosen or i in more for i in range(len(flags))]
        try:
            found = trace(pattern)
        except (
            Exception
        ) as e:  # a user's function runs here, out of its context: any error is possible
            error = e
            half = len(more) // 2
            todo += [more[half:], more[:half]] if half else []
        else:
            chosen += more
    if not chosen and error is not None:
        raise error
    return [i in chosen for i in range(len(flags))], found


def _jvp_rule(eqn: Any, closed: Closed, active: list[Any]) -> dict[str, Any]:
    call, fun, n = (eqn.params[k] for k in ("call_jaxpr", "jvp_jaxpr_fun", "num_consts"))
    flags = [is_inexact(a) for a in call.in_avals]

    def capture() -> ClosedJaxpr:
        with with_wide_types([*call.in_avals, *call.out_avals]):
            taken, traced = patterns(
                flags[n:], lambda given: private.call_function(fun, *[not g for g in given])
            )
        jaxpr, consts, out_zeros = traced
        rule = closed(_without_tracers(jaxpr, consts))
        primals, given = split_list(rule.jaxpr.in_binders, len(flags) - n)
        avals = closed(call).in_avals
        rest = iter(given)
        tangents = [
            next(rest) if t else Var(a.strong)
            for t, f, a in zip(taken, flags[n:], avals[n:], strict=True)
            if f
        ]
        extra = [Var(a.strong) for a in avals[:n]]
        extra_tangents = [Var(v.aval) for v, f in zip(extra, flags, strict=False) if f]
        binders = [*extra, *primals, *extra_tangents, *tangents]
        eqns = list(rule.jaxpr.eqns)
        outs = _all_tangents(rule, eqns, out_zeros, [is_inexact(a) for a in call.out_avals])
        jaxpr = Jaxpr(binders, eqns, outs, rule.jaxpr.const_binders)
        found = {"jvp_jaxpr": ClosedJaxpr(jaxpr, rule.consts)}
        custom_jvp_types(*avals, call_jaxpr=closed(call), name="", num_consts=n, **found)
        return found["jvp_jaxpr"]

    return {"jvp_jaxpr": _guarded(fun, active, capture, None)}


def _all_tangents(
    rule: ClosedJaxpr, eqns: list[JaxprEqn], out_zeros: Sequence[bool], inexact: Sequence[bool]
) -> list[Any]:
    """Return the results of a jvp rule with a tangent for each inexact one; equations of zeros are appended."""
    primals, given = split_list(rule.jaxpr.outs, len(out_zeros))
    tangents, rest = [], iter(given)
    for primal, zero, wanted in zip(primals, out_zeros, inexact, strict=True):
        tangent = None if zero else next(rest)
        if wanted:
            tangents.append(_zeros(primal.aval.strong, eqns) if tangent is None else tangent)
    return [*primals, *tangents]


def _zeros(aval: Any, eqns: list[JaxprEqn]) -> Any:
    """Return an atom that is zero; for an array an equation is appended."""
    zero = scalar_lit(0, aval.dtype)
    if not aval.shape:
        return zero
    var = Var(aval)
    params = {"shape": aval.shape, "broadcast_dimensions": (), "sharding": None}
    eqns.append(JaxprEqn(find_primitive("broadcast_in_dim"), [zero], params, [var]))
    return var


def _vjp_rule(eqn: Any, closed: Closed, active: list[Any]) -> dict[str, Any]:
    call, thunk, bwd = (eqn.params[k] for k in ("call_jaxpr", "fwd_jaxpr_thunk", "bwd"))
    n = eqn.params["num_consts"]
    consts_in, in_avals = split_list(call.in_avals, n)

    def trace(taken: list[bool]) -> Any:
        jaxpr, consts, residuals = _traced_forward(eqn.params, taken)
        constvars, _ = private.binders_of(jaxpr, len(consts))
        values = dict(zip(constvars, consts, strict=True))
        fixed = [x.val if isinstance(x, private.Literal) else values.get(x) for x in residuals]
        back = _trace_bwd(bwd, residuals, fixed, call.out_avals, in_avals, consts_in)
        return jaxpr, consts, back

    def capture() -> tuple[ClosedJaxpr, ClosedJaxpr]:
        with with_wide_types([*call.in_avals, *call.out_avals]):
            _, traced = patterns([is_inexact(a) for a in in_avals], trace)
        jaxpr, consts, back = traced
        fwd = closed(_without_tracers(jaxpr, consts))
        extra = [Var(a.strong) for a in closed(call).in_avals[:n]]
        takes_all = fwd.jaxpr.replace(in_binders=[*extra, *fwd.jaxpr.in_binders])
        fwd, bwd = fwd.replace(jaxpr=takes_all), closed(_without_tracers(back.jaxpr, back.consts))
        ours, found = closed(call), {"fwd_jaxpr": fwd, "bwd_jaxpr": bwd}
        custom_vjp_types(*ours.in_avals, call_jaxpr=ours, name="", num_consts=n, **found)
        return fwd, bwd

    fwd, back = _guarded(thunk, active, capture, (None, None))
    return {"fwd_jaxpr": fwd, "bwd_jaxpr": back}


def _traced_forward(params: Mapping[str, Any], taken: Sequence[bool]) -> tuple[Any, Any, list[Any]]:
    """Trace the forward rule of a `custom_vjp_call` where some of its arguments have tangents.

    Args:
      params: those of JAX's equation.
      taken: which arguments after the constants have tangents.

    Returns:
      The rule as a `Jaxpr` whose results are the residuals and the results of the function, the
        values of its `constvars`, and the residuals as atoms of that jaxpr.
    """
    jaxpr, consts = private.call_function(params["fwd_jaxpr_thunk"], *taken)
    # A residual that is an argument is no result: its position, constants counted, stands here.
    _, res_tree, forwards = params["out_trees"]()
    n_given = res_tree.num_leaves - sum(f is not None for f in forwards)
    given = iter(jaxpr.outvars[:n_given])
    n, (_, invars) = params["num_consts"], private.binders_of(jaxpr, len(consts))
    residuals = [next(given) if f is None else invars[f - n] for f in forwards]
    return private.with_outputs(jaxpr, [*residuals, *jaxpr.outvars[n_given:]]), consts, residuals


def _lin_rule(eqn: Any, closed: Closed, active: list[Any]) -> dict[str, Any]:
    p = eqn.params
    in_avals = [x.aval for x in eqn.invars]
    wanted = spread([not zero for zero in p["in_zeros"]], in_avals[p["num_res"] :])

    def capture() -> ClosedJaxpr:
        with with_wide_types([*in_avals, *p["out_avals"]]):
            residuals = eqn.invars[: p["num_res"]]
            fixed = [x.val if isinstance(x, private.Literal) else None for x in residuals]
            back = _trace_bwd(p["bwd"], residuals, fixed, p["out_avals"], wanted)
        return closed(_without_tracers(back.jaxpr, back.consts))

    return {"bwd_jaxpr": _guarded(p["bwd"], active, capture, None)}


def _trace_bwd(
    bwd: Any,
    residuals: Sequence[Any],
    fixed: Sequence[Any],
    out_avals: Sequence[Any],
    in_avals: Sequence[Any],
    consts_in: Sequence[Any] = (),
) -> Any:
    """Trace the backward rule as a jaxpr of JAX's: (*residuals, *cotangents) -> (*cotangents).

    Residuals are JAX's atoms, and `fixed` their values where the forward rule knows them (else
    None): a rule may look at those in Python. The results are the cotangents of the inexact
    constants (zeros) and arguments; an argument whose type is None is left out. The cotangents that
    it takes are those of the inexact results.
    """

    def run(*xs: Any) -> list[Any]:
        traced, cotangents = split_list(xs, len(residuals))
        rest = iter(cotangents)
        full = [
            next(rest) if is_inexact(a) else np.zeros(a.shape, jax.dtypes.float0) for a in out_avals
        ]
        known = [x if c is None else c for x, c in zip(traced, fixed, strict=True)]
        results = call_backward(bwd, *known, *full)
        zeros = [private.zeros_of_type(a) for a in consts_in if is_inexact(a)]
        return zeros + [
            ct if hasattr(ct, "dtype") else private.zeros_of_type(a)
            for ct, a in zip(results, in_avals, strict=True)
            if a is not None and is_inexact(a)
        ]

    cts = [a for a in out_avals if is_inexact(a)]
    return jax.make_jaxpr(run)(*[x.aval for x in residuals], *cts)


_RULES = {"custom_jvp_call": _jvp_rule, "custom_vjp_call": _vjp_rule, "custom_lin": _lin_rule}
