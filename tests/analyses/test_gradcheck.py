"""gradcheck accepts right derivatives, and names the equation whose rule is wrong."""

from __future__ import annotations

import os
import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.gradchecking.gradcheck import (
    check_point,
    derivative_of,
    differentiable,
    directions_of,
)
from jaxprtool.analyses.gradchecking.point import How
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError
from tests.analyses.planting import (
    REAL,
    count,
    has_rule,
    real_program,
    replaced,
    wrong_jvp,
    wrong_vjp,
)
from tests.laws.oracle import EXAMPLES, by_structure, inputs, is_differentiable, ours
from tests.programs.catalogue import EXAMPLES as FOLDER
from tests.programs.catalogue import PROGRAMS

ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
QUICK = ["attention", "deep_scan", "gru", "kmeans", "mlp", "ridge", "root"]


def examples():
    chosen = [e for e in by_structure(EXAMPLES, narrow=True) if is_differentiable(e) and e.smooth]
    return chosen if ALL else chosen[:: max(1, len(chosen) // 120)]


@pytest.mark.parametrize("example", examples(), ids=lambda e: e.id)
def test_rules_of_primitives_agree_with_differences(example):
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    if not differentiable(program):
        pytest.skip("its derivative is of what is inside of it")
    checks = check_point(program, args, How())
    wrong = [(c.mode, str(m)) for c in checks for m in c.wrong]
    assert not wrong


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_right_programs_pass(name):
    found = jt.gradcheck(*real_program_and_args(name))
    assert found.passed, str(found)
    assert not found.blame


def real_program_and_args(name):
    program, args = real_program(name)
    return program, *args


def derivatives(program, args, mode):
    """The derivative of a program along the direction that depends on its arguments alone."""
    made = derivative_of(program, mode)
    outs = jt.eval_jaxpr(made, [*args, *directions_of(program, args, mode, How())])
    return [np.asarray(x, np.float64) for x in outs[len(program.out_avals) :]]


def is_changed(program, planted, args, mode):
    """Whether a fault changes the derivative by more than a hundredth; None where it has none in this mode."""
    try:
        pairs = zip(derivatives(program, args, mode), derivatives(planted, args, mode), strict=True)
    except JaxprToolError:
        return None
    ratios = [abs(x - y).max() / (abs(x).max() + 1e-30) for x, y in pairs if x.size]
    return max(ratios, default=0) > 0.01


@pytest.mark.parametrize("make, mode", [(wrong_jvp, "fwd"), (wrong_vjp, "rev")])
@pytest.mark.parametrize("name", REAL if ALL else QUICK)
def test_a_wrong_rule_is_named_wherever_it_is(name, make, mode):
    """The equations are drawn from all depths: bodies of loops, branches, calls, devices."""
    program, args = real_program(name)
    n = count(program, has_rule)
    for k in random.Random(f"{name} {mode}").sample(range(n), min(n, 12 if ALL else 2)):
        planted = replaced(program, has_rule, k, make)
        assert planted is not None
        changed = is_changed(program, planted, args, mode)
        if changed is None:
            continue
        found = jt.gradcheck(planted, *args)
        blamed = {f.place.eqn.params.get("name") for f in found.blame}
        assert blamed == {"planted"} if changed else blamed <= {"planted"}, f"{k}\n{found}"
        assert found.passed is (not blamed)


NAMES = {"multiply_add", *REAL}  # a plug-in; those of the law above
FILES = sorted([*FOLDER.glob("*.jaxpr"), *(FOLDER / "zoo").glob("*.jaxpr")])
LEFT = [path for path in FILES if path.stem not in NAMES or path.parent.name == "zoo"]
LEFT = [path for path in LEFT if ALL or path.stem in ("square", "quantised")]


@pytest.mark.parametrize("path", LEFT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_wrong_rule_in_any_file_is_named(path):
    program = load_constants(jt.load(path))
    args = arguments(open_binders(program), ["random:0"])
    n = count(program, has_rule)
    for k in random.Random(path.stem).sample(range(n), min(n, 6 if ALL else 1)):
        check_planted(program, args, k, wrong_jvp)


def check_planted(program, args, k, make):
    """Where a fault makes the check of a program fail that passes without it, the fault is named; whether it does."""
    try:
        planted = replaced(program, has_rule, k, make)
        assert planted is not None
        before, found = jt.gradcheck(program, *args), jt.gradcheck(planted, *args)
    except (JaxprToolError, OverflowError):  # it has no derivative
        return False
    blamed = {f.place.eqn.params.get("name") for f in found.blame}
    if before.passed and not found.passed:
        assert "planted" in blamed, f"{k}\n{planted}\n{found}"
    assert found.passed or not before.passed or blamed
    return before.passed and not found.passed


def test_a_wrong_rule_in_random_programs_is_named():
    wrong = 0
    for seed in range(400 if ALL else 60):
        rng = random.Random(seed)
        try:
            program = with_places(wrapped(rng, draw_program(rng)))
            args = arguments(open_binders(program), [f"random:{seed}"])
            run(program, args)
        except Exception:  # a draw may be wrong in any way
            continue
        n = count(program, has_rule)
        if n and not any(e.primitive.holds_jaxprs and has_effects(e) for e in program.eqns):
            wrong += check_planted(
                program, args, rng.randrange(n), rng.choice([wrong_jvp, wrong_vjp])
            )
    assert wrong >= 3


@jax.custom_jvp
def wrong_sine(x):
    return jnp.sin(x)


wrong_sine.defjvp(lambda p, t: (wrong_sine(p[0]), -jnp.cos(p[0]) * t[0]))


@jax.custom_vjp
def wrong_value(x):
    return jnp.exp(x)


wrong_value.defvjp(lambda x: (2 * jnp.exp(x), jnp.exp(x)), lambda r, ct: (r * ct,))


def test_functions_of_jax_with_pytrees():
    def loss(params, x):
        return jnp.sum(wrong_sine(params["w"]) * x)

    found = jt.gradcheck(loss, {"w": np.float32(0.5)}, np.ones(3, np.float32))
    (blamed,) = found.blame
    assert not found.passed and blamed.place.eqn.primitive.name == "custom_jvp_call"
    assert 'params["w"]' in str(found) and "test_gradcheck.py" in str(found)


def test_the_value_of_a_rule_has_to_be_that_of_the_function():
    found = jt.gradcheck(wrong_value, np.float32(0.5), modes="rev")
    assert [f.mismatch and f.mismatch.mode for f in found.blame] == ["value"]


def test_the_step_and_the_branch_of_the_place():
    def body(c, x):
        return jax.lax.cond(x > 2, lambda c: wrong_sine(c), lambda c: c * 2, c), c

    xs = np.array([1, 1, 3, 1, 1], np.float32)
    found = jt.gradcheck(lambda c, xs: jax.lax.scan(body, c, xs)[0], np.float32(0.1), xs)
    (blamed,) = found.blame
    assert "> step 2 > cond" in str(blamed.place) and "branch 1 > custom_jvp_call" in str(
        blamed.place
    )


def test_a_rule_that_is_wrong_late_in_a_loop():
    """It is right at first, so equations are checked in every step where no early one is wrong."""

    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda p, t: (jnp.sin(p[0]), jnp.where(p[0] > 5.6, 3, 1) * jnp.cos(p[0]) * t[0]))

    def loop(x):
        return jax.lax.scan(lambda c, i: (c + f(x * i), None), x, jnp.arange(7.0))[0]

    found = jt.gradcheck(loop, np.float32(0.97))
    (blamed,) = found.blame
    assert blamed.place.path[0].step == 6


@pytest.mark.parametrize(
    "f, x",
    [
        (jnp.abs, np.zeros(3, np.float32)),
        (lambda x: jnp.maximum(x, 1.0), np.ones(3, np.float32)),
        (jnp.max, np.ones(4, np.float32)),
        (jnp.sort, np.ones(4, np.float32)),
        (jnp.floor, np.arange(3, dtype=np.float32)),
        (jax.nn.relu, np.zeros((), np.float32)),
    ],
)
def test_kinks_are_named_and_are_no_failure(f, x):
    found = jt.gradcheck(f, x)
    assert found.passed, str(found)
    assert {e.kind for e in found.derivatives[0].equations} & {"kink", "stopped"}


def test_what_stops_the_derivative_is_named():
    found = jt.gradcheck(lambda x: x * jax.lax.stop_gradient(x), np.float32(3))
    assert found.passed
    (note,) = found.derivatives[0].equations
    assert note.kind == "stopped" and note.place.eqn.primitive.name == "stop_gradient"


def test_the_second_derivative():
    """The first derivative is right, and its own rule is wrong."""

    @jax.custom_jvp
    def f(x):
        return x**3

    f.defjvp(lambda p, t: (f(p[0]), 3 * square(p[0]) * t[0]))

    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda p, t: (square(p[0]), p[0] * t[0]))
    x = np.float32(0.7)
    assert jt.gradcheck(f, x).passed
    found = jt.gradcheck(f, x, order=2)
    assert not found.passed and found.derivatives[0].passed
    assert {f.place.eqn.params["name"] for f in found.blame} == {"square"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_types(dtype):
    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray([0.3, 0.7, 1.9], dtype)
        right = jt.trace(lambda x: jnp.exp(x) * x, x)
        wrong = jt.trace(lambda x: wrong_sine(x) * x, x)
    assert jt.gradcheck(right, np.asarray(x)).passed
    found = jt.gradcheck(wrong, np.asarray(x))
    assert [f.place.eqn.primitive.name for f in found.blame] == ["custom_jvp_call"]


def test_keys_integers_and_callbacks():
    def f(key, n, x):
        jax.debug.print("{}", n)
        return jnp.sum(jax.random.normal(key, (3,)) * x) * n

    found = jt.gradcheck(f, jax.random.key(0), np.int32(2), np.ones(3, np.float32))
    assert found.passed


def test_a_nan_gradient_of_a_smooth_function():
    """The double where: the value is guarded, and the derivative is NaN."""

    def f(x):
        return jnp.where(x > 0, jnp.sqrt(x), 0.0 * x)

    found = jt.gradcheck(f, np.array([4.0, -1.0], np.float32))
    assert not found.passed


def test_wrong_usage():
    with pytest.raises(UnsupportedError):
        jt.gradcheck(lambda x: x + 1, np.int32(1))
    with pytest.raises(jt.UsageError):
        jt.gradcheck(jnp.sin, np.float32(1), modes="forward")
    with warnings.catch_warnings(), pytest.raises(JaxprToolError):
        warnings.simplefilter("ignore")
        jt.gradcheck(
            lambda x: jax.lax.while_loop(lambda c: c < 9, lambda c: c * 2, x),
            np.float32(1),
            modes="rev",
        )


ANALYTIC = {
    "elementwise": lambda x: jnp.exp(jnp.sin(x)) / (1 + x * x) - jnp.tanh(x) ** 3,
    "sums": lambda x: (jnp.outer(x, jnp.cos(x)) @ x).sum() + jnp.cumsum(jnp.log(x * x + 1)),
    "loop": lambda x: jax.lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * x, x),
    "call": lambda x: jax.nn.silu(jax.jit(jnp.sqrt)(x * x + 0.1)),
}
OTHER = {
    "abs": lambda x: jnp.abs(x) * x,
    "where": lambda x: jnp.where(x > 0.3, x * x, -x),
    "erf": lambda x: jax.scipy.special.erf(x),
    "rounded": lambda x: jnp.round(x) * x,
    "sign": lambda x: jnp.sign(x) * x,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ANALYTIC)
def test_complex_steps_where_all_is_analytic(name, dtype):
    with jax.enable_x64(dtype == np.float64):
        found = jt.gradcheck(ANALYTIC[name], np.array([0.3, -0.7, 1.1], dtype))
    checks = [c for c in found.derivatives[0].checks if c.mode in ("fwd", "rev")]
    assert found.passed and {c.steps for c in checks} == {"complex"}
    assert "by complex steps" in str(found) and found.json()["derivatives"][0]["modes"][0]["steps"]


@pytest.mark.parametrize("name", OTHER)
def test_real_steps_elsewhere(name):
    found = jt.gradcheck(OTHER[name], np.array([0.4, -0.7, 1.1], np.float32))
    assert {c.steps for c in found.derivatives[0].checks} == {"real"}, str(found)
    assert "complex" not in str(found)


def test_a_wrong_rule_is_wrong_by_complex_steps_too():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda p, t: (jnp.sin(p[0]), t[0] * jnp.cos(p[0]) * 1.01))
    found = jt.gradcheck(lambda x: f(x) * x, np.array([0.3, 0.4], np.float32))
    assert not found.passed
    assert {c.steps for c in found.derivatives[0].checks if c.mode == "fwd"} == {"complex"}


