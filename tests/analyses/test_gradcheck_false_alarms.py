"""gradcheck accuses nothing that is right: roundings, ties, types of few bits, operands that are symmetric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.analyses.gradchecking import equations as gradcheck_equations
from jaxprtool.analyses.gradchecking.gradcheck import check_point

X = np.array([0.9, 0.3, 1.4, 0.7], np.float32)
S = np.array([[4, 1, 0], [1, 5, 2], [0, 2, 6]], np.float32)
HALF = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


@jax.custom_jvp
def wrong_sine(x: Any) -> Any:
    return jnp.sin(x)


wrong_sine.defjvp(lambda p, t: (jnp.sin(p[0]), 1.2 * jnp.cos(p[0]) * t[0]))


def steps(y: Any, p: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        slope = jnp.sin(y) * p
        middle = jnp.sin(y + 0.05 * slope) * p
        return y + 0.1 * middle, (slope, jnp.linalg.norm(y))

    return lax.scan(step, y, None, length=30)


def near(x: Any) -> Any:
    return jnp.log(x + 1)[np.array([1, 2])]


def long_loop(x: Any) -> Any:
    return lax.fori_loop(0, 3000, lambda _, c: jnp.sin(c) * 0.999 + 0.001 * x, x).sum()


SMOOTH: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "many steps": (steps, (X, X + 1)),
    "many steps of another": (steps, (2 * X, X)),
    "small results of large values": (near, (np.zeros(3, np.float32),)),
    "a long loop": (long_loop, (X,)),
}


@pytest.mark.parametrize("case", SMOOTH.values(), ids=SMOOTH)
def test_rounding_is_no_kink(case: Any) -> None:
    f, args = case
    (found,) = jt.gradcheck(f, *args).derivatives
    assert not any(c.kinks for c in found.checks), str(found)
    assert {c.status for c in found.checks} <= {"agrees", "unsure"}
    assert sum(c.compared for c in found.checks if c.mode == "rev") > 0


NEAR_TIES = {
    "sort": (jnp.sort, [1.484, 0.676, 0.625, 0.6211, 0.957, 1.664, 1.18]),
    "top_k": (lambda x: lax.top_k(x, 3)[0], [1.261, 1.403, 0.4539, 1.233, 1.286, 0.4443, 0.561]),
    "max": (jnp.max, [1.25, 1.26, 1.0]),
    "median": (jnp.median, [1.25, 1.26, 1.24, 1.3, 1.2]),
    "relu": (lambda x: jax.nn.relu(x - 1), [0.99, 1.01, 1.03, 0.97]),
}


@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("case", NEAR_TIES.values(), ids=NEAR_TIES)
def test_ties_within_the_steps_of_few_bits(case: Any, dtype: Any) -> None:
    f, x = case
    found = jt.gradcheck(f, np.array(x).astype(dtype))
    assert found.passed and not found.blame, str(found)


@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("seed", range(4))
def test_long_chains_of_few_bits(dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, p = rng.uniform(0.2, 2.0, (2, 4)).astype(dtype)
    found = jt.gradcheck(steps, y, p)
    assert found.passed and not found.blame, str(found)


@pytest.mark.parametrize("bits", [2, 5, 7, 10])
def test_rounding_to_fewer_bits_than_the_type_has(bits: int) -> None:
    found = jt.gradcheck(lambda x: lax.reduce_precision(jnp.exp(x) * x, 8, bits), X)
    assert found.passed and not found.blame, str(found)


@pytest.mark.parametrize("way", ["scan", "jit", "cond", "custom_jvp"])
def test_a_kink_is_named_where_it_is(way: str) -> None:
    def body(x: Any) -> Any:
        return jnp.abs(x - 0.3) * 2

    own = jax.custom_jvp(body)
    own.defjvp(lambda p, t: jax.jvp(body, p, t))
    ways: dict[str, Callable[..., Any]] = {
        "scan": lambda x: lax.scan(lambda c, t: (c + body(t), c), 0.0, x),
        "jit": jax.jit(body),
        "cond": lambda x: lax.cond(x.sum() > 0, body, jnp.sin, x),
        "custom_jvp": own,
    }
    found = jt.gradcheck(ways[way], X)
    (derivative,) = found.derivatives
    kinks = {f.place.eqn.primitive.name for f in derivative.equations if f.kind == "kink"}
    assert found.passed
    assert kinks == {"custom_jvp_call" if way == "custom_jvp" else "abs"}, str(found)


BESIDE: dict[str, Callable[..., Any]] = {
    "cholesky": jnp.linalg.cholesky,
    "eigh": lambda s: jnp.linalg.eigh(s)[0],
    "svd": lambda s: jnp.linalg.svd(s)[1],
    "inv": jnp.linalg.inv,
    "slogdet": jnp.linalg.slogdet,
    "log_softmax": jax.nn.log_softmax,
    "stop_gradient": jax.jit(lambda s: (lax.stop_gradient(s), s * lax.stop_gradient(s))),
    "floor": jax.jit(lambda s: s - jnp.floor(s)),
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
def test_a_wrong_rule_is_named_alone(beside: Callable[..., Any]) -> None:
    """What is beside it is right, though differences of its own operand look otherwise."""
    found = jt.gradcheck(lambda s: (beside(s @ s.T), wrong_sine(s)), S)
    assert not found.passed
    assert [f.place.eqn.primitive.name for f in found.blame] == ["custom_jvp_call"], str(found)


def shifted(x: Any) -> Any:
    return (x + 1e4) - 1e4


ABSORBED: dict[str, tuple[Callable[..., Any], Any]] = {
    "added and taken away": (shifted, np.float32([1e-3, 0.3])),
    "a sum": (jnp.sum, np.float32([1e4, 1e-3, -1e4])),
    "a sum of few bits": (jnp.sum, np.array([200, 0.02, -200], ml_dtypes.bfloat16)),
    "a mean": (jnp.mean, np.float32([1e4, 1e-3, -1e4])),
    "in a loop": (lambda x: lax.fori_loop(0, 3, lambda _, c: shifted(c), x), np.float32([1e-3])),
    "in a branch": (lambda x: lax.cond(x[0] > 0, shifted, jnp.sin, x), np.float32([1e-3])),
    "of complex numbers": (
        lambda z: ((z + 1e4) - 1e4).real.sum(),
        np.array([1e-3 + 2e-3j], np.complex64),
    ),
    "next to others": (lambda x: jnp.tanh(x).sum() + shifted(x[0]), np.float32([1e-3, 0.7])),
}


@pytest.mark.parametrize("case", ABSORBED.values(), ids=ABSORBED)
def test_steps_that_rounding_absorbs_accuse_no_rule(case: Any) -> None:
    f, x = case
    found = jt.gradcheck(f, x)
    assert found.passed, str(found)
    assert not found.blame, str(found)


@pytest.mark.parametrize("case", ABSORBED.values(), ids=ABSORBED)
def test_a_wrong_rule_is_found_beside_steps_that_rounding_absorbs(case: Any) -> None:
    f, x = case
    if np.iscomplexobj(x) or x.dtype != np.float32:
        x = np.float32([1e-3, 0.2, 0.4])
    found = jt.gradcheck(lambda x: f(x).sum() + wrong_sine(x).sum(), x)
    assert not found.passed
    (wrong,) = {f.place.eqn.primitive.name for f in found.blame}
    assert wrong == "custom_jvp_call"


def test_an_infinite_derivative_does_not_spoil_those_of_other_elements() -> None:
    (found,) = jt.gradcheck(
        lambda x: jnp.sqrt(x).sum(), np.float32([0, 2]), modes=("rev",)
    ).derivatives
    assert not any(c.wrong for c in found.checks), str(found)


LARGEST: dict[str, Callable[..., Any]] = {
    "a mask": lambda x, c: jnp.where(jnp.arange(4) < 2, x, c),
    "a softmax": lambda x, c: jax.nn.softmax(jnp.where(jnp.arange(4) < 2, x, c)),
    "an identity": lambda x, c: (x, c * 1),
    "many elements": lambda x, c: jnp.where(jnp.arange(4) < 2, x, jnp.full((3, 16, 4), c)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("f", LARGEST.values(), ids=LARGEST)
def test_the_largest_numbers_accuse_no_rule(f: Callable[..., Any], dtype: Any) -> None:
    """As masks of attention have them, which are arguments of operations: a tangent of their size overflows."""
    for c in (ml_dtypes.finfo(dtype).min, ml_dtypes.finfo(dtype).max):
        found = jt.gradcheck(f, X.astype(dtype), np.asarray(c, dtype))
        assert not any(c.wrong for d in found.derivatives for c in d.checks), str(found)


@jax.custom_jvp
def wrong_exponential(x: Any) -> Any:
    return jnp.exp(x)


wrong_exponential.defjvp(lambda p, t: (jnp.exp(p[0]), 1.01 * jnp.exp(p[0]) * t[0]))

# Tangents as long as the arguments overflow, or operations of the derivative underflow.
EXTREME: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "products with an exponential": (lambda a, b: (b * jnp.exp(a), jnp.exp(a)), (80.5, 80.5)),
    "large exponentials": (lambda a: jnp.exp(a), (88.0,)),
    "quotients of large numbers": (lambda a, b: a / b, (80.5, 9.7e34)),
    "products of small numbers": (lambda a, b: a * b * b, (1e20, 1e-25)),
    "powers": (lambda a: a**-3, (1e12,)),
}


@pytest.mark.parametrize("case", EXTREME.values(), ids=EXTREME)
def test_numbers_beyond_a_type_accuse_no_rule(case: Any) -> None:
    f, args = case
    found = jt.gradcheck(f, *map(np.float32, args))
    assert not any(c.wrong for d in found.derivatives for c in d.checks), str(found)


@pytest.mark.parametrize("x", [80.5, 88.0, -80.5])
def test_a_wrong_rule_is_found_there(x: float) -> None:
    found = jt.gradcheck(wrong_exponential, np.float32(x))
    assert {f.place.eqn.primitive.name for f in found.blame} == {"custom_jvp_call"}


WITH_ZEROS = np.array([0, 1, 4, 0, 2, 3] * 6, np.float32)
INFINITE: dict[str, Callable[..., Any]] = {
    "sqrt": jnp.sqrt,
    "power": lambda x: jnp.sqrt(x) ** 3,
    "log": lambda x: jnp.log(x + 1) * jnp.sqrt(x),
    "among others": lambda x: jnp.cos(x) + jnp.where(jnp.arange(36) > 9, jnp.sqrt(x), x),
}


@pytest.mark.parametrize("f", INFINITE.values(), ids=INFINITE)
def test_an_infinite_derivative_among_many_accuses_no_rule(f: Callable[..., Any]) -> None:
    """The derivative of a sum in which such an element has the weight 0 is NaN there."""
    found = jt.gradcheck(f, WITH_ZEROS)
    assert not any(c.wrong for d in found.derivatives for c in d.checks), str(found)
    assert not any(e.kind == "wrong" for d in found.derivatives for e in d.equations), str(found)
    found = jt.gradcheck(lambda x: (f(x), wrong_sine(x)), WITH_ZEROS)
    (wrong,) = {f.place.eqn.primitive.name for f in found.blame}
    assert wrong == "custom_jvp_call"


DRAWS: dict[str, Callable[..., Any]] = {
    "gamma": jax.random.gamma,
    "loggamma": jax.random.loggamma,
    "beta": lambda key, a: jax.random.beta(key, a, a + 1),
    "dirichlet": jax.random.dirichlet,
    "t": jax.random.t,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws_have_the_derivative_of_their_distribution(draw: Callable[..., Any]) -> None:
    key, a = jax.random.key(0), np.float32([0.5, 2, 3])
    found = jt.gradcheck(lambda a: jnp.sin(draw(key, a)), a)
    assert found.passed, str(found)
    assert "quantile" in {e.kind for d in found.derivatives for e in d.equations}
    found = jt.gradcheck(lambda a: wrong_sine(draw(key, a)), a)
    (wrong,) = {f.place.eqn.primitive.name for f in found.blame}
    assert not found.passed and wrong == "custom_jvp_call"


def network(act: Callable[..., Any]) -> Callable[..., Any]:
    def f(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
        h = jax.nn.relu(x @ w1)
        h = jnp.max(jnp.abs(h @ w2).reshape(4, 16, 2), -1)
        return act(h @ w3)

    return f


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("wrong", [False, True])
def test_kinks_nearby_are_no_mistakes(seed: int, wrong: bool) -> None:
    """Among hundreds of units there is one whose kink the steps of single precision cross."""
    draw = np.random.default_rng(seed).standard_normal
    args = [draw(s).astype(np.float32) / 4 for s in ((4, 64), (64, 64), (64, 32), (16, 3))]
    (found,) = jt.gradcheck(network(wrong_sine if wrong else jnp.sin), *args, seed=seed).derivatives
    statuses = {c.mode: c.status for c in found.checks}
    assert statuses["fwd"] == ("differs" if wrong else "agrees"), str(found)
    assert statuses["rev"] == ("differs" if wrong else "agrees"), str(found)


def test_a_kink_in_a_loop_is_not_sought_in_each_step_where_a_rule_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    xs = np.linspace(0.5, 2, 100, dtype=np.float32)
    xs[20] = 0.3  # in no step that is looked at first
    counted = [0]

    def counting(*args: Any) -> Any:
        counted[0] += 1
        return check_point(*args)

    def checks_of(f: Callable[[Any], Any]) -> tuple[int, Any]:
        counted[0] = 0
        found = jt.gradcheck(f, xs)
        return counted[0], found

    def loop(x: Any) -> Any:
        return lax.scan(lambda c, t: (c + jnp.abs(t - 0.3) * jnp.cos(t), None), 0.0, x)[0]

    monkeypatch.setattr(gradcheck_equations, "check_point", counting)
    n, found = checks_of(loop)
    assert found.passed and n > 100, str(found)
    kinks = [f for d in found.derivatives for f in d.equations if f.kind == "kink"]
    assert [f.place.eqn.primitive.name for f in kinks] == ["abs"]
    n, found = checks_of(lambda x: loop(x) + wrong_sine(x).sum())
    assert [f.place.eqn.primitive.name for f in found.blame] == ["custom_jvp_call"], str(found)
    assert n < 100


EXPLAINED: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "a promise": (
        lambda x: x.at[jnp.array([0, 0])].mul(x[:2] * 3, unique_indices=True),
        X,
        "promise",
    ),
    "a stop": (lambda x: (x * lax.stop_gradient(x)).sum(), X, "stopped"),
}


@pytest.mark.parametrize("case", EXPLAINED.values(), ids=EXPLAINED)
def test_a_row_says_what_a_note_explains(case: Any) -> None:
    """A mode `differs` where a rule is wrong alone."""
    f, x, why = case
    found = jt.gradcheck(f, x)
    assert found.passed, str(found)
    (derivative,) = found.json()["derivatives"]
    statuses = {m["status"] for m in derivative["modes"]}
    assert statuses <= {why, "agrees"} and why in statuses, str(found)
    assert "differs" not in str(found)


@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("f", [lambda x: x * 3.1, jnp.tanh, lambda x: x.astype(np.float32) * 1.1])
def test_a_wrong_rule_is_named_in_a_type_of_few_bits(f: Callable[..., Any], dtype: Any) -> None:
    """The rule is half as large again: differences in so few bits do not show it of one operation."""
    wrong = jax.custom_jvp(f)
    wrong.defjvp(lambda p, t: (f(p[0]), 1.5 * jax.jvp(f, p, t)[1]))
    x = np.random.default_rng(0).standard_normal(48).astype(dtype)
    found = jt.gradcheck(lambda x: jnp.sin(wrong(x)) * 2, x)
    assert [f.place.eqn.primitive.name for f in found.blame] == ["custom_jvp_call"], str(found)


@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
@pytest.mark.parametrize("f", [jax.nn.softmax, lambda x: x % 0.3, jax.nn.gelu, jnp.var])
def test_what_a_rule_loses_to_rounding_is_no_mistake(f: Callable[..., Any], dtype: Any) -> None:
    rng = np.random.default_rng(3)
    rng.uniform(0.1, 0.9, 6)
    x = (rng.standard_normal(30) * 3).astype(dtype)
    found = jt.gradcheck(f, x)
    assert found.passed and not found.blame, str(found)


def cholesky(x: Any) -> Any:
    return jax.lax.linalg.cholesky(x, symmetrize_input=False)


def eigenvectors(x: Any) -> Any:
    return jax.lax.linalg.eigh(x, symmetrize_input=False)[0] ** 2


def spread(v: Any) -> Any:
    return jnp.outer(v, v) + jnp.diag(jnp.arange(4.0, dtype=np.float32) + 3)


V = np.float32([0.5, -1.2, 0.8, 2.0])
HELD: dict[str, Callable[..., Any]] = {
    "jit": lambda f: jax.jit(f),
    "remat": lambda f: jax.checkpoint(f),
    "vmap in jit": lambda f: jax.jit(lambda x: jax.vmap(f)(jnp.stack([x, x + 1]))),
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, k: (c, f(c)), x, jnp.arange(2))[1],
    "cond": lambda f: lambda x: jax.lax.cond(x[0, 0] > 0, f, lambda x: x, x),
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
@pytest.mark.parametrize("op", [cholesky, eigenvectors])
def test_what_holds_a_rule_for_symmetric_matrices_is_right(
    op: Callable[..., Any], held: Callable[..., Any]
) -> None:
    """The one wrong equation beside it is named alone."""
    found = jt.gradcheck(lambda v: wrong_sine(held(op)(spread(v))), V)
    assert not found.passed
    assert {f.place.eqn.primitive.name for f in found.blame} == {"custom_jvp_call"}, str(found)


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_a_symmetric_argument_has_a_derivative_along_symmetric_directions(
    held: Callable[..., Any],
) -> None:
    found = jt.gradcheck(held(cholesky), np.asarray(spread(V)))
    (derivative,) = found.derivatives
    assert found.passed and [f.kind for f in derivative.equations] == ["symmetric"], str(found)
    assert "a derivative along symmetric directions alone" in str(found)
    wrong = jt.gradcheck(lambda x: wrong_sine(held(cholesky)(x)), np.asarray(spread(V)))
    assert {f.place.eqn.primitive.name for f in wrong.blame} == {"custom_jvp_call"}, str(wrong)


def paths(x: Any) -> Any:
    """The logarithm of a sum over paths (CTC, hidden Markov models), with a large number for what cannot be."""

    def step(c: Any, v: Any) -> Any:
        before = jnp.concatenate([jnp.full((1,), -1e5), c[:-1]])
        return jnp.logaddexp(c, before) + v, None

    return lax.scan(step, jnp.full((4,), -1e5).at[0].set(0.0), x)[0][-1]


def test_a_kink_inside_does_not_accuse_the_loop() -> None:
    """Ties of large numbers inside of a loop change its differences so much that it looks wrong."""
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    found = jt.gradcheck(jax.grad(paths), x)
    assert found.passed, str(found)
    found = jt.gradcheck(lambda x: jax.grad(paths)(wrong_sine(x)), x)
    assert {f.place.eqn.primitive.name for f in found.blame} == {"custom_jvp_call"}, str(found)


def bisection(t: Any) -> Any:
    def body(s: Any) -> Any:
        low, high = s
        middle = 0.5 * (low + high)
        up = middle * middle < t
        return jnp.where(up, middle, low), jnp.where(up, high, middle)

    low, _ = lax.while_loop(lambda s: s[1] - s[0] > 1e-2, body, (jnp.float32(0), t + 1))
    x = lax.stop_gradient(low)
    return x - (x * x - t) / (2 * x)


def test_no_equation_is_checked_twice_at_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several searches look at one program; what one of them has checked the next one knows."""
    checked: list[Any] = []
    check = gradcheck_equations._Equations.check  # pyright: ignore[reportPrivateUsage]

    def counting(self: Any, eqn: Any, program: Any, args: Any) -> Any:
        checked.append((str(self.place(eqn)), id(eqn)))
        return check(self, eqn, program, args)

    monkeypatch.setattr(gradcheck_equations._Equations, "check", counting)  # pyright: ignore[reportPrivateUsage]
    found = jt.gradcheck(jax.vmap(bisection), np.float32([2, 3, 0.5]))
    assert found.passed and checked, str(found)
    assert len({*checked}) == len(checked)


