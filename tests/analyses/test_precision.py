"""precision measures what rounding does, equation by equation, and changes nothing."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import jaxprtool as jt
from jaxprtool.analyses import logs
from jaxprtool.analyses.rounding import shadow
from jaxprtool.backends import agreement
from jaxprtool.backends.arrays import generate
from jaxprtool.generation.seeds import seeds
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, UsageError
from jaxprtool.ir.dtypes import BFLOAT16
from jaxprtool.passes.precisions.double import in_double
from tests.analyses.planting import REAL, count, has_rule, real_program, replaced

NARROW = [
    name for name in REAL if name not in ("kalman", "newton", "ode", "ridge", "root", "beam_search")
]
SUMS_AND_PRODUCTS = ("add", "sub", "mul", "div", "neg", "sqrt")


@pytest.mark.parametrize("name", NARROW)
def test_real_programs(name):
    """Operations that are rounded rightly add half a unit at most, and the results' errors are those of the results."""
    program, args = real_program(name)
    found = jt.precision(program, *args, top=2)
    for e in found.equations:
        eqn = e.place.eqn
        if eqn.primitive.name in SUMS_AND_PRODUCTS and eqn.out_binders[0].aval.dtype.kind == "f":
            assert e.local is not None and e.local <= 0.51, str(e.place)
    exact = jt.run(program, *args)
    for o in found.outputs:
        assert o.relative < 1e-4 and str(exact[o.position].dtype) == "float32"
    assert {"outputs", "equations", "raised"} < found.json().keys()


def rounded(eqn):
    """The result of an operation with eight bits."""

    def make(*xs):
        y = jt.bind(eqn.primitive, *xs, **eqn.params)
        short = jt.lax.convert_element_type(y, new_dtype=BFLOAT16)
        return jt.lax.convert_element_type(short, new_dtype=y.dtype)

    return make


@pytest.mark.parametrize("name", NARROW)
def test_a_coarse_rounding_is_the_worst_wherever_it_is(name):
    program, args = real_program(name)
    n = count(program, has_rule)
    for k in random.Random(name).sample(range(n), 2):
        planted = replaced(program, has_rule, k, rounded)
        assert planted is not None
        found = jt.precision(planted, *args, top=1)
        by_place = {e.place.eqn.primitive.name: e for e in reversed(found.equations)}
        ran = [e for e in found.equations if e.place.eqn.params.get("new_dtype")]
        if any(e.local for e in ran):
            worst = found.equations[0].place.eqn
            assert str(worst.params.get("new_dtype")) == "bf16", f"{k} {by_place}"


def test_cancellation_amplifies():
    found = jt.precision(lambda x: (x + 1000.0) - 1000.0, np.float32(0.123))
    names = {e.place.eqn.primitive.name: e for e in found.equations}
    assert (names["sub"].amplification or 0) > 100 and names["sub"].local == 0
    assert found.outputs[0].ulps > 100
    assert found.trials[0].after < 0.01 * found.trials[0].before


_NEAR_ONE = np.float32([1e-5, 2e-6])
_SAMPLE = (1000 + np.random.default_rng(0).random(1000)).astype(np.float32)


def _last_differences(x):
    c = jnp.cumsum(jnp.concatenate([x * 1e6, x]))
    return (c[1:] - c[:-1])[-5:]


def _variance(x):
    return jnp.mean(x * x) - jnp.mean(x) ** 2


