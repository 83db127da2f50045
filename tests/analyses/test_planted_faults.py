"""Faults planted where no other test has one: a step of a loop, a constant, a rule inside, a branch, a verb that fails."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from tests.invoke import invoke

X = np.array([1, 2, 3, 4], np.float32)
STEPS = 12


def steps_of(place: Any) -> list[tuple[str, int | None, int | None]]:
    """The way in: primitives, steps, branches."""
    return [(p["primitive"], p["step"], p["branch"]) for p in place["path"]]


# -- compare --first ----------------------------------------------------------------------------


def looped(op: Any, at: int) -> Any:
    """A scan of a while loop in a cond, in which one step alone does something else."""

    def turn(s: Any) -> Any:
        return s[0] + 1, s[1] * 0.9

    def step(c: Any, t: Any) -> Any:
        c = lax.cond(t == at, op, lambda c: c * 0.5 + 1.0, c)
        return lax.while_loop(lambda s: s[0] < 3, turn, (0, c))[1], c.sum()

    return lambda x: lax.scan(step, x, jnp.arange(STEPS))


@pytest.mark.parametrize("at", [0, 1, 7, STEPS - 1])
def test_a_step_that_differs_is_named(at: int) -> None:
    found = jt.compare(looped(jnp.sin, at), looped(jnp.cos, at), X, first=True).json()
    assert found["first"]["primitive"] == "sin" and found["first_b"]["primitive"] == "cos"
    way = steps_of(found["first"])
    assert [w[0] for w in way] == ["scan", "cond"]
    assert way[0][1] == at and way[1][2] == 1


@pytest.mark.parametrize("how", ["scanned", "indexed", "inside a call"])
@pytest.mark.parametrize("at", [0, 5, STEPS - 1])
def test_of_a_constant_that_differs_the_step_that_reads_it_is_named(how: str, at: int) -> None:
    """The scan around it was, and nothing of the values there."""
    one = np.ones(STEPS, np.float32)
    other = one.copy()
    other[at] = 1.5

    def program(w: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            if how == "scanned":
                return c * t, None
            read = lambda t: jnp.asarray(w)[t]
            return c * (jax.jit(read)(t) if how == "inside a call" else read(t)), None

        return lambda x: lax.scan(step, x, w if how == "scanned" else jnp.arange(STEPS))[0]

    found = jt.compare(program(one), program(other), X, first=True)
    place = found.json()["first"]
    assert steps_of(place)[0] == ("scan", at, None)
    assert found.first is not None and found.first.found.n_different
    assert "1.5" in str(found)


def test_keys_that_differ_are_shown_by_their_words() -> None:
    def first(s: Any) -> Any:
        return jax.random.split(jax.random.key(s))[0]

    def second(s: Any) -> Any:
        return jax.random.split(jax.random.key(s))[1]

    found = jt.compare(first, second, 3)
    (row,) = found.json()["outputs"]
    words = jax.random.key_data(jax.random.split(jax.random.key(3))).tolist()
    assert [row["a"], row["b"]] == words and "None" not in str(found)


# -- blame --------------------------------------------------------------------------------------


def test_a_result_may_be_masked_in_one_way_and_decided_in_another() -> None:
    """What decides counts: a good result whose branch was chosen by a NaN is not only masked."""

    def f(x: Any) -> Any:
        y = jnp.log(x - 2.0)
        masked = jnp.where(jnp.isnan(y), 0.0, y)
        k = jnp.argmax(y)
        return (
            masked[3],
            masked[3] + k,
            x[k] + masked[3],
            lax.cond(y[0] > 0, lambda: 1.0, lambda: 2.0),
        )

    x = np.array([1, 3, 4, 5], np.float32)  # log(-1) is the one NaN
    found = jt.blame(f, x)
    reached = [o.reached for o in found.outputs]
    assert reached == ["masked", "deciding", "deciding", "deciding"]
    assert all(np.isfinite(v).all() for v in jt.run(f, x))


# -- precision ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [False, True])
def test_the_equation_that_is_to_be_raised_is_named(loop: bool) -> None:
    """A sum with a number that swallows the digits, among operations that add next to nothing."""

    def worst(c: Any) -> Any:
        return (c + np.float32(1e6)) - np.float32(1e6)

    def f(x: Any) -> Any:
        y = jnp.tanh(x) * 0.7
        if loop:
            y = lax.scan(lambda c, t: (worst(c) * 0.9, None), y, jnp.arange(5))[0]
        else:
            y = worst(y)
        return jnp.sin(y) + jnp.exp(-y)

    found = jt.precision(f, X).json()
    best = min(found["raised"], key=lambda r: r["after"])
    assert best["place"]["primitive"] == "add"
    assert best["after"] < 1e-3 * best["before"]
    assert [w[0] for w in steps_of(best["place"])] == (["scan"] if loop else [])


# -- gradcheck ----------------------------------------------------------------------------------


def custom(kind: str, factor: float) -> Any:
    """Sine, with a derivative that is wrong by a factor."""
    if kind == "jvp":
        f = jax.custom_jvp(jnp.sin)
        f.defjvp(lambda p, t: (f(*p), t[0] * jnp.cos(p[0]) * factor))
        return f
    f = jax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x) * factor,))
    return f


def in_scan(f: Any) -> Any:
    return lambda x: lax.scan(lambda c, t: (f(c) * t, None), x, jnp.arange(1.0, 3.0))[0].sum()


def in_cond(f: Any) -> Any:
    return lambda x: lax.cond(x[0] > 0, lambda x: f(x).sum(), lambda x: x.sum(), x)


def in_vmap(f: Any) -> Any:
    return lambda x: jax.vmap(lambda v: lax.cond(v > 2, lambda v: f(v), lambda v: v, v))(x).sum()


def in_all(f: Any) -> Any:
    def step(c: Any, t: Any) -> Any:
        return lax.cond(t > 1, lambda c: jax.vmap(f)(c), lambda c: c * 1.5, c), None

    return lambda x: lax.scan(step, x, jnp.arange(4))[0].sum()


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("where", [in_scan, in_cond, in_vmap, in_all])
def test_a_wrong_rule_inside_is_named(kind: str, where: Any) -> None:
    assert jt.gradcheck(where(custom(kind, 1.0)), X).passed
    found = jt.gradcheck(where(custom(kind, 1.02)), X).json()
    assert not found["passed"]
    named = {b["place"]["primitive"] for b in found["blame"] if b["kind"] == "wrong"}
    assert named == {f"custom_{kind}_call"}


# -- equiv --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("log a", "abs a"),
        ("max a 0.0:f32[]", "neg a"),
        ("floor a", "round[rounding_method=0] a"),
    ],
)
def test_a_counterexample_is_one_that_run_takes(one: str, other: str, tmp_path: Any) -> None:
    """The words that `equiv` prints, given to `run`, show the difference."""
    files = [tmp_path / "a.jaxpr", tmp_path / "b.jaxpr"]
    for file, op in zip(files, (one, other), strict=True):
        file.write_text(f"{{ lambda ; a:f32[2]. let b:f32[2] = {op} in (b,) }}")
    done = invoke(["equiv", *map(str, files)])
    assert done.status == 1
    (line,) = [line for line in done.output.splitlines() if "--args" in line]
    word = line.split("--args ")[1].strip("'")
    outs = [invoke(["run", str(file), "--args", word]) for file in files]
    assert [o.status for o in outs] == [0, 0] and outs[0].output != outs[1].output


# -- reduce --crash -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "planted", "code"),
    [
        ("grad", "z:f32[3] = while[\n      body_jaxpr={ lambda ; p:f32[3]. let q:f32[3] = mul p 2.0:f32[] in (q,) }\n"
         "      body_nconsts=0\n      cond_jaxpr={ lambda ; p:f32[3]. let q:f32[] = reduce_sum[axes=(0,)] p; r:bool[] = lt q 9.0:f32[] in (r,) }\n"
         "      cond_nconsts=0\n    ] x5", "no-rule"),
        ("run --step-limit 3", "z:f32[3] = while[\n      body_jaxpr={ lambda ; p:f32[3]. let q:f32[3] = mul p 1.0:f32[] in (q,) }\n"
         "      body_nconsts=0\n      cond_jaxpr={ lambda ; p:f32[3]. let q:f32[] = reduce_sum[axes=(0,)] p; r:bool[] = lt q 9.0:f32[] in (r,) }\n"
         "      cond_nconsts=0\n    ] x5", "step-limit"),
    ],
)  # fmt: skip
def test_what_a_verb_fails_on_is_left(verb: str, planted: str, code: str, tmp_path: Any) -> None:
    chain = [f"x{i + 1}:f32[3] = sin x{i}" for i in range(10)]
    body = "\n    ".join([*chain, planted, "s:f32[] = reduce_sum[axes=(0,)] z"])
    whole = tmp_path / "whole.jaxpr"
    whole.write_text(f"{{ lambda ; x0:f32[3]. let\n    {body}\n  in (s,) }}")
    words = ["reduce", "--crash", verb, str(whole), "--json", "-o", str(tmp_path / "small.jaxpr")]
    done = invoke([*words, *(["--args", "zeros"] if "run" in verb else [])])
    found = json.loads(done.output)
    assert found["failure"]["code"] == code
    small = jt.parse((tmp_path / "small.jaxpr").read_text())
    left = [e.primitive.name for e in small.eqns]
    assert "while" in left and "sin" not in left and len(left) <= 2