@pytest.mark.parametrize("f", [*ANALYTIC.values(), *OTHER.values()])
@pytest.mark.parametrize("size", [1e-40, 3e-45, 1.5e-38])
def test_denormal_numbers_are_not_called_wrong(f, size):
    """A denormal number has few bits, and so have the differences and the derivatives there."""
    x = (np.array([1.0, -2.0, 3.0]) * size).astype(np.float32)
    assert jt.gradcheck(f, x).passed
    assert jt.gradcheck(
        lambda x: f(x) * np.float32(1e-39), np.array([0.3, -0.7, 1.1], np.float32)
    ).passed


def _slightly_wrong(kind, factor):
    """A function whose own rule is off by a factor."""

    def slope(x):
        return factor * (jnp.cos(x) - 2 * x * jnp.sin(x)) * jnp.exp(-x * x)

    if kind == "jvp":
        f = jax.custom_jvp(lambda x: jnp.sin(x) * jnp.exp(-x * x))
        f.defjvp(lambda p, t: (f(*p), t[0] * slope(*p)))
        return f
    f = jax.custom_vjp(lambda x: jnp.sin(x) * jnp.exp(-x * x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * slope(x),))
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.01, False), (0.99, False)])
def test_a_rule_in_a_loop_that_is_off_by_one_percent_is_found_in_single_precision(
    kind, factor, passed
):
    """Also where it is a small part of the derivative."""
    f = _slightly_wrong(kind, factor)

    def loop(x):
        return jax.lax.scan(lambda c, v: (c + 0.1 * f(c * v), None), jnp.ones((8, 8)), x)[0].sum()

    x = np.random.default_rng(1).random(30).astype(np.float32)
    found = jt.gradcheck(loop, x).json()
    assert found["passed"] is passed
    named = [b["place"]["primitive"] for b in found["blame"]]
    assert named == ([] if passed else [f"custom_{kind}_call"])


