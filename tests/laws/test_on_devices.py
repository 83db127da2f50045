"""Inside a `shard_map` each device computes what it computes alone: values, derivatives, both parts of a linearization.

Each example runs on two devices with other operands on each, with and without types that say what varies. No device of
JAX's is needed: JAX traces the program on an abstract mesh, and NumPy runs it.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.core.rule_table import Unsupported
from jaxprtool.interpreters.linearize import linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.transpose import transpose_rules
from jaxprtool.ir.diagnostics import UnsupportedError
from tests.laws.oracle import (
    EXAMPLES,
    as_list,
    assert_close,
    by_primitive,
    by_structure,
    holds_jaxprs,
    in_jax,
    inputs,
    is_differentiable,
    is_in_jax,
    law,
    tangent_like,
)
from tests.releases import IS_ORACLE

pytestmark = pytest.mark.skipif(
    not (IS_ORACLE or jax.__version_info__ >= (0, 12)), reason="types that JAX tracked in part"
)
N_EACH = 2  # examples of a primitive
SOME = [
    e
    for of_one in by_primitive(by_structure(EXAMPLES)).values()
    for e in [e for e in of_one if is_in_jax(e) and e.args][:N_EACH]
]
PLACES = {id(e): i for i, e in enumerate(SOME)}


@functools.cache
def _programs(index):
    """The example alone, and on two devices: with types that say what varies, and without them; None where JAX has none."""
    f, args = in_jax(SOME[index]), inputs(SOME[index])
    mesh = AbstractMesh((2,), ("i",), axis_types=(AxisType.Auto,))

    def sharded(tracked):
        def local(*xs):
            outs = f(*[x[0] for x in xs])
            if tracked:
                outs = [
                    y if "{V:" in _typed(y) else jax.lax.pcast(y, "i", to="varying") for y in outs
                ]
            return [y[None] for y in outs]

        specs = {"in_specs": PartitionSpec("i"), "out_specs": PartitionSpec("i")}
        g = jax.shard_map(local, mesh=mesh, check_vma=tracked, **specs)
        try:
            return jt.from_jax(jax.make_jaxpr(g)(*_stacked(args, args)))
        except Exception:  # a rule of JAX's fails: any error is possible
            return None

    alone = jt.from_jax(jax.make_jaxpr(f)(*args))
    kinds = (False,) if holds_jaxprs(SOME[index]) else (True, False)
    return alone, [p for p in map(sharded, kinds) if p is not None]


def _typed(y):
    return jax.typeof(y).str_short(short_dtypes=True)


def _stacked(xs, ys):
    return [np.stack([np.asarray(x), np.asarray(y)]) for x, y in zip(xs, ys, strict=True)]


def _alone(transform, program, args):
    """What a transformed program computes on each device alone; None for those that have no such derivative anywhere."""
    try:
        made = transform(program)
        return [as_list(jt.eval_jaxpr(made, xs)) for xs in args]
    except UnsupportedError:
        return None


def _both(example):
    return inputs(example), inputs(example, 1)


def _agree(found, expected, what):
    for i, (y, alone) in enumerate(zip(found, _stacked(*expected), strict=True)):
        assert_close(y, alone, scale=10.0, what=f"{what}, result {i}")


@law(SOME)
def test_values(example):
    alone, sharded = _programs(PLACES[id(example)])
    pair = _both(example)
    expected = [as_list(jt.eval_jaxpr(alone, xs)) for xs in pair]
    for program in [] if example.params.get("ordered") else sharded:  # as JAX: on one device only
        _agree(as_list(jt.eval_jaxpr(program, _stacked(*pair))), expected, "value")


@law([e for e in SOME if is_differentiable(e)])
def test_derivatives(example):
    alone, sharded = _programs(PLACES[id(example)])
    pair = _both(example)
    inexact = [a.dtype.is_inexact for a in alone.in_avals]
    tangents = [_tangents(xs, inexact, k) for k, xs in enumerate(pair)]
    args = [[*xs, *ts] for xs, ts in zip(pair, tangents, strict=True)]
    jvp = lambda program: jt.jvp_jaxpr(program, inexact)[0]
    expected = _alone(jvp, alone, args)
    if expected is None:
        return
    is_linear = _alone(lambda p: linearize_jaxpr(p, inexact)[0], alone, pair) is not None
    for program in sharded:
        xs, ts = _stacked(*pair), _stacked(*tangents)
        _agree(as_list(jt.eval_jaxpr(jvp(program), [*xs, *ts])), expected, "jvp")
        if not is_linear:
            continue
        known, linear, _ = linearize_jaxpr(program, inexact)
        n = len(program.out_avals)
        outs = as_list(jt.eval_jaxpr(known, xs))
        moved = as_list(jt.eval_jaxpr(linear, [*outs[n:], *ts]))
        _agree([*outs[:n], *moved], expected, "linearize")


@law(
    [
        e
        for e in SOME
        if is_differentiable(e) and not isinstance(transpose_rules.find(e.primitive), Unsupported)
    ]
)
def test_gradients(example):
    alone, sharded = _programs(PLACES[id(example)])
    pair = _both(example)
    inexact = [a.dtype.is_inexact for a in alone.in_avals]
    pulled = vjp_jaxpr(alone, inexact)
    n = len(alone.in_avals)
    cts = [
        [tangent_like(np.zeros(a.shape, np_dtype(a.dtype)), 7 + k) for a in pulled.in_avals[n:]]
        for k in range(2)
    ]
    expected = [as_list(jt.eval_jaxpr(pulled, [*xs, *c])) for xs, c in zip(pair, cts, strict=True)]
    for program in sharded:
        args = [*_stacked(*pair), *_stacked(*cts)]
        _agree(as_list(jt.eval_jaxpr(vjp_jaxpr(program, inexact), args)), expected, "vjp")


def _tangents(xs, inexact, seed):
    return [
        tangent_like(x, 3 + seed + i) for i, (x, f) in enumerate(zip(xs, inexact, strict=True)) if f
    ]
