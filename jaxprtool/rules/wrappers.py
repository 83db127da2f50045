"""Rows of calls (plain, `remat_opt`, `fused_call`, `linear_call`, `custom_partitioning`), and of
`optimization_barrier`, `shard_alike` and `platform_index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.placement import MEMORY
from jaxprtool.core.partition import split_list
from jaxprtool.interpreters.batch import materialize, vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.passing import call_passing
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.dce import call_dce_rule
from jaxprtool.interpreters.jvp import Zero, instantiate
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.call_types import check_call, tree_call_types
from jaxprtool.makers.calls import CallRules, inline_columns, inline_jvp, inline_transpose
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

__all__: list[str] = []


def _core_call(*in_avals: Aval, call_jaxpr: ClosedJaxpr) -> Value:
    """The earlier rule: the call that there was before."""
    return lambda *xs: lax.core_call(*xs, call_jaxpr=call_jaxpr)


for _op in (lax.closed_call, lax.core_call, lax.call, lax.named_call):
    _rules = CallRules(_op, "call_jaxpr")
    define(
        _op,
        **_rules.columns(),
        linearize=_rules.linearize,
        discharge=_rules.discharge,
        passing=call_passing("call_jaxpr"),
        earlier=_core_call if _op is lax.closed_call else None,
    )


def _remat_opt_types(
    *avals: Aval, fwd_jaxpr: ClosedJaxpr, num_consts: int, num_res: int, **_: ParamValue
) -> list[Aval]:
    outs = check_call("remat_opt", fwd_jaxpr, avals, "fwd_jaxpr")
    counts = {"num_consts": (num_consts, "operands", avals), "num_res": (num_res, "results", outs)}
    for key, (n, what, there) in counts.items():
        if not isinstance(n, int) or not 0 <= n <= len(there):
            ill_typed(f"remat_opt: {key}={n}, and there are {len(there)} {what}", "param-value")
    return outs


def _uncounted(params: dict[str, ParamValue]) -> dict[str, Any]:
    """Return the params with the numbers of constants and residuals set to 0: once fwd_jaxpr has
    been transformed, nothing uses them.
    """
    return {**params, "num_consts": 0, "num_res": 0, "fun_jaxpr_thunk": None}


_dce_call = call_dce_rule("fwd_jaxpr")


def _remat_opt_dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    smaller, used_ins = _dce_call(eqn, used_outs)
    return smaller if smaller is eqn else smaller.replace(
        params=_uncounted(smaller.params)
    ), used_ins


define(
    lax.remat_opt,
    **{
        **CallRules(lax.remat_opt, "fwd_jaxpr", _uncounted).columns(),
        "abstract_eval": _remat_opt_types,
        "dce": _remat_opt_dce,
    },
)


# -- fused_call --------------------------------------------------------------------------------


def _fused_types(
    *avals: Aval, jaxpr: ClosedJaxpr, out_spaces: Sequence[ParamValue] | None
) -> list[Aval]:
    outs = check_call("fused_call", jaxpr, avals, tracked=False)
    spaces = [None] * len(outs) if out_spaces is None else out_spaces
    if not isinstance(spaces, (tuple, list)) or len(spaces) != len(outs):
        ill_typed(
            f"fused_call: out_spaces={spaces} of {counted(len(outs), 'result')}", "param-value"
        )
    return [_in_space(a, space) for a, space in zip(outs, spaces, strict=True)]


def _in_space(aval: Aval, space: ParamValue) -> Aval:
    """Return a type in the memory that a memory space names; None stands for the device's
    memory.
    """
    member = None if space is None else MEMORY.required("fused_call", "out_spaces", space)
    memory = "" if member in (None, "Device") else str(member).lower()
    return aval.update(memory=memory) if isinstance(aval, ShapedArray) else aval


def _fused_dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    smaller, used_ins = _dce_fused(eqn, used_outs)
    spaces: Any = eqn.params["out_spaces"]
    if smaller is eqn or spaces is None:
        return smaller, used_ins
    left = tuple(compress(spaces, used_outs))
    return smaller.replace(params={**smaller.params, "out_spaces": left}), used_ins


_dce_fused = call_dce_rule("jaxpr")


# The results of inlined equations are in the memory of their operands; those of a fused call in
# any.
define(
    lax.fused_call,
    **{
        **CallRules(
            lax.fused_call, "jaxpr", lambda params: {**params, "out_spaces": None}
        ).columns(),
        "abstract_eval": _fused_types,
        **inline_columns("jaxpr"),
        "dce": _fused_dce,
    },
    memory="rule",
)


# -- linear_call -------------------------------------------------------------------------------


def _linear_types(*avals: Aval, callee: ClosedJaxpr, transpose_jaxpr: Any, **params: Any) -> Aval:
    out = check_call("linear_call", callee, avals, "callee")
    n_fixed = params["num_callee_consts"] + params["num_res"]
    for key in ("num_callee_consts", "num_res"):
        if params[key] < 0:
            ill_typed(f"linear_call: {key}={params[key]} is negative", "param-value")
    if n_fixed > len(avals):
        ill_typed(
            f"linear_call: num_callee_consts + num_res is {n_fixed}, and there {'is' if len(avals) == 1 else 'are'} {counted(len(avals), 'operand')}",
            "argument-count",
        )
    if transpose_jaxpr is not None:
        residuals = avals[params["num_callee_consts"] : n_fixed]
        back = check_call(
            "linear_call: the transpose", transpose_jaxpr, [*residuals, *out], "transpose_jaxpr"
        )
        if back != list(avals[n_fixed:]):
            ill_typed(
                f"linear_call: the transpose returns {back}, the linear operands are "
                f"{list(avals[n_fixed:])}",
                "transpose-type",
            )
    return out


def _linear_jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    n_fixed = params["num_callee_consts"] + params["num_res"]
    fixed, _ = split_list(primals, n_fixed)
    fixed_ts, linear_ts = split_list(tangents, n_fixed)
    if any(type(t) is not Zero for t in fixed_ts):
        return inline_jvp(params["callee"], primals, tangents)
    outs = lax.linear_call(*primals, **params)
    return outs, lax.linear_call(*fixed, *map(instantiate, linear_ts), **params)


def _linear_transpose(cts: Value, *args: Value, **params: Any) -> list[Any]:
    """The transpose rule: a linear_call with callee and transpose exchanged, where possible."""
    n_consts, n_res = params["num_callee_consts"], params["num_res"]
    back: ClosedJaxpr | None = params["transpose_jaxpr"]
    consts, residuals, linear = split_list(args, n_consts, n_res)
    if any(is_linear(x) for x in (*consts, *residuals)):
        not_linear("linear_call", "a constant or residual is among them")
    if back is None or n_consts or not all(is_linear(x) for x in linear):
        if back is None:
            return inline_transpose(cts, args, params["callee"])
        out = apply_jaxpr(back, [*residuals, *map(instantiate, cts)])
    else:
        fields = {**params, "callee": back, "transpose_jaxpr": params["callee"]}
        fields["transpose_thunk"] = None
        out = lax.linear_call(*residuals, *map(instantiate, cts), **fields)
    pairs = zip(out, linear, strict=True)
    return [None] * (n_consts + n_res) + [ct if is_linear(x) else None for ct, x in pairs]


def _linear_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    """The batch rule: batch all linear operands, because their cotangents are batched."""
    n_consts, n_res = params["num_callee_consts"], params["num_res"]
    back: ClosedJaxpr | None = params["transpose_jaxpr"]
    if back is not None:
        fixed, linear = split_list(vals, n_consts + n_res)
        fixed_dims, linear_dims = split_list(dims, n_consts + n_res)
        vals = [*fixed, *map(materialize, linear, linear_dims, [axis_size] * len(linear))]
        dims = [*fixed_dims, *[0] * len(linear)]
    callee, out_dims = vmap_jaxpr(params["callee"], axis_size, dims, None)
    if back is not None:
        _, res_dims, linear_dims = split_list(dims, n_consts, n_res)
        back, _ = vmap_jaxpr(back, axis_size, [*res_dims, *out_dims], linear_dims)
    fields = {**params, "callee": callee, "transpose_jaxpr": back, "transpose_thunk": None}
    return lax.linear_call(*vals, **fields), out_dims


define(
    lax.linear_call,
    **{
        **CallRules(lax.linear_call, "callee").columns(),
        "abstract_eval": _linear_types,
        "jvp": _linear_jvp,
        "derivative": "rule",
        "transpose": _linear_transpose,
        "batch": _linear_batch,
        "partial_eval": lambda trace, args, **params: _record_linear(trace, args, params),
        "dce": lambda eqn, used: (eqn, [True] * len(eqn.inputs)),
    },
)


def _record_linear(trace: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Record the call as one equation, without splitting it."""
    atoms = trace.atoms(args)
    avals = [a.strong for a in params["callee"].out_avals]
    return trace.emit(lax.linear_call.primitive, atoms, params, avals)


