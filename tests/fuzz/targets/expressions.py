"""Any text as an expression of `assert`, or a pattern of `grep`: a verdict, or a diagnostic at a place in it."""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from jaxprtool.driver.asking import ask, grep, warnings_of
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from tests.fuzz.expressions import PIECES, changed, expression
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import accepted


class Case(NamedTuple):
    program: ClosedJaxpr
    other: ClosedJaxpr
    text: str
    stage: str | None


def draw(rng: random.Random) -> Case:
    """An expression that is well-formed, changed somewhere, or made of pieces of the language."""
    program, other = _program(rng), _program(rng)
    kind = rng.random()
    text = expression(rng, program)
    if kind < 0.4:
        text = changed(rng, text)
    elif kind < 0.5:
        text = " ".join(rng.choices(PIECES, k=rng.randrange(12)))
    elif kind < 0.6:
        text = "".join(rng.choices("()[]{}<>=!~.,'\"\\*+-/| _anfo0129\n\té", k=rng.randrange(60)))
    return Case(program, other, text, "lowered" if rng.random() < 0.1 else None)


def _program(rng: random.Random) -> ClosedJaxpr:
    program = draw_program(rng)
    for _ in range(20):  # most are ill-typed, and of those nothing is asked
        if accepted(program):
            break
        program = draw_program(rng)
    return wrapped(rng, program) if rng.random() < 0.3 else program


def check(case: Case) -> None:
    """What is answered can be shown; what is refused is refused with a message."""
    sizes = [(8, case.program, case.other), (16, case.other, None)]
    for how in ({}, {"sizes": sizes, "size": "S"}):
        try:
            found = ask(case.program, [case.text], vs=case.other, stage=case.stage, **how)
            json.dumps(found.json())
            if not str(found).endswith(("is true", "is false")):
                raise Failure(f"an answer without an end: {found}")
            warnings_of(case.text, found.verdicts[0].warnings)
        except JaxprToolError as e:
            _refused(e)
    try:
        found = grep(case.text, [("p", case.program)])
        json.dumps(found.json())
        if len(str(found).splitlines()) < len(found.matches):
            raise Failure(f"matches that are not shown: {found}")
    except JaxprToolError as e:
        _refused(e)


def _refused(error: JaxprToolError) -> None:
    for d in error.diagnostics:
        if not d.message or (d.code == "expression" and d.span is None):
            raise Failure(f"a message without a place: {d}")


def show(case: Case) -> str:
    return f"{case.text}\n{case.program}"


TARGET = Target("expressions", draw, check, show)