def _slope_of_size(x):
    """The gradient of a sum of |x|, whose derivative is a difference of numbers that are nearly equal."""
    return jax.grad(lambda x: (jnp.sqrt(x * x) * jnp.arange(1.0, 9.0)[:, None]).sum())(x)


@pytest.mark.parametrize("seed", range(4))
def test_a_derivative_in_which_all_cancels_is_off_by_rounding(seed):
    """It is 0, and what rounding leaves of it is not."""
    x = np.random.default_rng(seed).standard_normal((8, 4)).astype(np.float32)
    found = jt.gradcheck(_slope_of_size, x)
    modes = [m for d in found.json()["derivatives"] for m in d["modes"]]
    assert found.passed and {m["status"] for m in modes} == {"agrees"}, found


def test_rounding_excuses_no_wrong_rule_beside_it():
    @jax.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda p, t: (cube(*p), 2.99 * p[0] ** 2 * t[0]))
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    found = jt.gradcheck(lambda x: _slope_of_size(x) + cube(x), x)
    assert [b.place.eqn.params["name"] for b in found.blame if b.place] == ["cube"]


def masked_power(fault):
    """x y^2 or sin x + y, by a mask, with a rule of its own."""
    mask = np.array([True, False, True, True, False])

    @jax.custom_vjp
    def f(x, y):
        return jnp.where(mask, x * y * y, jnp.sin(x) + y)

    def backward(given, ct):
        x, y = given
        gx = jnp.where(mask, y * y, jnp.cos(x))
        return ct * gx * fault, ct * jnp.where(mask, 2 * x * y, 1.0)

    f.defvjp(lambda x, y: (f(x, y), (x, y)), backward)
    return lambda x, y: f(jnp.sin(x), y).sum()


