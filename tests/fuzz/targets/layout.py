"""Texts laid out as people lay them out: reading gives the same program, or fails; nothing is lost silently."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache

from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.mutated_text import texts

_KEY = re.compile(r"(?<=[\[\s])(?<!,\s)[^\W\d]\w*=(?=\S)")
_BLANK = re.compile(r"(?<=[^\s,])\s+(?=[^\W\d]\w*=\S)")
_LINE = re.compile(r"\n *")
_END = re.compile(r"(?<=\S)(?=\n)")


def _at(
    pattern: re.Pattern[str], change: Callable[[str, random.Random], str]
) -> Callable[..., str]:
    """A mutation that changes some of the places where a pattern matches."""

    def mutate(text: str, rng: random.Random) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        chosen = set(rng.sample(range(len(found)), min(len(found), rng.choice((1, 2, 5)))))
        pieces, at = [], 0
        for i, m in enumerate(found):
            if i in chosen:
                pieces += [text[at : m.start()], change(m[0], rng)]
                at = m.end()
        return "".join([*pieces, text[at:]])

    return mutate


_JOINING = ("two lines joined", "params beside one another", "commas between params")

MUTATIONS: dict[str, Callable[[str, random.Random], str]] = {
    "blanks around =": _at(_KEY, lambda t, r: t[:-1] + r.choice((" = ", " =", "= ", "\t=\t"))),
    "a line break after =": _at(_KEY, lambda t, r: t + "\n" + " " * r.randrange(12)),
    "commas between params": _at(_BLANK, lambda t, r: r.choice((",", ", ", " , ")) + (" " if r.random() < 0.5 else t)),
    "params beside one another": _at(_BLANK, lambda t, r: r.choice((" ", "   ", "\n", "\n\n  "))),
    "indentation": _at(_LINE, lambda t, r: t + " " * r.randrange(1, 8)),
    "less indentation": _at(_LINE, lambda t, r: t[: 1 + r.randrange(len(t))]),
    "comments": _at(_END, lambda t, r: r.choice(("  # why", " # a=b (c", " #"))),
    "blanks at ends": _at(_END, lambda t, r: r.choice(("  ", "\t", "\r", "\n\n"))),
    "all indented": lambda t, r: "\n".join(" " * (r.choice((1, 4))) + line for line in t.split("\n")),
    "two lines joined": _at(_LINE, lambda t, r: r.choice((" ", "; "))),
}  # fmt: skip


@cache
def programs() -> list[tuple[str, dict[str, ClosedJaxpr]]]:
    """The texts that can be read, as lossless texts, with their programs."""
    found = []
    for text in texts():
        if "fmt=" in text:  # free text, which ends by its layout alone
            continue
        try:
            read = parse_file(text)
        except JaxprToolError:
            continue
        found += [(text, read), (format_file(read, lossless=True), read)]
    return found


def draw(rng: random.Random) -> tuple[str, str, dict[str, ClosedJaxpr]]:
    text, read = choose(rng, programs(), lambda found: found[0])
    names = rng.sample(sorted(MUTATIONS), rng.choice((1, 1, 2)))
    if "#" in text:  # what follows a comment would be part of it
        names = [n for n in names if n not in _JOINING]
    for name in sorted(names, key=lambda name: "comments" in name):
        text = MUTATIONS[name](text, rng)
    return ", ".join(names), text, read


def check(case: tuple[str, str, dict[str, ClosedJaxpr]]) -> None:
    _, text, read = case
    try:
        again = parse_file(text)
    except JaxprToolError:
        return
    if same_programs(read, again):
        return
    if not all(map(_checks, again.values())):  # it has a value that cannot be read
        return
    if all(map(_checks, read.values())):
        raise Failure(f"another program:\n{format_file(again, lossless=True)}")


def _checks(program: ClosedJaxpr) -> bool:
    try:
        typecheck_jaxpr(program.jaxpr)
    except JaxprToolError:
        return False
    return True


TARGET = Target("layout", draw, check, show=lambda case: f"{case[0]}:\n{case[1]}")
