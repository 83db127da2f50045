"""Generate random programs with values for their arguments, and write them to files."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.core.primitive import known_primitive, vocabulary
from jaxprtool.driver.bundles.packing import packed_args
from jaxprtool.driver.storage.output import program_text, write_programs
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.generation.programs import draw_typed
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.synonyms import close_names
from jaxprtool.ir.walk import count_eqns
from jaxprtool.syntax.parse import parse_file

__all__ = [
    "Generated",
    "Recipe",
    "Written",
    "generated",
    "made_folder",
    "names_of",
    "write_generated",
    "write_many",
    "write_pair",
]


@dataclass(frozen=True)
class Generated:
    """A random program.

    Attributes:
      seed: its seed.
      program: the program, as read back from its text, so that all its variables have names.
      args: values of its arguments.
      ordinary: whether these are finite numbers of ordinary size.
    """

    seed: int
    program: ClosedJaxpr
    args: Sequence[Value]
    ordinary: bool

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"fuzz-{self.seed}"


@dataclass(frozen=True)
class Recipe:
    """Which programs are drawn.

    Attributes:
      size: the number of their equations; None for a few.
      primitives: the names of the primitives to use; () for all.
    """

    size: int | None = None
    primitives: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in self.primitives:
            if known_primitive(name) is None:
                near = close_names(name, vocabulary())
                help = (
                    f"did you mean {near[0]}?" if near else "`python -m jaxprtool.rules` lists them"
                )
                fail(UsageError, f"there is no primitive {name}", "unknown-primitive", help=help)


def generated(seed: int, recipe: Recipe = Recipe()) -> Generated:
    """Return the program of a seed: always the same one.

    Raises:
      UsageError: there are no examples that use only these primitives.
    """
    from jaxprtool.backends import samples, stability  # noqa: PLC0415 (gateway: NumPy)

    check_not_negative(seed=seed)
    rng = random.Random(seed)
    try:
        drawn = draw_typed(rng, recipe.size, recipe.primitives)
    except ValueError as e:
        fail(UsageError, str(e), "option", help="name more primitives")
    program = parse_file(program_text({"": drawn}), own=True)[""]
    ordinary = rng.random() < _ORDINARY
    kind = rng.randrange(samples.ORDINARY)
    if not ordinary:
        kind = samples.ORDINARY + rng.randrange(_SPECIAL)
    binders = program.jaxpr.in_binders
    args = [
        stability.normal(samples.draw(v.aval, None, seed, i, kind)) for i, v in enumerate(binders)
    ]
    return Generated(seed, program, args, ordinary)


_ORDINARY = 0.85
_SPECIAL = 44  # kinds of samples with special values that are drawn


def write_pair(
    program: ClosedJaxpr, args: Sequence[Value], folder: str, name: str
) -> tuple[str, str]:
    """Write a program to `FOLDER/NAME.jaxpr`, and its arguments to `FOLDER/NAME.args.npz`; returns these names."""
    file, beside = (os.path.join(folder, f"{name}.{end}") for end in ("jaxpr", "args.npz"))
    write_output(beside, packed_args(program, args) or npz_of_nothing())
    write_programs({"": program}, file)
    return file, beside


def write_generated(found: Generated, folder: str) -> tuple[str, str]:
    """Write a random program and its arguments; returns the names of the files."""
    return write_pair(found.program, found.args, folder, found.name)


@dataclass(frozen=True)
class Written(Answer):
    """Programs that were written to files.

    Attributes:
      programs: the programs.
      files: of each, the names of its file and of that of its arguments.
    """

    programs: Sequence[Generated]
    files: Sequence[tuple[str, str]]

    def lines(self) -> Sequence[str]:
        return [file for file, _ in self.files]

    def json(self) -> dict[str, Any]:
        pairs = zip(self.programs, self.files, strict=True)
        return {
            "schema": 1,
            "programs": [
                {"seed": g.seed, "file": file, "args": args, "eqns": count_eqns(g.program.jaxpr)}
                for g, (file, args) in pairs
            ],
        }


def write_many(programs: Sequence[Generated], folder: str) -> Written:
    """Write programs and their arguments to a folder, which is made if it is missing."""
    made_folder(folder)
    return Written(programs, [write_generated(g, folder) for g in programs])


def npz_of_nothing() -> bytes:
    """The bytes of an `.npz` file without arrays, for a program without arguments."""
    from jaxprtool.backends import npz  # noqa: PLC0415 (gateway: NumPy)

    return npz.npz_bytes({})


def made_folder(path: str) -> str:
    """Make a folder if it is missing; return it. Raises UsageError where it cannot be made."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        fail(UsageError, f"cannot make the folder {path}: {reason}", "unwritable-file")
    return path


def names_of(words: str) -> Sequence[str]:
    """The names in `add,mul`."""
    return [w.strip() for w in words.split(",") if w.strip()]