@pytest.mark.parametrize(
    ("steps", "wrong", "kept"), [(100, 90, 0.1), (300, 200, 1.0) if ALL else (60, 40, 1.0)]
)
def test_a_loop_that_forgets_where_it_began_hides_no_wrong_step(steps, wrong, kept):
    @jax.custom_vjp
    def sine(c, i):
        return jnp.sin(c)

    def backwards(saved, ct):
        c, i = saved
        return ct * jnp.cos(c) * jnp.where(i == wrong, 0.5, 1.0), None

    sine.defvjp(lambda c, i: (jnp.sin(c), (c, i)), backwards)

    def late(x):
        def step(c, i):
            return kept * c + (1 if kept < 1 else 0.01) * sine(c, i), c

        return jax.lax.scan(step, x, jnp.arange(steps))[0].sum()

    (found,) = jt.gradcheck(late, jnp.array([0.3, -0.7, 1.1], jnp.float32)).blame
    place = found.place.json()
    assert place["primitive"] == "custom_vjp_call" and place["path"][0]["step"] == wrong


@pytest.mark.parametrize("where", ["top", "scan"])
def test_results_of_float0_have_nothing_to_compare(where):
    """What `jax.jvp` gives of a function with integer results: their tangents are of float0, as of no other program."""

    def f(x):
        return jnp.sin(x) * x, jnp.argmax(x)

    def forward(x, t):
        if where == "top":
            return jax.jvp(f, (x,), (t,))
        step = lambda c, _: (c + 1.0, jax.jvp(f, (c,), (t,)))
        return jax.lax.scan(step, x, None, length=3)

    x = np.linspace(0.1, 1, 3, dtype=np.float32)
    program = jt.trace(forward, x, x)
    assert any(str(a.dtype) == "float0" for a in program.out_avals)
    for order in (1, 2):
        found = jt.gradcheck(program, x, x, order=order)
        assert found.passed
        assert {c.status for d in found.derivatives for c in d.checks} == {"agrees"}
