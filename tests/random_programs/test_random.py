"""Laws over random programs: JAX is the oracle of values, derivatives and sizes.

The examples are the same in each run. `JAXPRTOOL_EXPLORE=200 pytest tests/random_programs` draws that many new ones
for each law.
"""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.interpreters.linearize import vjp_jaxpr
from tests.laws.oracle import on_jax
from tests.laws.test_sizes import _count, _jax_count, _jax_dce
from tests.random_programs.programs import programs

EXPLORE = int(os.environ.get("JAXPRTOOL_EXPLORE", "0"))


def bounded(n):
    """Run a law on n programs, always the same, or as many new ones as are asked for."""
    return settings(
        max_examples=EXPLORE or n,
        derandomize=not EXPLORE,
        # Shrinking traces with JAX hundreds of times, so it is done only when one explores.
        phases=tuple(Phase) if EXPLORE else (Phase.explicit, Phase.generate),
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True, scope="module")
def x64():
    with jax.enable_x64(True):
        yield


def draw(aval, seed):
    rng = np.random.default_rng(seed)
    kind = aval.dtype.kind
    x = rng.normal(size=aval.shape) if kind == "f" else rng.integers(-3, 4, size=aval.shape)
    return np.asarray(x > 0 if kind == "b" else x).astype(np_dtype(aval.dtype))


def arguments(program, seed=0):
    return [draw(a, seed + i) for i, a in enumerate(program.in_avals)]


def tangents_of(xs, seed=100):
    return [
        np.random.default_rng(seed + i).normal(size=x.shape).astype(x.dtype)
        if x.dtype.kind == "f"
        else np.zeros(x.shape, jax.dtypes.float0)
        for i, x in enumerate(xs)
    ]


def compare(got, want, scale=1.0):
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if x.dtype.kind == "f":
            tolerance = scale * (1e-9 if x.dtype.itemsize == 8 else 2e-3)
            size = np.abs(y[np.isfinite(y)]).max(initial=1.0)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * size)
        elif x.dtype.names is None:
            np.testing.assert_array_equal(x, y)


def is_differentiable(program):
    kinds = [[a.dtype.kind for a in avals] for avals in (program.in_avals, program.out_avals)]
    return all("f" in ks for ks in kinds)


SMALL = programs(max_eqns=10)
REVERSIBLE = programs(max_eqns=10, loops=False).filter(is_differentiable)


@bounded(60)
@given(programs())
def test_print_parse_print(program):
    for lossless in (False, True):
        text = jt.format_jaxpr(program, lossless=lossless)
        again = jt.parse(text)
        assert jt.format_jaxpr(again, lossless=lossless) == text
    assert jt.typecheck_jaxpr(again) == jt.typecheck_jaxpr(program)
    xs = arguments(program)
    compare(jt.eval_jaxpr(again, xs), jt.eval_jaxpr(program, xs))


@bounded(12)
@given(programs())
def test_numpy_xla_and_jax_agree(program):
    xs = arguments(program)
    f = jaxpr_as_fun(jt.to_jax(program))
    want = on_jax(lambda xs: f(*xs), xs)
    compare(jt.eval_jaxpr(program, xs), want)
    compare(jt.compile(program)(*xs), want)


@bounded(12)
@given(SMALL.filter(is_differentiable))
def test_jvp_is_jax_s(program):
    xs = arguments(program)
    ts = tangents_of(xs)
    f = jaxpr_as_fun(jt.to_jax(program))
    want = on_jax(lambda xs: jax.jvp(f, tuple(xs), tuple(ts)), xs)
    got = jt.jvp(jt.jaxpr_as_fun(program), tuple(xs), tuple(ts))
    compare(got[0], want[0])
    for x, y in zip(got[1], want[1], strict=True):
        if np.asarray(x).dtype.names is None:
            compare([x], [y], 10.0)


@bounded(12)
@given(REVERSIBLE)
def test_vjp_is_jax_s(program):
    xs = arguments(program)
    outs, pullback = jt.vjp(jt.jaxpr_as_fun(program), *xs)
    cts = tangents_of([np.asarray(x) for x in outs])
    f = jaxpr_as_fun(jt.to_jax(program))
    floats = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]

    def pulled(*xs):
        grads = jax.vjp(f, *xs)[1](cts)
        return [grads[i] for i in floats]

    got = pullback(cts)
    compare([got[i] for i in floats], on_jax(lambda xs: pulled(*xs), xs), 10.0)


