"""Sample inputs for primitives: one list for each family feeds every law."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 (gives NumPy bfloat16)
import numpy as np

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.jaxpr import Primitive

__all__ = ["Example", "arg", "make_inputs"]

# How the elements of an operand are drawn, by name: (generator, shape) -> float64 array.
DOMAINS: dict[str, Callable[[Any, Any], Any]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: rng.uniform(0.2, 3.0, size=shape),
    "unit": lambda rng, shape: rng.uniform(-0.9, 0.9, size=shape),
    "above1": lambda rng, shape: rng.uniform(1.1, 4.0, size=shape),
    "small": lambda rng, shape: rng.integers(0, 4, size=shape),
    "any": lambda rng, shape: rng.integers(-100, 100, size=shape),
    "2 bits": lambda rng, shape: rng.integers(-2, 2, size=shape),
    "4 bits": lambda rng, shape: rng.integers(-8, 8, size=shape),
}


@dataclass(frozen=True)
class Arg:
    """One operand: its type, how its elements are drawn, or the elements themselves."""

    aval: ShapedArray
    domain: str = "normal"
    values: Any = None


@dataclass(frozen=True)
class Example:
    """A primitive applied to sample operands.

    Attributes:
      op: the binding function.
      args: the operands, as made by `arg`.
      params: the params.
      smooth: False where the function is not differentiable at or near the sample.
      reverse: whether it has a derivative in reverse mode.
      forward: whether it has one in forward mode.
      label: what to call it where params hold jaxprs, which are too long for a name.
      jax: the same function in JAX, called as jax(*operands, **params), where JAX has no primitive of
        that name with the same params; else None.
      differentiable: False where JAX has no derivative by one of the inexact operands.
      mapped: False where vmap is not a loop (a batch of `rbg` keys draws from the first of them) or is refused.
      of: where `op` is a function of several operations, which makes the operand that the primitive needs
        (a reference, a key, a token) and reads the result: the binding function of the primitive.
      rule_since: the first release of JAX that has our derivative, where those before have another.
      rule_before: the first one that has another, where those before have ours.
    """

    op: Any
    args: tuple[Arg, ...]
    params: dict[str, Any] = field(default_factory=dict)
    smooth: bool = True
    jax: Any = None
    reverse: bool = True
    forward: bool = True
    label: str = ""
    differentiable: bool = True
    mapped: bool = True
    of: Any = None
    rule_since: tuple[int, ...] = ()
    rule_before: tuple[int, ...] = ()

    @property
    def primitive(self) -> Primitive:
        return (self.of or self.op).primitive

    @property
    def id(self) -> str:
        if self.label:
            return f"{self.primitive}:{self.label}"
        types = ",".join(str(a.aval) for a in self.args)
        params = "-".join(f"{k}={v}" for k, v in self.params.items() if "lambda" not in str(v))
        return f"{self.primitive}({types}){params}".replace(" ", "")[:120]


def arg(text: str, domain: str = "", values: Any = None) -> Arg:
    """An operand from its type (`f32[3,4]`); the domain defaults to one that fits the dtype."""
    name, _, dims = text.rstrip("]").partition("[")
    dtype = find_dtype(name)
    assert dtype is not None, text
    aval = ShapedArray(tuple(int(d) for d in dims.split(",") if d), dtype)
    return Arg(aval, domain or ("normal" if dtype.kind in "fc" else "any"), values)


def make_inputs(example: Example, seed: int = 0) -> list[np.ndarray]:
    """The operands' values: always the same for the same example and seed."""
    from jaxprtool.backends.numpy_eval import np_dtype

    rng = np.random.default_rng(zlib.crc32(example.id.encode()) + seed)
    out = []
    for a in example.args:
        dtype, draw = np_dtype(a.aval.dtype), DOMAINS[a.domain]
        if a.values is not None:
            x = np.asarray(a.values)
        elif a.aval.dtype.kind == "b":
            x = rng.integers(0, 2, size=a.aval.shape).astype(bool)
        elif a.aval.dtype.kind == "c":
            x = draw(rng, a.aval.shape) + 1j * draw(rng, a.aval.shape)
        elif a.aval.dtype.kind == "u":
            x = np.abs(draw(rng, a.aval.shape))
        else:
            x = draw(rng, a.aval.shape)
        with np.errstate(all="ignore"):
            out.append(np.asarray(x).astype(dtype).reshape(a.aval.shape))
    return out
