"""`diff` says "equal" exactly where it marks no line; a program is equal to its text, whatever the layout and names."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from jaxprtool.driver.diff import Difference, diff
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target

_FOLDER = Path(__file__).parents[3] / "examples"
_TOKEN = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|True|False|None|[A-Za-z_]+(?==)|\b[a-z_0-9]+\b")
_IGNORED = ["consts", "names", "params:axes", "weak", "shapes", "order"]
_OTHERS = [
    "0",
    "1",
    "-0.0",
    "0.0",
    "nan",
    "1e-5",
    "9.999999747378752e-06",
    "True",
    "None",
    "()",
    "[]",
    "'x'",
    "x",
]


def draw(rng: random.Random) -> tuple[str, str]:
    """A program of the examples, and the same with a few words changed."""
    text = choose(rng, [p.read_text() for p in sorted(_FOLDER.glob("*.jaxpr"))])
    places = list(_TOKEN.finditer(text))
    changed = text
    for m in sorted(
        rng.sample(places, min(len(places), rng.randint(0, 3))), key=lambda m: -m.start()
    ):
        word = rng.choice(_OTHERS) if rng.random() < 0.5 else rng.choice(places)[0]
        changed = changed[: m.start()] + word + changed[m.end() :]
    return text, changed


def check(case: tuple[str, str]) -> None:
    """Raise `Failure` where `equal` and the marked lines contradict one another."""
    a, changed = case
    programs = parse_file(a)
    _consistent(a, format_file(programs, lossless=True), True)
    try:
        parse_file(changed)
    except JaxprToolError:
        return
    _consistent(a, changed, None)
    _consistent(changed, changed, True)


def _consistent(a: str, b: str, equal: bool | None) -> None:
    found = _compared(a, b)
    if equal is not None and found.equal is not equal:
        raise Failure("\n".join(["not equal:", *found.lines]))
    before = found
    for n in (3, len(_IGNORED)):
        more = _compared(a, b, ignore=_IGNORED[:n])
        near = _compared(a, b, ignore=_IGNORED[:n], rtol=1e-3)
        if before.equal > more.equal or more.equal > near.equal:
            raise Failure("\n".join([f"not equal with {_IGNORED[:n]}:", *more.lines, *near.lines]))
        before = more
    kinds = {"added": "removed", "removed": "added"}
    there = Counter(kinds.get(c.kind, c.kind) for c in found.changes)
    back = _compared(b, a)
    if there != Counter(c.kind for c in back.changes) or back.equal is not found.equal:
        raise Failure("\n".join(["not the mirror:", *found.lines, *back.lines]))


def _compared(a: str, b: str, **how: Any) -> Difference:
    found = diff(parse_file(a), parse_file(b), **how)
    marked = any(line[:1] in "+-" for line in found.lines)
    if found.equal == marked:
        raise Failure(f"equal is {found.equal}, and lines are {'' if marked else 'not '}marked")
    return found


TARGET = Target("diff", draw, check, show=lambda case: case[1])
