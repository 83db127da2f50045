"""Functions of Python on live values: arguments are flattened, and have their types, as the function's tracer has them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from tests.driver.test_odd_arguments import VERBS as ON_ONE

VERBS: dict[str, Callable[..., Any]] = {
    **{k: v for k, v in ON_ONE.items() if k not in ("compiled", "function")},
    "compare backends": lambda f, x: jt.compare(f, None, x, backends="numpy,f64"),
    "equiv": lambda f, x: jt.equiv(f, f, x),
    "repro": lambda f, x: jt.repro(f, x, verb="run"),
}


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["n"])
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    n: int = 3


@jax.tree_util.register_pytree_node_class
class Swapped:
    """A class whose leaves have another order than its fields."""

    def __init__(self, w: Any, b: Any):
        self.w, self.b = w, b

    def tree_flatten(self) -> Any:
        return (self.b, self.w), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        return cls(children[1], children[0])


def wide(dtype: str) -> Any:
    return np.arange(1, 4).astype(dtype)


GIVEN: dict[str, tuple[Callable[..., Any], Any]] = {
    "f64": (jnp.sin, wide("float64")),
    "scalar of f64": (jnp.sin, np.float64(0.5)),
    "c128": (lambda z: jnp.exp(z).real, wide("complex128")),
    "i64": (lambda p: jnp.sin(p[0] * p[1]), (wide("int64"), 0.5)),
    "u64": (lambda p: jnp.sin(p[0] * p[1]), (wide("uint64"), 0.5)),
    "in a dict": (lambda p: jnp.sin(p["w"]) * p["n"], {"w": wide("float64"), "n": wide("int64")}),
    "dataclass": (lambda p: jnp.subtract(p.w, p.b), Layer(jnp.ones(3), wide("float64"))),
    "class": (lambda p: p.w - p.b, Swapped(jnp.ones(3), wide("float32"))),
    "bf16": (jnp.sin, jnp.arange(3, dtype=jnp.bfloat16)),
    "a function beside arrays": (lambda p: p["f"](p["x"]), {"f": jnp.sin, "x": wide("float64")}),
}


@pytest.mark.parametrize("case", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_every_verb_takes_what_jax_takes(verb: Callable[..., Any], case: Any) -> None:
    verb(*case)


@pytest.mark.parametrize("case", GIVEN.values(), ids=GIVEN)
def test_the_result_is_that_of_jax(case: Any) -> None:
    f, x = case
    (mine,) = jt.run(f, x)
    theirs = np.asarray(f(x))
    assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine.astype("float32"), theirs.astype("float32"), rtol=1e-5)


def test_values_keep_their_64_bits_where_jax_keeps_them() -> None:
    with jax.enable_x64(True):
        assert jt.run(jnp.sin, wide("float64"))[0].dtype == np.float64
    assert jt.run(np.sin, wide("float64"))[0].dtype == np.float64  # traced by ours


def test_types_are_no_values() -> None:
    spec = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert jt.equiv(jnp.sin, jnp.cos, spec).refuted
    with pytest.raises(jt.UsageError, match="is no f32"):
        jt.blame(jnp.sin, spec)