# -- optimization_barrier ----------------------------------------------------------------------


def _barrier_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    outs = lax.optimization_barrier(*primals)
    live = [t for t in tangents if type(t) is not Zero]
    rest = iter(lax.optimization_barrier(*live))
    return outs, [t if type(t) is Zero else next(rest) for t in tangents]


def _barrier_transpose(cts: Sequence[Value], *operands: Value) -> list[Value]:
    live = [
        ct for ct, x in zip(cts, operands, strict=True) if is_linear(x) and type(ct) is not Zero
    ]
    rest = iter(lax.optimization_barrier(*live) if live else [])
    return [
        None if not is_linear(x) else ct if type(ct) is Zero else next(rest)
        for ct, x in zip(cts, operands, strict=True)
    ]


define(
    lax.optimization_barrier,
    abstract_eval=lambda *avals: [a.strong for a in avals],
    impl=lambda xp, *operands: list(operands),
    jvp=_barrier_jvp,
    transpose=_barrier_transpose,
    batch=lambda axis_size, vals, dims: (lax.optimization_barrier(*vals), list(dims)),
    lower=lambda ctx, *operands: (
        ctx.op("optimization_barrier", *operands, out=[x.aval for x in operands])
        if operands
        else []
    ),
    cost=FREE,
    varying="rule",
    elements="kept",
    earlier=lambda *in_avals: lambda *xs: [*xs],
)