@pytest.mark.parametrize("seed", [5, *range(4)])
def test_a_rule_for_reverse_mode_alone_is_known_well_enough(seed):
    """Rounding in single precision can look like a kink of a sum; there is no forward mode which would say that it is none."""
    random = np.random.RandomState(seed)
    x, y = random.randn(2, 5).astype(np.float32)
    for fault in (1.0, 1.5):
        found = jt.gradcheck(masked_power(fault), x, y).json()["derivatives"][0]["modes"]
        status = {mode["mode"]: mode["status"] for mode in found}
        assert status == {"fwd": "unavailable", "rev": "agrees" if fault == 1.0 else "differs"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [0.0, 0.01])
def test_numbers_that_stand_for_infinity_are_no_wrong_rule(fault):
    """The loss of connectionist temporal classification: of -1e30 other roundings give NaN, and the sums of many frames round much.

    What none of them says anything of does not count as right either: a rule may be off in single precision alone.
    """
    labels, none = np.array([0, 3, 0, 1, 0, 4, 0, 2, 0]), np.float32(-1e30)

    @jax.custom_jvp
    def same(x):
        return x

    same.defjvp(lambda p, t: (p[0], t[0] * (1 + fault * ((p[0] + 1e8) - 1e8 != p[0]))))

    def loss(logits):
        frames = jax.nn.log_softmax(same(logits))
        begin = jnp.full(9, none).at[:2].set(frames[0, labels[:2]])

        def step(a, frame):
            before = jnp.concatenate([none[None], a[:-1]])
            skipped = jnp.where(labels > 0, jnp.concatenate([none[None], before[:-1]]), none)
            a = jnp.logaddexp(jnp.logaddexp(a, before), skipped) + frame[labels]
            return a, a.max()

        a, most = jax.lax.scan(step, begin, frames[1:])
        return -jnp.logaddexp(a[-1], a[-2]), most

    x = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    found = jt.gradcheck(loss, x, modes="fwd").json()
    assert found["passed"] == (not fault)
    assert [b["place"]["primitive"] for b in found["blame"]] == ["custom_jvp_call"] * bool(fault)
    assert found["derivatives"][0]["modes"][0]["unsure"]