@pytest.mark.parametrize(
    ("f", "args", "name"),
    [
        (lambda x: (x * x).mean() - x.mean() ** 2, [_SAMPLE], "sub"),
        (lambda x: 1 - jnp.cos(x), [np.float32([1e-4, 2e-4])], "sub"),
        (lambda x: jnp.exp(x) - 1, [_NEAR_ONE], "sub"),
        (lambda x: jnp.log(1 + x), [_NEAR_ONE], "log"),
        (lambda x: jnp.sqrt(x + 1) - jnp.sqrt(x), [np.float32([1e6, 1e7])], "sub"),
        (lambda b: (-b + jnp.sqrt(b * b - 4)) / 2, [np.float32(1e4)], "add"),
        (lambda x: jnp.log(1 - jnp.exp(-jnp.exp(-x))), [np.float32([15, 16])], "sub"),
        (lambda x: (x * x).sum() - 2 * (x * _SAMPLE).sum() + (_SAMPLE**2).sum(), [_SAMPLE], "add"),
        # what it is multiplied by afterwards, a slice of the small ones, and a dead equation are not the cause
        (
            lambda x: jnp.prod(jnp.exp(x + 1e4 - 1e4)),
            [_SAMPLE[:24] - 1000],
            "sub",
        ),
        (_last_differences, [_SAMPLE[:24] / 1000], "sub"),
        (jax.grad(_variance), [_SAMPLE[:24] / 1e5 + 100], "add_any"),
    ],
)
def test_what_cancels_what_results_come_from_is_first(f, args, name):
    found = jt.precision(f, *args)
    assert found.outputs[0].ulps > 1000
    assert found.equations[0].place.eqn.primitive.name == name
    assert (found.equations[0].amplification or 0) > 1000


def test_a_gradient_has_equations_that_help_together():
    found = jt.precision(jax.grad(_variance), _SAMPLE[:24] / 1e5 + 100)
    assert found.together is not None and found.together.after < 0.01 * found.together.before
    names = [p.eqn.primitive.name for p in found.together.places]
    assert "add_any" in names and "sub" not in names


def _compensated(x):
    """Kahan's sum: what a step leaves out cancels, and is small."""

    def step(c, v):
        total, left = c
        y = v - left
        new = total + y
        return (new, (new - total) - y), None

    return jax.lax.scan(step, (np.float32(0), np.float32(0)), x)[0][0]


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (_compensated, _SAMPLE),
        (lambda x: 2 * jnp.sin(x / 2) ** 2, np.float32([1e-4, 2e-4])),
        (lambda x: 1 / (jnp.sqrt(x + 1) + jnp.sqrt(x)), np.float32([1e6, 1e7])),
        (jnp.var, _SAMPLE),
        (jnp.log1p, _NEAR_ONE),
    ],
)
def test_what_cancels_is_not_first_where_results_are_right(f, x):
    found = jt.precision(f, x)
    assert found.outputs[0].ulps < 1 and found.equations[0].local


def test_what_is_tried_helps():
    """The sum of many rounded terms is better in double precision."""
    x = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    found = jt.precision(lambda x: jnp.cumsum(x)[-1] * 2, x)
    assert found.trials[0].place.eqn.primitive.name == "cumsum"
    assert found.trials[0].after < found.trials[0].before


def test_places_and_steps():
    def body(c, i):
        return jnp.where(i == 3, (c + 1e7) - 1e7, c), None

    found = jt.precision(lambda x: jax.lax.scan(body, x, jnp.arange(5))[0], np.float32(0.7))
    worst = found.equations[0]
    assert worst.count == 5 and "scan at" in str(worst.place)


def test_runs_that_take_other_branches():
    def f(x):
        y = x * 3 - 0.3  # 0 in one of the types
        return jax.lax.cond(y == 0, lambda x: jnp.exp(x), lambda x: jnp.sin(x) * 2, x)

    found = jt.precision(f, np.float32(0.1))
    assert found.outputs


def test_loops_of_another_length():
    def f(x):
        return jax.lax.while_loop(
            lambda c: c != 1.0, lambda c: jnp.where(c > 0.95, 1.0, c + 0.1), x
        )

    assert jt.precision(f, np.float32(0.0)).outputs


