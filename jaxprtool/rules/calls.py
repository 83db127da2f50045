"""Rows of the calls: `jit`, and functions with derivatives of their own; and the Python function `jit`.

A call's rules transform the jaxpr that it calls, and call the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import base_trace, in_place, state
from jaxprtool.core.partition import split_list
from jaxprtool.core.rule_table import Maker, unsupported
from jaxprtool.core.trace import Tracer, get_aval
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.batch import materialize, vmap_jaxpr
from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.cost import FREE, cost_jaxpr
from jaxprtool.interpreters.dce import call_dce_rule, dce_body, rebound
from jaxprtool.interpreters.evaluate import bind_eqn, prepared
from jaxprtool.interpreters.jvp import Zero, instantiate, jvp_interpret, jvp_jaxpr
from jaxprtool.interpreters.limits import count_call
from jaxprtool.interpreters.linearize import linearize_body
from jaxprtool.interpreters.partial_eval import PartialEvalTrace, call_known_part, split_call
from jaxprtool.interpreters.remat import Saves, Saving, split_saving
from jaxprtool.interpreters.sharing import apply_jaxpr, derived, multiplies
from jaxprtool.interpreters.stage import argument_names, flatten_fun, stage
from jaxprtool.interpreters.transpose import (
    UndefPrimal,
    backward_pass,
    is_linear,
    not_linear,
    transpose_jaxpr,
)
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.rules.call_types import (
    check_call,
    custom_jvp_types,
    custom_lin_types,
    custom_vjp_types,
    inexact,
)
from jaxprtool.rules.define import define

__all__ = ["CallRules", "CustomRuleWarning", "jit", "set_compiler"]


class CustomRuleWarning(UserWarning):
    """A function has a derivative of its own that the text does not hold."""


# -- what all calls share ----------------------------------------------------------------------


class CallImpl:
    """Evaluation of a call on NumPy: the jaxpr's own loop, prepared once."""

    def __init__(self, param: str):
        self.param = param

    def __call__(self, xp: Any, *args: Any, **params: Any) -> list[Any]:
        count_call()
        return xp.run(params[self.param], args)

    def prepare(self, xp: Any, in_avals: Any, out_avals: Any, params: Any) -> Any:
        closed: ClosedJaxpr = params[self.param]
        if closed.consts:
            return lambda *args: self(xp, *args, **params)
        program, span = prepared(closed.jaxpr), closed.jaxpr.span

        def run(*args: Any) -> list[Any]:
            count_call(span)
            return program.run(args)

        return run