# -- shard_alike -------------------------------------------------------------------------------


def _alike_types(x: Aval, y: Aval) -> list[Aval]:
    if x.shape != y.shape:
        ill_typed(f"shard_alike of {x} and {y}: the shapes differ", "operand-types")
    return [x.strong, y.strong]


def _alike_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    alone = any(type(t) is Zero for t in tangents)
    return lax.shard_alike(*primals), tangents if alone else lax.shard_alike(*tangents)


def _alike_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]
) -> tuple[Sequence[Value], list[int]]:
    """The batch rule: both operands get the batch axis at the position where the first batched one
    has it.
    """
    at = next(d for d in dims if d is not None)
    placed = [materialize(x, d, axis_size, at) for x, d in zip(vals, dims, strict=True)]
    return lax.shard_alike(*placed), [at, at]


def _alike_transpose(cts: Sequence[Value], *operands: Value) -> list[Value]:
    del operands
    return list(cts) if any(type(ct) is Zero for ct in cts) else list(lax.shard_alike(*cts))


define(
    lax.shard_alike,
    abstract_eval=_alike_types,
    impl=lambda xp, x, y: [x, y],
    jvp=_alike_jvp,
    transpose=_alike_transpose,
    batch=_alike_batch,
    lower=lambda ctx, x, y: [x, y],  # only relevant to the partitioner
    cost=FREE,
    varying="rule",
    elements="kept",
)


# -- platform_index ----------------------------------------------------------------------------

_PLATFORM = "cpu"  # NumPy and this package's XLA client run on CPUs


def platform_position(platforms: Any) -> int:
    """Return the index of the first entry that contains the CPU; raise a type error if there is
    none.
    """
    for i, names in enumerate(platforms):
        if names is None or _PLATFORM in names:
            return i
    ill_typed(f"platform_index: none of platforms={platforms} is for {_PLATFORM}", "param-value")


_INDEX = ShapedArray((), INT32)


def _index_type(*, platforms: ParamValue) -> ShapedArray:
    if not isinstance(platforms, tuple):
        ill_typed(f"platform_index: platforms={platforms} is no tuple", "bad-param")
    return _INDEX


define(
    lax.platform_index,
    abstract_eval=_index_type,
    impl=lambda xp, *, platforms: xp.int32(platform_position(platforms)),
    **LOCALLY_CONSTANT,
    batch=lambda axis_size, vals, dims, *, platforms: (
        lax.platform_index(platforms=platforms),
        None,
    ),
    lower=lambda ctx, *, platforms: ctx.constant(platform_position(platforms), _INDEX),
    cost=FREE,
)


# -- custom_partitioning -----------------------------------------------------------------------


define(
    lax.custom_partitioning,
    **{
        **CallRules(lax.custom_partitioning, "call").columns(),
        "abstract_eval": tree_call_types("custom_partitioning"),
        # A batched call is inlined, since the user's sharding rules are for other shapes.
        **inline_columns("call"),
        # All operands stay, since the user's functions take all of them.
        "dce": lambda eqn, used: (eqn, [True] * len(eqn.inputs)),
    },
)