def test_bits_and_keys_and_callbacks():
    def f(key, x):
        jax.debug.print("{}", x)
        bits = jax.lax.bitcast_convert_type(x, jnp.int32)
        return jax.random.normal(key, x.shape) * jax.lax.bitcast_convert_type(bits + 1, jnp.float32)

    assert jt.precision(f, jax.random.key(0), np.ones(3, np.float32)).outputs[0].ulps < 100


def test_wide_programs_are_refused():
    program = jt.parse("{ lambda ; a:f64[]. let b:f64[] = exp a in (b,) }")
    with pytest.raises(UnsupportedError):
        jt.precision(program, np.float64(1))


def test_a_literal_has_the_value_of_its_own_type():
    """0.1 in f32 is no error of the program: the run in double precision starts from the same number."""
    program = jt.parse("{ lambda ; a:f32[]. let b:f32[] = mul a 0.1:f32[] in (b,) }")
    (equation,) = jt.precision(program, np.float32(1)).equations
    assert equation.local == 0


def test_devices_have_the_equations_of_the_text():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

    def body(x):
        return jax.lax.psum((jnp.exp(x) + 1000.0) - 1000.0, "i")

    spec = jax.sharding.PartitionSpec
    f = jax.shard_map(body, mesh=mesh, in_specs=spec("i"), out_specs=spec())
    found = jt.precision(f, np.linspace(0, 1, 4).astype(np.float32))
    names: dict[str, Any] = {e.place.eqn.primitive.name: e for e in reversed(found.equations)}
    assert {"exp", "add", "sub", "shard_map"} <= names.keys()
    assert str(names["add"].place).startswith("shard_map at") and names["add"].local > 0
    assert names["sub"].amplification > 100
    assert found.trials[0].place.eqn.primitive.name == "add"
    assert found.trials[0].after < 0.1 * found.trials[0].before


def test_what_runs_for_all_devices_and_for_each_has_one_row():
    """The devices take other branches, in other steps, and other numbers of steps."""
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((4,), ("i",), axis_types=auto)

    def body(x):
        i = jax.lax.axis_index("i")

        def step(c, t):
            return jax.lax.cond(i * t > 1, jnp.sin, lambda c: c * 1.5, c), None

        x, _ = jax.lax.scan(step, x, jnp.arange(4))
        turned = jax.lax.while_loop(lambda c: c[0] < i, lambda c: (c[0] + 1, c[1] * 1.1), (0, x))
        return turned[1]

    spec = jax.sharding.PartitionSpec("i")
    f = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    found = jt.precision(f, np.linspace(0, 1, 8).astype(np.float32))
    rows = [str(e.place.eqn.span) for e in found.equations]
    assert len(rows) == len(set(rows))
    counts = {e.place.eqn.primitive.name: e.count for e in found.equations}
    assert counts["cond"] == 16 and counts["sin"] == 8


@pytest.mark.parametrize("kept", [4 << 20, 100])
def test_what_is_kept_says_the_same(kept, monkeypatch):
    """Equations and steps that are measured together have the errors that they have one by one, also out of the file."""

    def body(c, x):
        c = jnp.tanh(c * x + 1) - jax.lax.cond(x > 0.5, jnp.sin, lambda x: jnp.exp(x) / 3, x)
        return c, (c.sum(), x * 3)

    def f(xs):
        c, ys = jax.lax.scan(body, jnp.ones((3, 2)), xs)
        return jnp.sort(c @ c.T), ys

    xs = np.linspace(0, 1, 120).astype(np.float32)
    expected = jt.precision(f, xs, tries=0, top=100).json()
    monkeypatch.setattr(logs, "_BYTES", kept)
    monkeypatch.setattr(logs, "_LOGS", 3)
    monkeypatch.setattr(shadow, "_MEMORY", 0)
    found = jt.precision(f, xs, tries=0, top=100).json()
    assert found == expected and len(expected["equations"]) > 10


def test_long_loops_are_looked_at_ever_more_seldom():
    steps = [i for i in range(1_000_000) if shadow.is_looked_at(i)]
    assert steps[:51] == [*range(50), 50] and len(steps) < 900


