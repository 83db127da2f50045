"""`jaxprtool.fuzz` and `jaxprtool.random_program`: the verb as Python functions."""

from __future__ import annotations

import os
from collections.abc import Sequence

from jaxprtool.driver import fuzz as fuzzing
from jaxprtool.driver.fuzz import FOLDER, PATIENCE, Fuzzer, Fuzzing
from jaxprtool.driver.fuzzing.generate import Recipe, generated, names_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["fuzz", "random_program"]


def random_program(
    seed: int, *, size: int | None = None, primitives: str | Sequence[str] = ()
) -> tuple[ClosedJaxpr, list[Value]]:
    """Return a random well-typed program and values of its arguments; a seed always gives the same ones.

    Args:
      seed: the seed of both.
      size: the number of equations; by default a few.
      primitives: the names of the primitives to use, a list or with commas between; all by default.

    Raises:
      UsageError: an unknown primitive, or no examples that use only these.
    """
    found = generated(seed, Recipe(size, _names(primitives)))
    return found.program, [*found.args]


def fuzz(
    columns: str | Sequence[str],
    *,
    seed: int = 0,
    count: int | None = None,
    seconds: float | None = None,
    size: int | None = None,
    primitives: str | Sequence[str] = (),
    output: str | os.PathLike[str] = FOLDER,
    patience: float = PATIENCE,
) -> Fuzzing:
    """Run random programs through columns that have to agree, as `jaxprtool fuzz --check` does.

        jt.fuzz("numpy,xla,vmap", seconds=10).findings

    Args:
      columns: of `numpy`, `xla`, `jax`, `jvp`, `vjp`, `vmap`; a list, or names with commas between.
      seed: of the first program.
      count: how many programs.
      seconds: how long it may take, with reductions; a minute where there is no count.
      size, primitives: as of `random_program`.
      output: the folder where what differs is kept.
      patience: seconds that the reduction of one finding may take; 0 for none.

    Raises:
      UsageError: an unknown column or primitive, or a folder that cannot be made.
    """
    recipe = Recipe(size, _names(primitives))
    fuzzer = Fuzzer(_names(columns), recipe, os.fspath(output), patience)
    return fuzzing.fuzz(fuzzer, seed, count, seconds)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(names_of(given) if isinstance(given, str) else given)
