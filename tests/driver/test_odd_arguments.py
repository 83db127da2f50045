"""Arguments of any kind from Python: an error of the user's that names the argument, briefly, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

import jaxprtool as jt

PROGRAM = jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
VERBS: dict[str, Callable[..., Any]] = {
    "run": jt.run,
    "run jit": lambda p, x: jt.run(p, x, jit=True),
    "run through jax": lambda p, x: jt.run(p, x, through="jax"),
    "compiled": lambda p, x: jt.compile(p)(x),
    "function": lambda p, x: jt.jaxpr_as_fun(p)(x),
    "blame": jt.blame,
    "precision": jt.precision,
    "gradcheck": jt.gradcheck,
    "compare": lambda p, x: jt.compare(p, p, x),
    "reduce": lambda p, x: jt.reduce(p, x, slow=0),
    "profile": lambda p, x: jt.profile(p, x, seconds=0),
    "bench": lambda p, x: jt.bench(p, x, seconds=0),
}


def nested(levels: int, kind: Callable[[Any], Any] = lambda x: [x]) -> Any:
    value: Any = 1.0
    for _ in range(levels):
        value = kind(value)
    return value


ODD = {
    "text": "x",
    "nothing": None,
    "object": object(),
    "too few": [1, 2],
    "ragged": [[1, 2], [3]],
    "mixed": [1, 2, "a"],
    "bytes": b"ab",
    "large number": 10**400,
    "many": [*range(100_000)],
    "deep": nested(1000),
    "function": abs,
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_of_a_program(verb: Callable[..., Any], value: Any) -> None:
    with pytest.raises(jt.UsageError) as raised:
        verb(PROGRAM, value)
    assert "argument" in str(raised.value) and len(str(raised.value)) < 400


@pytest.mark.parametrize("kind", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}])
def test_pytrees_that_are_too_deep(kind: Callable[[Any], Any]) -> None:
    deep = nested(1000, kind)
    for call in (
        lambda: jt.trace(jnp.sin, deep),
        lambda: jt.run(lambda x: x, deep),
        lambda: jt.make_jaxpr(lambda x: x)(deep),
        lambda: jt.jit(lambda x: x)(deep),
    ):
        with pytest.raises(jt.UsageError, match="a pytree that is nested too deeply"):
            call()
    assert [*map(str, jt.trace(lambda x: x, nested(800, kind)).in_avals)] == ["f32[]"]