def test_effects_are_not_repeated_for_the_errors_of_an_equation():
    seen = []

    def f(x):
        y = io_callback(lambda x: (seen.append(1), x)[1], jax.ShapeDtypeStruct((), np.float32), x)
        return jnp.exp(y)

    jt.precision(f, np.float32(1), tries=0)
    assert len(seen) == 2  # once in each of the two runs


EXTENDED = np.finfo(np.longdouble).nmant > 52
needs_long_double = pytest.mark.skipif(not EXTENDED, reason="long double is f64 here")


@needs_long_double
def test_f64_beside_long_double():
    """Cancellation in f64 is seen, and done in long double it is gone; a rule without long double is named."""

    def f(x):
        y = (jnp.sin(x) * 3 + 1e9) - 1e9
        c, ys = jax.lax.scan(lambda c, z: (c * 0.9 + jnp.tanh(z), c), y[0], y)
        return y, jnp.linalg.cholesky(jnp.eye(4) * 2 + jnp.outer(x, x)).sum() + c, ys

    with jax.enable_x64(True):
        found = jt.precision(f, np.linspace(0, 1, 4), shadow="f128")
    assert found.outputs[0].ulps > 1e6
    names: dict[str, Any] = {e.place.eqn.primitive.name: e for e in reversed(found.equations)}
    assert names["sub"].amplification > 1e6 and 0 < names["tanh"].local < 2
    assert {p.eqn.primitive.name for p in found.in_f64} == {"cholesky"}
    assert "cholesky" in str(found) and len(found.json()["in_f64"]) == 1


@needs_long_double
def test_what_is_tried_in_long_double_helps():
    with jax.enable_x64(True):
        f = lambda x: (jnp.sin(x) * 3 + 1e9) - 1e9
        trials = jt.precision(f, np.linspace(0, 1, 4), shadow="f128").trials
    add = next(t for t in trials if t.place.eqn.primitive.name == "add")
    assert add.after < 1e-6 * add.before


@needs_long_double
@pytest.mark.parametrize("name", NARROW)
def test_long_double_agrees_with_f64(name):
    """Beside long double, the errors of f32 are those beside f64."""
    program, args = real_program(name)
    narrow, wide = (jt.precision(program, *args, shadow=s, tries=0) for s in ("f64", "f128"))
    for a, b in zip(narrow.outputs, wide.outputs, strict=True):
        assert b.ulps == pytest.approx(a.ulps, rel=0.01, abs=0.01)


@needs_long_double
@pytest.mark.parametrize("name", ["kalman", "newton", "ode", "ridge", "root"])
def test_wide_programs_beside_long_double(name):
    program, args = real_program(name)
    found = jt.precision(program, *args, shadow="f128", tries=1)
    assert any(e.local for e in found.equations)
    assert all(o.relative < 1e-6 for o in found.outputs)


def test_there_is_no_other_shadow():
    with pytest.raises(UsageError):
        jt.precision(lambda x: x, np.float32(1), shadow="f256")


IN_DOUBLE = {name: programs[0] for name, programs in seeds().items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IN_DOUBLE)
def test_every_primitive_beside_long_double(name, capfd):
    """One whose rule has no long double is computed in its own types, and so are the words of a number, of which it has more."""
    program = in_double(IN_DOUBLE[name]) or IN_DOUBLE[name]
    try:
        args = [generate("random", 0, i, aval) for i, aval in enumerate(program.in_avals)]
        outs = jt.eval_jaxpr(program, args)
        found = jt.precision(program, *args, shadow="f128", tries=0)
    except JaxprToolError as error:
        assert error.diagnostics
        return
    assert len(found.outputs) <= len(outs)


