"""raise_some: what is not chosen computes what it did, and what is chosen stays wide, through the carry of loops too."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import jaxprtool as jt
from jaxprtool.driver.run import run
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.precisions.double import doubled, raised
from jaxprtool.passes.precisions.raising import raise_some
from tests.analyses.planting import REAL, real_program
from tests.control_flow.kernels import KERNELS


def run_with(program, args, chosen):
    """The results with some equations raised, in their own types."""
    program = transformable(program)
    found = raised(program)
    made = raise_some(program, found, chosen(found))
    jt.typecheck_jaxpr(made.jaxpr)
    outs = run(made, [doubled(x) for x in args])
    return [np.asarray(x) for x in outs], [
        np.asarray(x) for x in run(found.program, [*map(doubled, args)])
    ]


@pytest.mark.parametrize("name", REAL)
def test_programs_of_which_nothing_or_everything_is_raised(name):
    program, args = real_program(name)
    own = [np.asarray(x) for x in run(program, args)]
    none, _ = run_with(program, args, lambda found: set())
    for x, y in zip(none, own, strict=True):
        assert np.array_equal(x.astype(y.dtype), y, equal_nan=y.dtype.kind in "fc")
    every, wide = run_with(
        program, args, lambda found: {e for e in found.after if not e.primitive.holds_jaxprs}
    )
    for x, y in zip(every, wide, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REAL)
def test_programs_with_one_inner_equation_raised_are_well_typed(name):
    program, args = real_program(name)
    rng = random.Random(name)

    def chosen(found):
        eqns = [e for e in all_eqns(transformable(program).jaxpr) if e in found.after]
        return {rng.choice([e for e in eqns if not e.primitive.holds_jaxprs])}

    some, wide = run_with(program, args, chosen)
    for x, y in zip(some, wide, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_a_carry_stays_wide(loop):
    x = np.random.default_rng(0).random(500).astype(np.float16)

    def by_scan(x):
        return jax.lax.scan(lambda c, t: (c + t, None), jnp.float16(0), x)[0]

    def by_while(x):
        return jax.lax.while_loop(
            lambda s: s[0] < 500, lambda s: (s[0] + 1, s[1] + x[s[0]]), (0, jnp.float16(0))
        )[1]

    found = jt.precision(by_scan if loop == "scan" else by_while, x)
    trial = found.trials[0]
    assert trial.place.eqn.primitive.name == "add" and trial.after < 0.2 * trial.before


def test_what_is_amplified_later_is_found_among_much_that_is_not():
    def f(x):
        small = sum(jnp.exp(x * (0.1 + i * 0.013)) * 1e-9 for i in range(30))
        return (x * 1000.7 - 1001.7) + small

    found = jt.precision(f, np.float32(1.001))
    worst = [e.place.eqn for e in found.equations[:12]]
    best = found.trials[0]
    assert best.place.eqn not in worst and best.place.eqn.primitive.name == "mul"
    assert best.after < 1e-3 * best.before and found.trials[1].after > 0.5 * best.before


def quadratic(x):
    return jnp.sqrt(x * x - 4) - x


def variance(x):
    return (x * x).mean() - x.mean() ** 2


def roots(x):
    return jnp.sqrt(x + 1) - jnp.sqrt(x)


def in_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, c: c + roots(x + i), jnp.float32(0))


DIGITS = np.random.default_rng(1).normal(100, 0.01, 1000).astype(np.float32)
TOGETHER = {
    "quadratic": (quadratic, np.float32(1e4), {"sub", "sqrt"}),
    "variance": (variance, DIGITS, {"mul", "reduce_sum", "div", "integer_pow", "sub"}),
    "roots": (roots, np.float32(1e5), {"sqrt", "sub"}),
    "in a loop": (in_loop, np.float32(1e5), {"sqrt", "sub"}),
    "among others": (
        lambda x: roots(x) + sum(jnp.exp(-x * i) for i in range(1, 40)),
        np.float32(1e5),
        {"sqrt", "sub"},
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_where_one_equation_in_double_precision_does_not_help_few_together_do(name):
    """A value is rounded at each step to where it is cancelled: all of them have to be wide."""
    f, x, primitives = TOGETHER[name]
    found = jt.precision(f, x)
    assert found.together.after < 0.01 * found.together.before
    assert all(t.after > 10 * found.together.after for t in found.trials)
    assert {p.eqn.primitive.name for p in found.together.places} <= primitives
    again = found.json()["together"]
    assert [p["line"] for p in again["places"]] == sorted(p["line"] for p in again["places"])


def test_no_equations_are_said_to_help_together_where_one_helps_alone_or_none_can():
    assert jt.precision(lambda x: jnp.log(1 + x), np.float32([1e-6])).together is None
    narrow = jt.precision(lambda x: jnp.tanh(x) * x, np.float16([0.3, 0.7]))
    assert narrow.together is None and narrow.outputs[0].ulps > 0


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_which_nothing_one_or_everything_is_raised(name):
    function, args, *_ = KERNELS[name]
    program = jt.trace(function, *args)
    own = [np.asarray(x) for x in run(program, args)]
    rng = random.Random(name)

    def simple(found):
        eqns = all_eqns(transformable(program).jaxpr)
        return [e for e in eqns if e in found.after and not e.primitive.holds_jaxprs]

    none, wide = run_with(program, args, lambda found: set())
    for x, y, z in zip(none, own, wide, strict=True):
        np.testing.assert_allclose(x.astype(y.dtype), y, rtol=1e-6, atol=1e-6)
        assert z.dtype.kind != "f" or z.dtype.itemsize == 8
    run_with(program, args, lambda found: {*rng.choices(simple(found) or [None], k=1)})
    every, _ = run_with(program, args, lambda found: {*simple(found)})
    for x, y in zip(every, wide, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def _called(kernel):
    out = jax.ShapeDtypeStruct((8,), np.float32)
    return lambda x: pl.pallas_call(kernel, out_shape=out, interpret=True)(x)


@pytest.mark.parametrize("primitive", ["add", "sqrt"])
def test_the_shadow_goes_into_kernels(primitive):
    """A kernel whose types in params stayed narrow was run between conversions: all of its errors were 0."""

    def kernel(x, out):
        y = x[...] * 1e5
        far = y + 0.1 if primitive == "add" else jnp.sqrt(y + 1)
        out[...] = far - (y if primitive == "add" else jnp.sqrt(y))

    x = 1 + np.random.default_rng(0).random(8, np.float32)
    found = jt.precision(_called(kernel), x)
    assert found.outputs[0].ulps > 1e4
    path = [e.place for e in found.equations if e.place.eqn.primitive.name == primitive]
    assert any("pallas_call" in str(place) for place in path)
    assert jt.compare(_called(kernel), None, x, backends="numpy,f64", first=True).first


BITS_OF_A_REFERENCE = """{ lambda ; a:f32[4]. let
    b:f32[4] = mul a 3.0:f32[]
    c:f32[4] = pallas_call[
      grid_mapping=GridMapping(grid=(), block_mappings=(BlockMapping(block_shape=(4,)), BlockMapping(block_shape=(4,))))
      interpret=True
      out_avals=(ShapedArray(float32[4]),)
      jaxpr={ lambda ; d:Ref{f32[4]} e:Ref{f32[4]}. let
          f:i32[4] <- d{bitcast(int32[4])}[:]
          g:f32[4] = convert_element_type[new_dtype=float32 weak_type=False] f
          e[:] <- g
        in () }
    ] b
    h:f32[4] = sin c
  in (h,) }"""


def test_a_kernel_that_looks_at_the_bits_of_a_reference_stays_as_it_is():
    program = jt.parse(BITS_OF_A_REFERENCE)
    args = [np.float32([1, 2, 3, 4])]
    found = raised(program)
    assert [e.primitive.name in ("mul", "sin") for e in found.after] == [True, True]
    jt.typecheck_jaxpr(found.program.jaxpr)
    assert jt.precision(program, *args).outputs
    jt.gradcheck(program, *args, modes=["fwd"])
