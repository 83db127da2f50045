"""Verbs as functions of Python: keywords that are not the verb's own go to the function, and texts are no values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt

X = np.array([1, 0, -1], np.float32)


def loss(w: Any, scale: Any = 1.0, *, shift: Any = 0.0) -> Any:
    """NaN at -1, whatever the keywords."""
    return jnp.sum(jax.lax.log(w) * scale + shift)


def traced(**keywords: Any) -> str:
    """The text of JAX's own program, which takes keywords in the order of their names."""
    return str(jax.make_jaxpr(loss)(X, **keywords))


VERBS: dict[str, Any] = {
    "bench": lambda *a, **k: jt.bench(*a, seconds=0.01, backends=["numpy"], **k),
    "blame": jt.blame,
    "check": jt.check,
    "compile": jt.compile,
    "cost": jt.cost,
    "discharge": jt.discharge,
    "gradcheck": jt.gradcheck,
    "hash": jt.hash,
    "lint": jt.lint,
    "lower": jt.lower,
    "optimize": jt.optimize,
    "precision": jt.precision,
    "profile": lambda *a, **k: jt.profile(*a, seconds=0.01, **k),
    "reduce": lambda *a, **k: jt.reduce(*a, nan=True, **k),
    "repro": lambda *a, **k: jt.repro(*a, verb="check", **k),
    "residuals": jt.residuals,
    "run": jt.run,
    "stats": jt.stats,
    "trace": jt.trace,
}
OF_TWO: dict[str, Any] = {
    "compare": jt.compare,
    "diff": jt.diff,
    "equiv": jt.equiv,
    "triage": jt.triage,
}
OF_VALUES = ("blame", "gradcheck", "precision", "reduce", "repro", "run")


def test_they_are_traced_as_by_jax() -> None:
    """Of the functions of JAX, too: with the types that JAX gives to numbers."""
    program = jt.trace(loss, X, shift=2.0, scale=3.0)
    assert str(program) == traced(shift=2.0, scale=3.0)
    assert str(jt.discharge(loss, X, shift=2.0, scale=3.0)) == str(program)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_gives_them_to_the_function(verb: str) -> None:
    assert VERBS[verb](loss, X, scale=3.0, shift=np.float32(2)) is not None


@pytest.mark.parametrize("verb", OF_TWO)
def test_and_so_does_every_verb_of_two(verb: str) -> None:
    assert OF_TWO[verb](loss, loss, X, scale=3.0) is not None
    assert OF_TWO[verb](loss, lambda w, scale: loss(w) * scale, X, scale=3.0) is not None


def test_the_values_are_those_of_the_call() -> None:
    (found,) = jt.run(loss, X + 2, shift=2.0, scale=3.0)
    assert np.allclose(found, loss(X + 2, scale=3.0, shift=2.0))
    blamed = jt.blame(loss, X, scale=3.0)
    assert blamed.first is not None and blamed.first.eqn.primitive.name == "log"
    assert jt.compare(loss, loss, X + 2, scale=3.0).equal
    assert jt.equiv(loss, loss, X, scale=3.0).proved


def test_those_of_the_verb_stay_with_it() -> None:
    def f(w: Any, nan: Any = 1.0) -> Any:
        return jnp.exp(w * nan)

    assert not jt.blame(f, 200 * X, nan=True).found
    assert jt.blame(f, 200 * X).found


@pytest.mark.parametrize("verb", VERBS)
def test_one_that_nobody_has_is_refused(verb: str) -> None:
    if verb == "trace":  # has none of its own, and the function says it
        pytest.skip()
    with pytest.raises(jt.UsageError, match="has a keyword scail"):
        VERBS[verb](loss, X, scail=3.0)
    with pytest.raises(jt.UsageError, match="did you mean scale"):
        VERBS[verb](loss, X, scail=3.0)


@pytest.mark.parametrize("verb", OF_VALUES)
def test_a_text_is_no_value(verb: str) -> None:
    for args, keywords in [(("f32[3]",), {}), ((X, "a"), {}), ((X,), {"shift": "a"})]:
        with pytest.raises(jt.UsageError, match=r"is the text '.*', and arrays are traced"):
            VERBS[verb](loss, *args, **keywords)


@pytest.mark.parametrize("verb", ["check", "cost", "stats", "trace"])
def test_where_types_are_enough_a_text_is_one(verb: str) -> None:
    assert VERBS[verb](loss, "f32[3]") is not None
    with pytest.raises(jt.UsageError, match=r"an argument of loss.*unknown type 'a'"):
        VERBS[verb](loss, "a")


def test_what_is_missing_is_not_asked_for_by_options() -> None:
    with pytest.raises(jt.UsageError) as e:
        jt.blame(loss)
    assert "--" not in str(e.value)