@bounded(40)
@given(SMALL, st.data())
def test_vmap_is_a_loop(program, data):
    rows = [arguments(program, 10 * seed) for seed in range(3)]
    axes = [
        data.draw(st.sampled_from([0, None] if not a.ndim else [0, 1, None]))
        for a in program.in_avals
    ]
    if all(d is None for d in axes):
        return
    args = [
        rows[0][i] if d is None else np.stack([r[i] for r in rows], axis=d)
        for i, d in enumerate(axes)
    ]
    got = jt.vmap(jt.jaxpr_as_fun(program), in_axes=tuple(axes))(*args)
    loop = [
        jt.eval_jaxpr(program, [rows[0][i] if d is None else r[i] for i, d in enumerate(axes)])
        for r in rows
    ]
    compare(got, [np.stack(xs) for xs in zip(*loop, strict=True)])


@bounded(60)
@given(SMALL, st.data())
def test_known_and_unknown_are_the_whole(program, data):
    unknown = [data.draw(st.booleans()) for _ in program.in_avals]
    known, rest, unks_out, n_res = jt.partial_eval_jaxpr(program, unknown)
    xs = arguments(program)
    first = jt.eval_jaxpr(known, [x for x, u in zip(xs, unknown, strict=True) if not u])
    residuals = first[len(first) - n_res :]
    second = iter(
        jt.eval_jaxpr(rest, [*residuals, *[x for x, u in zip(xs, unknown, strict=True) if u]])
    )
    first_outs = iter(first)
    joined = [next(second) if u else next(first_outs) for u in unks_out]
    compare(joined, jt.eval_jaxpr(program, xs))


@bounded(60)
@given(programs(), st.data())
def test_dead_code_is_dead(program, data):
    used = [data.draw(st.booleans()) for _ in program.out_avals]
    smaller, used_ins = dce_jaxpr(program.jaxpr, used)
    xs = arguments(program)
    want = [x for x, u in zip(jt.eval_jaxpr(program, xs), used, strict=True) if u]
    kept = [x for x, u in zip(xs, used_ins, strict=True) if u]
    compare(jt.eval_jaxpr(jt.ClosedJaxpr(smaller, program.consts), [*kept]), want)
    assert _count(smaller) <= _count(program.jaxpr)


@bounded(30)
@given(REVERSIBLE)
def test_pullback_is_the_adjoint(program):
    """<ct, L t> = <L^T ct, t>, for the linearized program."""
    xs = arguments(program)
    outs, pushforward = jt.linearize(jt.jaxpr_as_fun(program), *xs)
    _, pullback = jt.vjp(jt.jaxpr_as_fun(program), *xs)
    ts, cts = tangents_of(xs), tangents_of([np.asarray(x) for x in outs], 300)

    def dot(a, b):
        pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True)]
        terms = [x.astype(float) * y for x, y in pairs if x.dtype.kind == "f"]
        return sum(t.sum() for t in terms), sum(np.abs(t).sum() for t in terms)

    (left, size), (right, other) = dot(pushforward(*ts), cts), dot(pullback(cts), ts)
    np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4 * (size + other) + 1e-9)


@bounded(12)
@given(REVERSIBLE)
def test_sizes_are_at_most_those_of_jax(program):
    xs = arguments(program)
    f = jaxpr_as_fun(jt.to_jax(program))
    floats = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]
    ts = tangents_of(xs)

    def jvp(*args):
        full = [args[len(xs) + floats.index(i)] if i in floats else t for i, t in enumerate(ts)]
        out, tangents = jax.jvp(f, args[: len(xs)], tuple(full))
        return out, [t for t in tangents if t.dtype != jax.dtypes.float0]

    batch = [np.stack([x, x]) for x in xs]
    cts = [draw(a, 7) for a in program.out_avals if a.dtype.kind == "f"]

    def vjp(*args):
        out, pullback = jax.vjp(f, *args[: len(xs)])
        rest = iter(args[len(xs) :])
        full = [
            next(rest) if x.dtype.kind == "f" else np.zeros(x.shape, jax.dtypes.float0) for x in out
        ]
        return out, [ct for ct in pullback(full) if ct.dtype != jax.dtypes.float0]

    pairs = {
        "jvp": (jt.jvp_jaxpr(program)[0], jax.make_jaxpr(jvp)(*xs, *[ts[i] for i in floats])),
        "vmap": (
            jt.vmap_jaxpr(program, 2, [0] * len(xs), 0)[0],
            jax.make_jaxpr(jax.vmap(f))(*batch),
        ),
        "vjp": (vjp_jaxpr(program), jax.make_jaxpr(vjp)(*xs, *cts)),
    }
    for what, (mine, theirs) in pairs.items():
        ours = _count(dce_jaxpr(mine.jaxpr)[0])
        assert ours <= _jax_count(_jax_dce(theirs.jaxpr)), what
