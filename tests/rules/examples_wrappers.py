"""Sample operands of linear_call, custom_vmap_call, remat_opt, optimization_barrier, shard_alike and platform_index."""

from __future__ import annotations

import functools

from jaxprtool import ops as lax
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Word
from tests.rules.example import Example, arg
from tests.rules.examples_control_flow import body


def _barrier_in_jax(*operands):
    import jax

    return jax.lax.optimization_barrier(operands)


def _barrier(*operands):
    return Example(lax.optimization_barrier, tuple(map(arg, operands)), jax=_barrier_in_jax)


def _alike_in_jax(x, y):
    from jax.experimental.shard_alike import shard_alike

    return shard_alike(x, y)


def _alike(*operands):
    return Example(lax.shard_alike, tuple(map(arg, operands)), jax=_alike_in_jax)


def _platform_in_jax(*, platforms):
    from jax import numpy as jnp

    return jnp.int32(next(i for i, p in enumerate(platforms) if p is None or "cpu" in p))


def _platform(*platforms):
    params = {"platforms": platforms}
    return Example(lax.platform_index, (), params, jax=_platform_in_jax)


def _linear(label, callee, transpose, types, counts, values=None):
    """types: of the operands, and of the transpose's; counts: of constants and residuals."""
    operands, transposed = types
    params = {
        "callee": body(callee, *operands),
        "transpose_jaxpr": body(transpose, *transposed),
        "num_callee_consts": counts[0],
        "num_res": counts[1],
    }
    args = [
        arg(t, values=v) for t, v in zip(operands, values or [None] * len(operands), strict=True)
    ]
    return Example(lax.linear_call, tuple(args), params, label=label)


def _scaled(n, x):
    return x * lax.convert_element_type(n, new_dtype=find_dtype("f64"))


class _RuleOfBody:
    """A batching rule that does what no rule does."""

    def __init__(self, call):
        self.call = call

    def batched(self, axis_size, in_batched, _):
        dims = [0 if b else None for b in in_batched]
        batched, out_dims = vmap_jaxpr(self.call, axis_size, dims, 0)
        return batched, [d is not None for d in out_dims]


def _squares(x, y):
    return x * y, y * y


def _squares_in_jax(*xs, **_):
    import jax

    return jax.jit(_squares)(*xs)


@functools.cache
def _ruled():
    """A function and its rule; the same objects for both examples."""
    call = body(_squares, "f64[3]", "f64[3]")
    return {"call": call, "rule": _RuleOfBody(call)}


def _custom_vmap(label="squares", batched_by=""):
    params = {**_ruled(), "batched_by": batched_by}
    args = (arg("f64[3]"), arg("f64[3]"))
    return Example(lax.custom_vmap_call, args, params, label=label, jax=_squares_in_jax)


def _remat_opt():
    params = {"fwd_jaxpr": body(_squares, "f64[3]", "f64[3]"), "num_consts": 0, "num_res": 1}
    args = (arg("f64[3]"), arg("f64[3]"))
    return Example(lax.remat_opt, args, params, label="squares", jax=_squares_in_jax)


def _partitioned(label, f, *types):
    params = {"call": body(f, *types)}
    args = tuple(map(arg, types))
    return Example(lax.custom_partitioning, args, params, label=label, jax=_called_in_jax)


def _called_in_jax(*xs, call, **_):
    from jax.extend.core import jaxpr_as_fun

    import jaxprtool as jt

    return jaxpr_as_fun(jt.to_jax(call))(*xs)


def _fused(label, f, plain, spaces, *types):
    jaxpr = body(f, *types)
    params = {"jaxpr": jaxpr, "out_spaces": spaces}
    return Example(lax.fused_call, tuple(map(arg, types)), params, label=label, jax=plain)


def _fused_in_jax(x, y, **_):
    import jax

    return [jax.numpy.sin(x) * y, x + y]


EXAMPLES = [
    _partitioned("product", lambda x, y: lax.mul(lax.sin(x), y), "f64[3]", "f64[3]"),
    _partitioned("two", lambda x: (lax.neg(x), lax.exp(x)), "f64[2,2]"),
    _custom_vmap(),
    _custom_vmap("squares of a primitive", batched_by="squares_of_batch"),
    _remat_opt(),
    _linear("times", _scaled, _scaled, (["i32[3]", "f64[3]"], ["i32[3]", "f64[3]"]), (0, 1)),
    _linear(
        "of-two",
        lambda n, v, w: (_scaled(n, v), lax.neg(w)),
        lambda n, s, t: (_scaled(n, s), lax.neg(t)),
        (["i32[]", "f64[2]", "f64[3]"], ["i32[]", "f64[2]", "f64[3]"]),
        (0, 1),
    ),
    _linear(
        "constant",
        lambda k, n, x: _scaled(k, _scaled(n, x)),
        _scaled,
        (["i32[]", "i32[3]", "f64[3]"], ["i32[3]", "f64[3]"]),
        (1, 1),
        values=[1, None, None],  # the transpose knows nothing of the constant
    ),
    _linear("no-residuals", lax.neg, lax.neg, (["f64[2]"], ["f64[2]"]), (0, 0)),
    _barrier("f32[3]"),
    _barrier("f64[2,2]", "i32[]", "bool[2]"),
    _barrier("bf16[2]", "c64[]"),
    _alike("f64[2,3]", "f64[2,3]"),
    _alike("f32[3]", "i32[3]"),
    _alike("c64[]", "c64[]"),
    _platform(("cpu",), ("cuda",), None),
    _platform(("mosaic",), None),
    _platform(("cuda", "rocm"), ("tpu", "cpu")),
    _fused(
        "two",
        lambda x, y: (lax.mul(lax.sin(x), y), lax.add(x, y)),
        _fused_in_jax,
        (Word("MemorySpace.Device"),) * 2,
        "f64[3]",
        "f64[3]",
    ),
    _fused("one", lax.neg, lambda x, **_: [-x], None, "f64[2]"),
]
