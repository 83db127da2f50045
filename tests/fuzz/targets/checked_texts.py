"""Texts of the examples and case files, mutated: what `check` accepts breaks no other verb (see `checked_programs`)."""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

import jaxprtool as jt
from jaxprtool.generation.seeds import seeds
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.syntax.parse import parse_file
from tests.fuzz.choice import choose
from tests.fuzz.target import Target
from tests.fuzz.targets import checked_programs
from tests.fuzz.targets.mutated_text import mutate, texts


class Case(NamedTuple):
    text: str
    seed: int


@functools.cache
def _printed() -> list[str]:
    """The examples of all primitives, as text, and as many inside of calls and loops."""
    rng, found = random.Random(0), []
    for programs in seeds().values():
        for p in programs[:4]:
            found += [jt.format_jaxpr(q, lossless=True) for q in (p, wrapped(rng, p))]
    return found


def draw(rng: random.Random) -> Case:
    sources = _printed() if rng.random() < 0.7 else texts()
    return Case(mutate(choose(rng, sources), rng, choose(rng, sources)), rng.randrange(1 << 30))


def check(case: Case) -> None:
    try:
        programs = parse_file(case.text)
    except jt.JaxprToolError:
        return
    for program in programs.values():
        checked_programs.check(checked_programs.Case(program, case.seed))


TARGET = Target("checked-texts", draw, check, lambda case: case.text)