def qr_of(a):
    return lax.linalg.qr(a, full_matrices=False)


BRANCHES = {
    "qr: a phase of any size": (qr_of, np.array([[0, 1j]], np.complex64)),
    "qr: triangular": (qr_of, np.float32([[2, 1], [0, 3]])),
    "qr: triangular, complex": (qr_of, np.array([[2j, 1], [0, 3j]], np.complex64)),
    "qr: the identity": (qr_of, np.eye(2, dtype=np.float32)),
    "qr: a column of zeros": (qr_of, np.float32([[0, 1], [0, 2], [0, 5]])),
    "svd: equal values": (jnp.linalg.svd, np.eye(2, dtype=np.float32)),
    "eigh: equal values": (jnp.linalg.eigh, np.eye(2, dtype=np.float32)),
    "eigvalsh: equal values": (jnp.linalg.eigvalsh, np.eye(2, dtype=np.float32)),
    "eigvals: equal values": (jnp.linalg.eigvals, np.eye(2, dtype=np.float32)),
    "lu: pivots that tie": (
        lambda a: jax.scipy.linalg.lu_factor(a)[0],
        np.float32([[1, 2], [-1, 3]]),
    ),
    "top_k: three that tie": (
        lambda x: lax.top_k(x * jnp.arange(1.0, 4.0), 2)[0],
        np.float32([6, 3, 2]),
    ),
    "angle: on the cut and at zero": (jnp.angle, np.array([-1, 0], np.complex64)),
}


