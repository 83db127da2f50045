"""Texts of the project and of JAX, mutated: reading either fails with positions, or prints to a fixed point that reads back equal."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Any

from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.backends.jax.from_jax import from_jax
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file, format_jaxpr
from tests.fuzz.choice import choose, generators
from tests.fuzz.target import Failure, Target
from tests.syntax.programs import CASES, traced

ROOT = Path(__file__).parents[3]
LONGEST = 5000
_PIECE = re.compile(r"\w+|\s+|[^\w\s]")
_SPLICED = (
    *(" ", "\n", "  ", "[", "]", "(", ")", "{", "}", "=", ":", ",", ";", "_", "'", '"', "#", "\\"),
    *("0", "-1", "1.5", "nan", "inf", "1e400", "True", "None", "let", "in", "lambda", "a", "name"),
    *("{ lambda ; a:f32[]. let in (a,) }", "jaxpr=", "axes=(0,)", "1.0:f32[]", "f32[3]", "\x1b[0m"),
)


@cache
def texts() -> list[str]:
    """Texts of the project: case files and examples, the shorter ones."""
    paths = sorted((ROOT / "tests" / "cases").glob("*/*.jaxpr"))
    found = [
        p.read_text() for p in paths if p.parent.name != "malformed"
    ]  # they are changed already
    found = [t.partition("\n")[2].partition("# ---- ")[0] for t in found]
    found += [p.read_text() for p in sorted((ROOT / "examples").glob("*.jaxpr"))]
    return [t for t in found if 0 < len(t) < LONGEST]


@cache
def all_texts() -> list[str]:
    """Those, and what JAX prints, and what we write of the same programs."""
    live = [traced(name) for name in CASES]
    found = [str(jaxpr) for jaxpr in live]
    found += [format_jaxpr(from_jax(jaxpr), lossless=True) for jaxpr in live]
    named = [j.pretty_print(use_color=False, source_info=True, name_stack=True) for j in live]
    found += [t.replace(f"{ROOT}/", "") for t in named]  # the same wherever the checkout is
    found += [j.pretty_print(use_color=False, name_stack=True) for j in live]
    return list(dict.fromkeys(texts() + [t for t in found if len(t) < LONGEST]))


@cache
def donors() -> list[str]:
    """What JAX prints of the programs of the tests: texts that pieces are taken from."""
    return [str(traced(name)) for name in CASES]


def mutate(text: str, rng: random.Random, other: str) -> str:
    """The text with a few pieces taken out, doubled, moved, replaced, or taken from another text."""
    pieces = _PIECE.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not pieces:
            break
        i = rng.randrange(len(pieces))
        j = min(len(pieces), i + rng.choice((1, 1, 2, 5)))
        match rng.randrange(5):
            case 0:
                del pieces[i:j]
            case 1:
                pieces[i:i] = pieces[i:j]
            case 2:
                pieces[i:j] = [rng.choice(_SPLICED)]
            case 3:
                pieces.insert(i, rng.choice(_SPLICED))
            case 4:
                theirs = _PIECE.findall(other)
                k = rng.randrange(len(theirs))
                pieces[i:j] = theirs[k : k + rng.choice((1, 3, 10))]
    return "".join(pieces)


def mutations(text: str, count: int) -> list[str]:
    """This number of mutations of a text, the same ones whatever other texts there are."""
    return [mutate(text, rng, choose(rng, donors())) for rng in generators(text, count)]


def draw(rng: random.Random) -> str:
    return mutate(choose(rng, all_texts()), rng, choose(rng, all_texts()))


def check(text: str) -> None:
    try:
        programs = parse_file(text)
    except JaxprToolError:
        return
    for lossless in (True, False):
        printed = format_file(programs, lossless=lossless)
        again = parse_file(printed)
        if format_file(again, lossless=lossless) != printed:
            raise Failure(f"printing is no fixed point:\n{printed}")
        if lossless and not same_programs(programs, again):
            raise Failure(f"the printed text reads back different:\n{printed}")
        if lossless and _origins(programs) != _origins(again):
            raise Failure(f"equations have other origins in the printed text:\n{printed}")


def _origins(programs: dict[str, Any]) -> list[str]:
    return [str(e.origin or "") for p in programs.values() for e in all_eqns(p.jaxpr)]


TARGET = Target("mutated-text", draw, check)
