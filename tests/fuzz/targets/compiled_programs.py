"""Small checked programs compiled by XLA give what NumPy gives: shapes, types, and values up to what rounding explains.

Where both verbs take a program, and its arguments determine its results (the column `determined` of the rows).
"""

from __future__ import annotations

import random
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import jaxprtool as jt
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.columns import Refused, deviation
from jaxprtool.driver.values import open_binders
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import Case, accepted, is_small, show

_TRIES = 20


def draw(rng: random.Random) -> Case:
    """A program that `check` accepts, where one is found among a few."""
    program = draw_program(rng)
    for _ in range(_TRIES):
        if accepted(program):
            break
        program = draw_program(rng)
    return Case(wrapped(rng, program) if rng.random() < 0.3 else program, rng.randrange(1 << 30))


def check(case: Case) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        _check(case.program)


def _check(program: Any) -> None:
    if not accepted(program):
        return
    binders = open_binders(program)
    if not all(is_small(v.aval) for v in binders):
        return
    try:
        args = [generate("random", 0, i, v.aval) for i, v in enumerate(binders)]
        found = deviation("xla", program, args)
    except (jt.JaxprToolError, Refused):
        return
    if found is not None:
        raise Failure(found.message)


TARGET = Target("compiled-programs", draw, check, show)