@pytest.mark.parametrize("f, x", BRANCHES.values(), ids=BRANCHES)
def test_where_a_result_jumps_the_others_have_no_derivative_either(f, x):
    """The rule of a decomposition has the branch of its results, which elements nearby do not have."""
    found = jt.gradcheck(f, x)
    assert found.passed and not found.blame, str(found)
    assert "a kink or a jump" in str(found)


TIES = np.float32([[0.3, -0.2, 0.1], [-1, -1, -1], [2, 1, 2]])
MIDDLES: dict[str, Callable[[Any], Any]] = {
    "sort": lax.sort,
    "median": lambda x: jnp.median(x, axis=1),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "sort of zeros": lambda x: lax.sort(jnp.maximum(x, 1.0)),
    "sort in a loop": lambda x: lax.scan(lambda c, r: (c, lax.sort(r)), 0, x)[1],
}


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("fwd", "rev")])
@pytest.mark.parametrize("repeated", [1, 4])  # element by element, and along random directions
@pytest.mark.parametrize("name", MIDDLES)
def test_the_middle_one_of_three_that_tie_has_no_derivative(
    name: str, repeated: int, modes: Any
) -> None:
    """It has one along each direction: no line through the point shows a kink."""
    x = np.concatenate([TIES * (k + 1) for k in range(repeated)])
    found = jt.gradcheck(MIDDLES[name], x, modes=modes)
    assert found.passed and all(x.kind != "wrong" for x in found.blame), str(found)


