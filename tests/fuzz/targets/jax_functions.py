"""Functions of JAX, by their names, with arguments of many kinds: text, types, values and derivatives are JAX's.

The functions are those of `jax.numpy`, `jax.lax`, `jax.nn`, `jax.scipy` and the like that the installed release has.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import random
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import jaxprtool as jt
from jaxprtool.driver.fuzzing.columns import Refused, deviation
from jaxprtool.ir.jaxpr import lossless_text
from tests.conformance.harnesses import as_ours
from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target

_MODULES = (
    "jax.image",
    "jax.lax",
    "jax.lax.linalg",
    "jax.nn",
    "jax.numpy",
    "jax.numpy.fft",
    "jax.numpy.linalg",
    "jax.random",
    "jax.scipy.fft",
    "jax.scipy.integrate",
    "jax.scipy.linalg",
    "jax.scipy.ndimage",
    "jax.scipy.signal",
    "jax.scipy.special",
    "jax.scipy.stats.norm",
)
_ASIDE = {
    "jax.lax.select_n": "an index beyond the cases is the last one here, and has no derivative in JAX",
    "jax.numpy.load": "reads files",
    "jax.numpy.save": "writes files",
    "jax.numpy.savez": "writes files",
}
_COLUMNS = ("jax", "jvp", "vjp", "vmap")
_TRIES = 40
_KINDS = ("f", "f", "f", "f", "positive", "i", "i", "?", "c", "u", "bf16", "f16")
_SHAPES = ((4,), (4,), (3, 3), (3, 3), (2, 3), (), (1,), (2, 3, 4), (3,), (6,), (0,), (1, 4, 4, 1))


class Case(NamedTuple):
    """A function and its arguments: arrays are arguments of the program, all else is fixed."""

    name: str
    args: list[Any]


@functools.cache
def names() -> list[str]:
    """The functions of the installed release, in order."""
    found: list[str] = []
    for module in _MODULES:
        for name, f in sorted(vars(importlib.import_module(module)).items()):
            plain = callable(f) and not inspect.isclass(f) and not name.startswith("_")
            if plain and f"{module}.{name}" not in _ASIDE:
                found.append(f"{module}.{name}")
    return found


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _array(rng: random.Random, shape: tuple[int, ...], kinds: Sequence[str] = _KINDS) -> Any:
    kind, draw = rng.choice(kinds), np.random.default_rng(rng.getrandbits(32))
    if kind == "?":
        return draw.random(shape) > 0.5
    if kind in "iu":
        return draw.integers(0, 3, shape).astype("int32" if kind == "i" else "uint8")
    if kind == "positive":
        return draw.uniform(0.1, 0.9, shape).astype("float32")
    floats = draw.normal(size=shape)
    if kind == "c":
        return (floats + 1j * draw.normal(size=shape)).astype("complex64")
    return floats.astype({"f": "float32", "f16": "float16", "bf16": ml_dtypes.bfloat16}[kind])


def _argument(rng: random.Random, shape: tuple[int, ...], first: bool) -> Any:
    """An array of the shape, mostly; else a list of two, a number, a shape or an axis.

    Only the first one may be of booleans: XLA selects by what it is told to multiply by, and drops NaN.
    """
    kinds = [k for k in _KINDS if first or k != "?"]
    drawn = rng.random()
    if drawn < 0.8:
        return _array(rng, shape if rng.random() < 0.8 else rng.choice(_SHAPES), kinds)
    if drawn < 0.85:
        return [_array(rng, shape, kinds) for _ in range(2)]
    return rng.choice((0, 1, 2, -1, 0.5, True, None, (2, 3), (0,), shape, "linear"))


def draw(rng: random.Random) -> Case | None:
    """A function with arguments that it takes, where some are found."""
    import jax

    for _ in range(_TRIES):
        name, shape = choose(rng, names()), rng.choice(_SHAPES)
        count = rng.choice((1, 1, 2, 2, 3, 4))
        args = [_argument(rng, shape, not i) for i in range(count)]
        if name.startswith("jax.random."):
            args[0] = jax.random.key(rng.randrange(100))
        case = Case(name, args)
        try:
            if _traced(case).jaxpr.eqns:
                return case
        except Exception:  # they are none that it takes
            continue
    return None


def _traced(case: Case) -> Any:
    """JAX's jaxpr of the function, of the arrays among its arguments."""
    import jax

    leaves, tree = jax.tree.flatten(case.args)
    where = _arrays(leaves)

    def f(*values: Any) -> list[Any]:
        given = list(leaves)
        for i, x in zip(where, values, strict=True):
            given[i] = x
        found = _function(case.name)(*jax.tree.unflatten(tree, given))
        return [x for x in jax.tree.leaves(found) if isinstance(x, jax.Array)]

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return jax.make_jaxpr(f)(*[leaves[i] for i in where])


def _arrays(leaves: Sequence[Any]) -> list[int]:
    """Where the arrays are, which are arguments of the program."""
    import jax

    return [i for i, x in enumerate(leaves) if isinstance(x, (np.ndarray, jax.Array))]


def _values(args: Sequence[Any]) -> list[Any]:
    """The arguments of the program, as ours."""
    import jax

    leaves = jax.tree.leaves(args)
    return [as_ours(leaves[i]) for i in _arrays(leaves)]


def _runs(case: Case) -> bool:
    try:
        _function(case.name)(*case.args)
    except Exception:  # whatever JAX says of it
        return False
    return True


def check(case: Case | None) -> None:
    """Text, lossless text, JAX's print of `to_jax`, types, and the columns that take the program."""
    if case is None:
        return
    closed = _traced(case)
    try:
        program = jt.from_jax(closed)
        jt.typecheck_jaxpr(program)
    except jt.JaxprTypeError:
        if _runs(case):
            raise
        return  # JAX traces a reshape to another number of elements, say
    text = str(closed)
    for what, found in (
        ("the print of what is read", jt.format_jaxpr(jt.parse(text))),
        ("JAX's print of to_jax", str(jt.to_jax(program))),
    ):
        if found != text:
            raise Failure(f"{what} is another text:\n{found}\n{text}")
    kept = lossless_text(program)
    if lossless_text(jt.parse(kept)) != kept:
        raise Failure("the lossless text of what is read from it is another one")
    for column in _COLUMNS:
        try:
            found = deviation(column, program, _values(case.args))
        except Refused:
            continue
        if found is not None:
            raise Failure(f"{column}: {found.message}")


def show(case: Case | None) -> str:
    return "nothing" if case is None else f"{case.name}(*{case.args!r})"


TARGET = Target("jax-functions", draw, check, show)
