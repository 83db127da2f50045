"""Programs less some of the types in their texts: they read back as the same programs, or the error says what has no type."""

from __future__ import annotations

import random
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.run import run
from jaxprtool.driver.typing import with_types
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.diagnostics import JaxprParseError, JaxprToolError, JaxprTypeError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.infer import UntypedWarning
from jaxprtool.syntax.inference.open_programs import is_open
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target

ROOT = Path(__file__).parents[3]
_LITERAL = re.compile(
    r"(?<=[ ,(])(?P<value>-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)|True|False):(?P<dtype>[a-z]\w*)\[\](?=[\s,);])"
)
_RESULT = re.compile(
    r"(?<=[ \n])(?P<name>[a-z]+):\w+\[[\d,]*\](?=[ \n](?:[a-z]+:\w+\[[\d,]*\] )*= )"
)

_BINDER = re.compile(r"(?<=[ (])(?!inf:|nan:)(?P<name>[a-z]+):\w+\[[\d,]*\](?=[ .])")
_HAS_CONSTANTS = re.compile(r"lambda [a-z]")


class Case(NamedTuple):
    """A text, its programs, and the text less some types; `bare` where it is less those of all binders, the arguments' too."""

    text: str
    programs: dict[str, ClosedJaxpr]
    less: str
    bare: bool = False


@cache
def programs() -> list[tuple[str, dict[str, ClosedJaxpr]]]:
    """Well-typed texts of the project: case files and examples, the shorter ones."""
    paths = [*(ROOT / "tests" / "cases").glob("*/*.jaxpr"), *(ROOT / "examples").glob("*.jaxpr")]
    found = []
    for path in sorted(paths):
        text = path.read_text()
        if text.startswith("# run: "):
            text = text.partition("\n")[2].partition("# ---- ")[0]
        if "weak " in text or "npz(" in text or len(text) > 5000:
            continue
        try:
            read = parse_file(text)
            for program in read.values():
                typecheck_jaxpr(program)
        except JaxprToolError:
            continue
        text = format_file(read, lossless=True)
        if "~" not in text:
            found.append((text, parse_file(text)))
    return found


def draw(rng: random.Random) -> Case:
    text, read = choose(rng, programs(), lambda found: found[0])
    share = rng.choice((0.1, 0.5, 1.0))
    if rng.random() < 0.3 and not _HAS_CONSTANTS.search(text):  # whose types nothing else says
        return Case(text, read, _BINDER.sub(r"\1", text), bare=True)

    def drop(m: re.Match[str]) -> str:
        return m[1] if rng.random() < share else m[0]

    less = _LITERAL.sub(drop, text)
    if rng.random() < 0.5:
        less = _RESULT.sub(drop, less)
    return Case(text, read, less)


def check(case: Case) -> None:
    try:
        again = parse_file(case.less)
    except JaxprParseError as e:
        wrong = [
            d for d in e.diagnostics if d.code not in ("no-type", "missing-param", "bad-param")
        ]
        if wrong or case.less == case.text:
            raise Failure(f"{wrong[0].message if wrong else 'the whole text'} is refused") from e
        return
    if case.bare:
        _check_bare(case, again)
        return
    if any(is_open(program.jaxpr) for program in again.values()):
        return  # nothing tells the type of a jaxpr's argument, say
    for program in again.values():
        typecheck_jaxpr(program)
    if same_programs(_loosened(again), _loosened(case.programs)):
        return
    # a use decides the shape of a broadcast: that of the result, where the text had one that is broadcast again
    if not all(_gives_the_same(again[name], p) for name, p in case.programs.items()):
        raise Failure("it reads back different")


def _check_bare(case: Case, again: dict[str, ClosedJaxpr]) -> None:
    """With the types of its arguments, a program without types is the same one, or asks for a type by name."""
    for name, program in case.programs.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UntypedWarning)
                typed = with_types(again[name], program.in_avals)
        except JaxprTypeError as e:
            if any("type" not in (d.code or "") for d in e.diagnostics):
                raise Failure(f"{e.diagnostics[0].message}: refused without types") from e
            continue
        typecheck_jaxpr(typed)
        if not same_programs({"": typed}, {"": program}) and not _gives_the_same(typed, program):
            raise Failure("it is another program with the types of its arguments")


def _gives_the_same(one: ClosedJaxpr, other: ClosedJaxpr) -> bool:
    """Whether two programs of one type give the same results for random arguments."""
    try:
        args = [generate("random", 0, i, a) for i, a in enumerate(other.in_avals)]
        outs = [run(p, args, step_limit=10_000) for p in (one, other)]
    except JaxprToolError:
        return False
    return one.out_avals == other.out_avals and all(map(_are_equal, *outs))


def _are_equal(x: Any, y: Any) -> bool:
    return np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind in "fc")


def _loosened(programs: dict[str, ClosedJaxpr]) -> dict[str, ClosedJaxpr]:
    """The programs, with i32 for each type of integer literals that an equation leaves open (`eq 1 2`, an index)."""
    text = re.sub(
        r"(?<=[ ,(])(-?\d+):[iu]\d+\[\]", r"\1:i32[]", format_file(programs, lossless=True)
    )
    return parse_file(text)


TARGET = Target("untyped", draw, check, lambda case: case.less)