@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
@pytest.mark.parametrize("repeated", [1, 4])
def test_a_wrong_rule_beside_the_middle_one_of_three_is_found(repeated: int, modes: Any) -> None:
    x = np.concatenate([TIES * (k + 1) for k in range(repeated)])
    found = jt.gradcheck(lambda x: (lax.sort(x), wrong_sine(x)), x, modes=modes)
    assert not found.passed
    assert [x.place.eqn.primitive.name for x in found.blame] == ["custom_jvp_call"], str(found)


@pytest.mark.parametrize("kind", ["jump", "smooth"])
def test_a_wrong_rule_beside_a_jump_is_found(kind):
    @jax.custom_jvp
    def f(x):
        return jnp.stack([jnp.floor(x[0]), x[1] ** 2])

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), jnp.stack([0 * t[0], 3 * x[1] * t[1]])

    found = jt.gradcheck(f, np.float32([1.0 if kind == "jump" else 1.5, 2.0]))
    assert not found.passed and [x.place.eqn.primitive.name for x in found.blame] == [
        "custom_jvp_call"
    ]


def test_decompositions_round_as_their_largest_elements_do():
    """What cancels in the derivative of a small element of Q has the rounding of its large ones."""
    for a in ([[1, 0.01], [-0.01, 1]], [[2, 1], [0.01, 3]]):
        found = jt.gradcheck(qr_of, np.float32(a))
        assert found.passed, str(found)