def inline_jvp(
    closed: ClosedJaxpr, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """jvp of a jaxpr, its equations applied in the current trace (or called: Note [In place or called])."""
    if multiplies(closed):
        return _JIT.jvp(primals, tangents, **_jit_params(closed))
    return jvp_interpret(in_place(closed.jaxpr), closed.consts, primals, tangents, bind_eqn)


def inline_transpose(cts: Sequence[Any], args: Sequence[Any], closed: ClosedJaxpr) -> list[Any]:
    """Cotangents of the linear operands of a call, None for the others."""
    if multiplies(closed):
        return _JIT.transpose(cts, *args, **_jit_params(closed))
    out = iter(backward_pass(in_place(closed.jaxpr), [*closed.consts, *args], cts))
    return [next(out) if is_linear(x) else None for x in args]


class CallRules:
    """The columns of a primitive that applies a jaxpr to its operands: transform it, and call the result.

    Attributes:
      op: the binding function.
      param: the param that holds the jaxpr.
      update: what becomes of the params when the operands change.
    """

    def __init__(
        self,
        op: Any,
        param: str = "jaxpr",
        update: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: params,
    ):
        self.op, self.param, self.update = op, param, update

    def columns(self) -> dict[str, Any]:
        """The columns, by the keywords of `define`; all but `impl` and `cost` can be replaced."""
        name, param = self.op.primitive.name, self.param
        return {
            "abstract_eval": lambda *avals, **params: check_call(name, params[param], avals, param),
            "impl": CallImpl(param),
            "jvp": self.jvp,
            "transpose": self.transpose,
            "batch": self.batch,
            "lower": lambda ctx, *args, **params: ctx.inline(params[param], args),
            "cost": lambda ins, outs, **params: cost_jaxpr(params[param]),
            "partial_eval": self.partial_eval,
            "saving": self.saving,
            "dce": call_dce_rule(param),
        }

    def fields(self, closed: ClosedJaxpr, params: dict[str, Any]) -> dict[str, Any]:
        """The params of a call of a transformed jaxpr."""
        return {**self.update(params), self.param: closed}

    def apply(self, closed: ClosedJaxpr, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """Call a transformed jaxpr."""
        return self.op(*args, **self.fields(closed, params))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        nonzeros = [type(t) is not Zero for t in tangents]
        transformed, flags = jvp_jaxpr(params[self.param], nonzeros, instantiate_outs=False)
        live = [t for t in tangents if type(t) is not Zero]
        outs = self.apply(transformed, [*primals, *live], params)
        primals_out, live_out = split_list(outs, len(flags))
        rest = iter(live_out)
        return primals_out, [
            next(rest) if flag else Zero(get_aval(p))
            for p, flag in zip(primals_out, flags, strict=True)
        ]

    def batch(self, axis_size: int, vals: Any, dims: Any, **params: Any) -> Any:
        batched, out_dims = vmap_jaxpr(params[self.param], axis_size, dims, None)
        return self.apply(batched, vals, params), out_dims

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        linear = [is_linear(x) for x in args]
        nonzero = [type(ct) is not Zero for ct in cts]
        transposed, flags = self.transposed(params[self.param], linear, nonzero)
        operands = [x for x in args if not is_linear(x)]
        operands += [ct for ct in cts if type(ct) is not Zero]
        outs = iter(self.apply(transposed, operands, params) if any(flags) else [])
        linear_cts = iter(
            next(outs) if flag else Zero(x.aval)
            for flag, x in zip(flags, filter(is_linear, args), strict=True)
        )
        return [next(linear_cts) if is_linear(x) else None for x in args]

    def transposed(
        self, closed: ClosedJaxpr, linear: Sequence[bool], nonzero: Sequence[bool]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """The transpose of the jaxpr: (non-linear arguments, cotangents) -> (cotangents)."""
        return transpose_jaxpr(closed, linear, nonzero, instantiate_cts=False)

    def saving(self, eqn: JaxprEqn, unks: Sequence[bool], saves: Saves) -> Saving | None:
        """Both computations have the body in the place of the call."""
        return split_saving(eqn.params[self.param], unks, saves)

    def partial_eval(
        self, trace: PartialEvalTrace, args: Sequence[Any], **params: Any
    ) -> list[Any]:
        return split_call(
            trace,
            params[self.param],
            args,
            lambda c, xs: self.apply(c, xs, params),
            lambda c, xs: self.record(trace, c, xs, params),
        )

    def record(
        self, trace: PartialEvalTrace, closed: ClosedJaxpr, args: list[Any], params: dict[str, Any]
    ) -> list[Any]:
        """Record the call of an unknown part."""
        atoms, fields = [trace.atom(x) for x in args], self.fields(closed, params)
        return trace.emit(self.op.primitive, atoms, fields, closed.out_avals)

    def linearize(
        self, trace: PartialEvalTrace, primals: Any, tangents: Any, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        """The primal part is called, and the call of the linear part recorded.

        For calls that mean no more than their jaxpr: it is no column unless it is asked for.
        """
        closed: ClosedJaxpr = params[self.param]
        nonzeros = [type(t) is not Zero for t in tangents]
        parts = linearize_body(closed, nonzeros, [False] * len(closed.out_avals))
        both = call_known_part(
            trace, parts.primal, primals, lambda c, xs: self.apply(c, xs, params)
        )
        outs, residuals = split_list(both, len(parts.flags))
        operands = [*residuals, *[t for t in tangents if type(t) is not Zero]]
        rest = iter(self.record(trace, parts.linear, operands, params) if any(parts.flags) else [])
        return outs, [
            next(rest) if f else Zero(get_aval(p)) for f, p in zip(parts.flags, outs, strict=True)
        ]


# -- jit ---------------------------------------------------------------------------------------

# These describe single arguments, and no longer fit when there are others.
PER_ARGUMENT = dict.fromkeys(
    ("donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts")
)


class JitImpl(CallImpl):
    """Evaluation of jit: by XLA where an eager call asks for it, else by the jaxpr's own loop."""

    def __call__(self, xp: Any, *args: Any, **params: Any) -> list[Any]:
        if params["backend"] == "xla":
            return _compiler[0](params["jaxpr"])(*args)
        return super().__call__(xp, *args, **params)


_JIT = CallRules(lax.jit_call, "jaxpr", lambda params: {**params, **PER_ARGUMENT})


def _jit_params(closed: ClosedJaxpr) -> dict[str, Any]:
    """The params of a call of a jaxpr."""
    return {**lax.jit_call.primitive.defaults, "jaxpr": closed}


define(
    lax.jit_call,
    **{
        **_JIT.columns(),
        "abstract_eval": lambda *avals, jaxpr, name, **_: check_call(
            f"jit of {name}", jaxpr, avals
        ),
        "impl": JitImpl("jaxpr"),
        "linearize": _JIT.linearize,
        "lower": lambda ctx, *args, jaxpr, name, **_: ctx.call(jaxpr, args, name),
    },
)

_compiler: list[Callable[[ClosedJaxpr], Callable[..., list[Any]]]] = []


def set_compiler(compile_jaxpr: Callable[[ClosedJaxpr], Callable[..., list[Any]]]) -> None:
    """Tell how `jit` compiles: a function from a jaxpr to a function of values."""
    _compiler[:] = [compile_jaxpr]


def jit(f: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., Any]:
    """f, staged to a jaxpr once for each combination of types, and compiled by XLA.

    Args:
      f: a function of pytrees.
      static_argnums: positions of arguments that are not traced; they have to be hashable, and each
        value is staged anew.

    Returns:
      A function like f. Called on values, it runs the compiled program, and its results stay on
      the device until they are converted; under a transformation, it is one `jit` equation.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    cache: dict[Any, tuple[ClosedJaxpr, list[Any], Any]] = {}
    name = getattr(f, "__name__", "f")

    def jitted(*args: Any) -> Any:
        fixed = {i % len(args): args[i] for i in static}
        dynamic = [x for i, x in enumerate(args) if i not in fixed]
        leaves, in_tree = tree_flatten(dynamic)
        key = (in_tree, tuple(get_aval(x).strong for x in leaves), tuple(fixed.items()))
        if key not in cache:
            cache[key] = _stage_call(_with_static(f, fixed), dynamic, leaves, in_tree)
        closed, consts, out_tree = cache[key]
        operands = [*consts, *leaves]
        if state.trace is base_trace() and not any(isinstance(x, Tracer) for x in operands):
            outs = _compiler[0](closed)(*operands)
        else:
            outs = lax.jit_call(*operands, jaxpr=closed, name=name, backend="xla")
        return tree_unflatten(out_tree, outs)

    return jitted


def _with_static(f: Callable[..., Any], fixed: dict[int, Any]) -> Callable[..., Any]:
    """f with some of its positional arguments fixed."""
    if not fixed:
        return f

    def partial(*dynamic: Any) -> Any:
        rest = iter(dynamic)
        n = len(dynamic) + len(fixed)
        return f(*[fixed[i] if i in fixed else next(rest) for i in range(n)])

    return partial


def _stage_call(
    f: Callable[..., Any], args: Sequence[Any], leaves: Sequence[Any], in_tree: Any
) -> tuple[ClosedJaxpr, list[Any], Any]:
    """The jaxpr of f with what it closes over as leading arguments, their values, f's result tree."""
    flat, out_tree = flatten_fun(f, in_tree)
    closed = stage(flat, [get_aval(x) for x in leaves], argument_names(f, args))
    return hoist_consts(closed), [*closed.consts], out_tree[0]


def hoist_consts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same jaxpr with its constants as leading arguments."""
    jaxpr = closed.jaxpr
    if not closed.consts:
        return closed
    return verified(ClosedJaxpr(rebound(jaxpr, jaxpr.all_binders, const_binders=[])))


# -- custom_jvp_call ---------------------------------------------------------------------------


def _warn_rule_missing(kind: str, name: str, rule: str) -> None:
    warnings.warn(
        f"the custom {kind} rule {rule!r} of {name} is not in the text: its body is differentiated instead",
        CustomRuleWarning,
        stacklevel=2,
    )


def _custom_jvp_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    call: ClosedJaxpr = params["call_jaxpr"]
    rule: ClosedJaxpr | None = params["jvp_jaxpr"]
    if rule is None:
        _warn_rule_missing("jvp", params["name"], params["jvp"])
        return inline_jvp(call, primals, tangents)
    flags = inexact(call.in_avals)
    live = [instantiate(t) for t, flag in zip(tangents, flags, strict=True) if flag]
    outs, out_tangents = split_list(apply_jaxpr(rule, [*primals, *live]), len(call.out_avals))
    rest = iter(out_tangents)
    flags = inexact(call.out_avals)
    return outs, [next(rest) if f else Zero(a) for f, a in zip(flags, call.out_avals, strict=True)]


def _custom_jvp_batch(axis_size: int, vals: Any, dims: Any, **params: Any) -> Any:
    call: ClosedJaxpr = params["call_jaxpr"]
    rule: ClosedJaxpr | None = params["jvp_jaxpr"]
    # Results stay where their axis is; a tangent has its axis where the primal has it.
    out_dims = [d or 0 for d in vmap_jaxpr(call, axis_size, dims, None)[1]]
    batched, _ = vmap_jaxpr(call, axis_size, dims, out_dims)
    if rule is not None:
        tangent_dims = [d for d, f in zip(dims, inexact(call.in_avals), strict=True) if f]
        tangents_out = [d for d, f in zip(out_dims, inexact(call.out_avals), strict=True) if f]
        wanted = [*out_dims, *tangents_out]
        rule, _ = vmap_jaxpr(rule, axis_size, [*dims, *tangent_dims], wanted)
    fields = {**params, "call_jaxpr": batched, "jvp_jaxpr": rule}
    return lax.custom_jvp_call(*vals, **fields), out_dims


def _custom_jvp_dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    """Leave out the results nobody reads, and their tangents; the operands stay, as the rule's do."""
    params, kept = eqn.params, [True] * len(eqn.inputs)
    call: ClosedJaxpr = params["call_jaxpr"]
    rule: ClosedJaxpr | None = params["jvp_jaxpr"]
    live = _live(call, used_outs)
    if live is call:
        return eqn, kept
    fields = {**params, "call_jaxpr": live}
    if rule is not None:
        flags = inexact(call.out_avals)
        tangents = [u for u, f in zip(used_outs, flags, strict=True) if f]
        fields["jvp_jaxpr"] = _live(rule, [*used_outs, *tangents])
    outs = [v for v, u in zip(eqn.out_binders, used_outs, strict=True) if u]
    return eqn.replace(params=fields, out_binders=outs), kept


def _live(closed: ClosedJaxpr, used_outs: Sequence[bool]) -> ClosedJaxpr:
    jaxpr, _ = dce_body(closed, used_outs)
    if jaxpr is closed.jaxpr:
        return closed
    return derived(closed, ("live", *used_outs), lambda: ClosedJaxpr(jaxpr, closed.consts))


@Maker
def _custom_partial_eval(op: Any) -> Any:
    """A custom call whose operands are all unknown is recorded whole; else its body is split."""

    def rule(trace: PartialEvalTrace, args: Sequence[Any], **params: Any) -> list[Any]:
        if all(trace.is_unknown(x) for x in args):
            atoms = [trace.atom(x) for x in args]
            return trace.emit(op.primitive, atoms, params, params["call_jaxpr"].out_avals)
        return apply_jaxpr(params["call_jaxpr"], args)

    return rule


# Columns of calls with derivatives of their own: in all else they are their body.
_CUSTOM = {
    "impl": CallImpl("call_jaxpr"),
    "transpose": lambda cts, *args, call_jaxpr, **_: inline_transpose(cts, args, call_jaxpr),
    "lower": lambda ctx, *args, call_jaxpr, **_: ctx.inline(call_jaxpr, args),
    "cost": lambda ins, outs, *, call_jaxpr, **_: cost_jaxpr(call_jaxpr),
    "partial_eval": _custom_partial_eval,
}

define(
    lax.custom_jvp_call,
    **_CUSTOM,
    abstract_eval=custom_jvp_types,
    jvp=_custom_jvp_jvp,
    batch=_custom_jvp_batch,
    dce=_custom_jvp_dce,
)


# -- custom_vjp_call ---------------------------------------------------------------------------


def _custom_vjp_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    call: ClosedJaxpr = params["call_jaxpr"]
    fwd: ClosedJaxpr | None = params["fwd_jaxpr"]
    if fwd is None or params["bwd_jaxpr"] is None:
        _warn_rule_missing("vjp", params["name"], params["bwd"])
        return inline_jvp(call, primals, tangents)
    n_res = len(fwd.out_avals) - len(call.out_avals)
    residuals, outs = split_list(apply_jaxpr(fwd, primals), n_res)
    zeros = [type(t) is Zero for t in tangents]
    wanted = [not z for z, f in zip(zeros, inexact(call.in_avals), strict=True) if f]
    out_avals = tuple(a.strong for a in call.out_avals if a.tangent() is a.strong)
    rest = iter(
        lax.custom_lin(
            *residuals,
            *[t for t in tangents if type(t) is not Zero],
            num_res=n_res,
            bwd_jaxpr=_live(params["bwd_jaxpr"], wanted),
            bwd=params["bwd"],
            in_zeros=zeros,
            out_avals=out_avals,
            symbolic_zeros=params["symbolic_zeros"],
        )
    )
    flags = inexact(call.out_avals)
    return outs, [next(rest) if f else Zero(a) for f, a in zip(flags, call.out_avals, strict=True)]


def _custom_vjp_batch(axis_size: int, vals: Any, dims: Any, **params: Any) -> Any:
    call: ClosedJaxpr = params["call_jaxpr"]
    fwd, bwd = params["fwd_jaxpr"], params["bwd_jaxpr"]
    flags = inexact(call.in_avals)
    if fwd is not None and bwd is not None:
        # Each example has a cotangent of its own, so operands that bwd gives cotangents are batched.
        # They get their axis where the others have it, which saves the body transposing.
        first = next(d for d in dims if d is not None)
        targets = [
            min(first, get_aval(x).ndim) if f and d is None else None
            for x, d, f in zip(vals, dims, flags, strict=True)
        ]
        vals = [
            x if t is None else materialize(x, None, axis_size, t)
            for x, t in zip(vals, targets, strict=True)
        ]
        dims = [d if t is None else t for d, t in zip(dims, targets, strict=True)]
    out_dims = [d or 0 for d in vmap_jaxpr(call, axis_size, dims, None)[1]]
    batched, _ = vmap_jaxpr(call, axis_size, dims, out_dims)
    if fwd is not None and bwd is not None:
        n_res = len(fwd.out_avals) - len(out_dims)
        fwd, _ = vmap_jaxpr(fwd, axis_size, dims, [*[0] * n_res, *out_dims])
        ct_dims = [d for d, f in zip(out_dims, inexact(call.out_avals), strict=True) if f]
        arg_dims = [d for d, f in zip(dims, flags, strict=True) if f]
        bwd, _ = vmap_jaxpr(bwd, axis_size, [*[0] * n_res, *ct_dims], arg_dims)
    fields = {**params, "call_jaxpr": batched, "fwd_jaxpr": fwd, "bwd_jaxpr": bwd}
    return lax.custom_vjp_call(*vals, **fields), out_dims


define(
    lax.custom_vjp_call,
    **_CUSTOM,
    abstract_eval=custom_vjp_types,
    jvp=_custom_vjp_jvp,
    batch=_custom_vjp_batch,
)


# -- custom_lin --------------------------------------------------------------------------------

_FORWARD_ONLY_BY_TRANSPOSE = unsupported(
    "a function with a custom vjp rule has no forward derivative; use reverse mode"
)


def _custom_lin_transpose(cts: Any, *args: Any, num_res: int, bwd_jaxpr: Any, **_: Any) -> Any:
    residuals, tangents = split_list(args, num_res)
    if bwd_jaxpr is None:
        not_linear("custom_lin", "its backward rule is not in the text")
    out = apply_jaxpr(bwd_jaxpr, [*residuals, *map(instantiate, cts)])
    return [None] * num_res + [
        ct if type(t) is UndefPrimal else None for ct, t in zip(out, tangents, strict=True)
    ]


def _custom_lin_batch(axis_size: int, vals: Any, dims: Any, **params: Any) -> Any:
    n_res, bwd = params["num_res"], params["bwd_jaxpr"]
    if bwd is None:
        message = "no batch rule for custom_lin: its backward rule is not in the text"
        fail(UnsupportedError, message, "no-rule")
    (res, tangents), (res_dims, tangent_dims) = split_list(vals, n_res), split_list(dims, n_res)
    tangents = [materialize(t, d, axis_size) for t, d in zip(tangents, tangent_dims, strict=True)]
    n_cts = len(bwd.in_avals) - n_res
    bwd, _ = vmap_jaxpr(bwd, axis_size, [*res_dims, *[0] * n_cts], 0)
    avals = tuple(a.update(shape=(axis_size, *a.shape)) for a in params["out_avals"])
    fields = {**params, "bwd_jaxpr": bwd, "out_avals": avals}
    return lax.custom_lin(*res, *tangents, **fields), [0] * len(avals)


define(
    lax.custom_lin,
    abstract_eval=custom_lin_types,
    impl=_FORWARD_ONLY_BY_TRANSPOSE,
    jvp=_FORWARD_ONLY_BY_TRANSPOSE,
    transpose=_custom_lin_transpose,
    batch=_custom_lin_batch,
    lower=_FORWARD_ONLY_BY_TRANSPOSE,
    cost=FREE,
)
