"""Passes take every checked program, and keep the laws that they declare."""

from __future__ import annotations

import random
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import jaxprtool as jt
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.run import run
from jaxprtool.driver.words.values import open_binders
from jaxprtool.passes.pipeline import pipeline
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import Case, accepted, draw, is_small, read_back, show
from tests.passes.laws import STAGES, bits, broken

SMALL = 1 << 18  # bytes of what is evaluated
LIMITS = {"max_bytes": SMALL, "step_limit": 200}


def check(case: Case) -> None:
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        _check(case.program, random.Random(case.seed))


def _check(program: Any, rng: random.Random) -> None:
    if not accepted(program):
        return
    args = _arguments(program, rng)
    for text in rng.sample(STAGES, 4):
        (stage,) = pipeline(text)
        try:
            found = broken(stage, program, args, **LIMITS)
        except jt.UnsupportedError:
            continue
        if found:
            raise Failure(f"{text}: {found}")
        if rng.random() < 0.2:
            read_back(stage(program))


def _arguments(program: Any, rng: random.Random) -> list[Any] | None:
    """Arguments for a program that runs on them, and gives the same each time; None where there are none."""
    binders = open_binders(program)
    if not all(is_small(v.aval) for v in binders):
        return None
    seed = rng.randrange(9)
    try:
        args = [generate("random", seed, i, v.aval) for i, v in enumerate(binders)]
        plain, again = (run(program, args, **LIMITS) for _ in range(2))
    except jt.JaxprToolError:
        return None
    return args if [*map(bits, plain)] == [*map(bits, again)] else None


TARGET = Target("passes", draw, check, show)