def test_rounding_to_few_bits_is_what_adds_the_error():
    """The shadow has the bits of its own type, as it has its own type in the place of bf16; what remat saves is not rounded in it."""
    x = np.linspace(0.1, 1, 6, dtype=np.float32)
    found = jt.precision(
        jax.jit(lambda x: (jax.lax.reduce_precision(jnp.sin(x), 8, 7) * 3 + x).sum()), x
    )
    worst = max(found.equations, key=lambda e: e.local or 0)
    assert worst.place.eqn.primitive.name == "reduce_precision"
    assert worst.local > 1000

    def wide(bits):
        program = jt.trace(lambda x: jax.lax.reduce_precision(x / 3, *bits), x)
        return jt.eval_jaxpr(in_double(program).jaxpr, [x.astype(np.float64)])[0]

    for bits in ((8, 23), (8, 7), (5, 10)):
        np.testing.assert_array_equal(wide(bits), x.astype(np.float64) / 3)


def _random_step(rng: random.Random) -> Any:
    """An operation that only moves elements, or one that rounds, on [4, 6] and back."""
    moves = [
        lambda x: x.T.reshape(4, 6),
        lambda x: jnp.concatenate([x[1:], x[:1]]),
        lambda x: x.at[1:3, 2].set(x[0, 0]),
        lambda x: jnp.where(x > 0, x[::-1], x),
        lambda x: jnp.sort(x, axis=1),
        lambda x: x[jnp.array([3, 1, 0, 2])],
        lambda x: jnp.broadcast_to(x[:1], (4, 6)),
        lambda x: jnp.pad(x[1:3], ((1, 1), (0, 0)), constant_values=0.3),
        lambda x: x.at[jnp.array([9])].get(mode="fill", fill_value=0.1)[0] + x,
    ]
    rounds = [jnp.sin, lambda x: x * 1.1, lambda x: x / 3 + 0.7, lambda x: jnp.cumsum(x, 0) / 9]
    return rng.choice([*moves, *moves, *rounds])


@pytest.mark.parametrize("seed", range(12))
def test_what_only_moves_elements_adds_nothing_and_has_the_errors_of_all(seed):
    """Each error is that of the equation alone: its result against what it computes in f64 from its own operands."""
    rng = random.Random(seed)
    steps = [_random_step(rng) for _ in range(12)]

    def f(x):
        for step in steps:
            x = step(x)
        return x

    x = np.random.default_rng(seed).normal(size=(4, 6)).astype(np.float32)
    program = jt.parse(jt.format_jaxpr(jt.trace(f, x), lossless=True))
    jaxpr = program.jaxpr
    outs = [v for e in jaxpr.eqns for v in e.out_binders]
    every = program.replace(jaxpr=jaxpr.replace(outs=outs), interface=None)
    pairs = iter(zip(jt.run(every, x), jt.run(in_double(every), x.astype(float)), strict=True))
    found = {e.place.eqn: e for e in jt.precision(every, x, tries=0, top=1000).equations}
    for eqn in jaxpr.eqns:
        for own, wide in [next(pairs) for _ in eqn.out_binders]:
            if own.dtype == np.float32 and own.size and len(eqn.out_binders) == 1:
                ulps, _ = agreement.error_of(own, wide)
                assert found[eqn].total == pytest.approx(ulps), str(eqn)


@needs_long_double
def test_long_double_is_ranked_by_value():
    """The bits of a long double in memory are no number, and some are whatever was there before."""
    x = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)

    def f(x):
        best, places = jax.lax.top_k(x / 3, 5)
        _, sorted_, _ = jax.lax.sort((x[:, :4] * 0.1, x[:, 4:8], x[:, 8:12]), num_keys=1)
        return best, places, sorted_, jnp.argsort(x / 7)

    narrow, wide = (jt.precision(f, x, tries=0, shadow=s) for s in ("f64", "f128"))
    for a, b in zip(narrow.outputs, wide.outputs, strict=True):
        assert a.ulps == pytest.approx(b.ulps, abs=1e-3) and b.ulps < 1