def _sure(x):
    """The loss of a classifier that is sure of the right class: what is left of 1 - 1."""
    return -jax.nn.log_softmax(20 * x)[0]


SURE = [[3.0, 0.1, -0.4, 0.2, 1.0], [1.5, 0.1, -0.4, 0.2, 0.3], [1.0, 0.1, -0.4, 0.2, 0.3]]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("x", SURE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_left_of_nearly_equal_numbers_is_not_known_well(dtype, x, order):
    with jax.enable_x64(dtype is np.float64):
        found = jt.gradcheck(_sure, np.array(x, dtype), order=order)
    assert not any(c.wrong or c.kinks for d in found.derivatives for c in d.checks), str(found)


@pytest.mark.parametrize("x", SURE)
def test_a_wrong_rule_beside_what_is_not_known_well_is_found(x):
    found = jt.gradcheck(lambda x: jnp.stack([_sure(x), wrong_sine(x[1])]), np.float32(x))
    assert {"fwd", "rev"} <= {c.mode for c in found.derivatives[0].checks if c.wrong}, str(found)


@pytest.mark.parametrize("seed", [2, 3])
def test_second_derivatives_of_complex_functions_that_overflow_nearly(seed):
    rng = np.random.default_rng(seed)
    x = (4 * (rng.normal(size=3) + 1j * rng.normal(size=3))).astype(np.complex64)
    found = jt.gradcheck(lambda x: jnp.sinh(x) / jnp.cosh(x), x, order=2)
    assert not any(c.wrong for d in found.derivatives for c in d.checks), str(found)
