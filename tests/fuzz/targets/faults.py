"""Verbs that look for faults take every program that runs: they change nothing, end well, and say of a program what is true.

A program is equal to itself on one backend, and equivalent to itself; what an observer sees is what runs; where a result has a
NaN that no argument has, `blame` finds one.
"""

from __future__ import annotations

import json
import random
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.analyses.places import Watch
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.running.record import INDEX, Recording, recorded, variable_names
from jaxprtool.driver.words.values import open_binders
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import Case, accepted, draw, is_small, show

SMALL = 1 << 18  # bytes of what is evaluated
LIMITS = {"max_bytes": SMALL, "step_limit": 200}


def check(case: Case) -> None:
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        _check(case.program, random.Random(case.seed))


def _check(program: Any, rng: random.Random) -> None:
    binders = open_binders(program)
    if not accepted(program) or not all(is_small(v.aval) for v in binders):
        return
    seed = rng.randrange(9)
    try:
        args = [generate("random", seed, i, v.aval) for i, v in enumerate(binders)]
        plain, again = (run(program, args, **LIMITS) for _ in range(2))
    except jt.JaxprToolError:
        return  # what the other targets are for
    if [*map(_bits, plain)] != [*map(_bits, again)]:
        return  # it draws numbers without a key
    _same(plain, run(program, args, observer=Watch(), **LIMITS))
    found = jt.blame(program, *args, nan=True, **LIMITS)
    if any(map(_has_nan, plain)) and not found.found:
        raise Failure("a result has a NaN, and blame finds none")
    _told(found)
    compared = jt.compare(program, program, *args, first=True, **LIMITS)
    if not compared.equal:
        raise Failure(f"a program differs from itself:\n{compared}")
    _told(compared)
    if rng.random() < 0.3:
        _recorded(program, args, rng)
        if any(map(_has_nan, plain)):
            _tried(lambda: jt.reduce(program, *args, nan=True, seconds=3, max_bytes=SMALL))
        _tried(lambda: jt.precision(program, *args, max_bytes=SMALL))
        _tried(lambda: jt.gradcheck(program, *args, max_bytes=SMALL))
        _tried(lambda: _equivalent(program))
    if rng.random() < 0.05:
        _tried(lambda: jt.compare(program, None, *args, backends="numpy,xla", first=True, **LIMITS))


def _recorded(program: Any, args: list[Any], rng: random.Random) -> None:
    """Every value of a run can be printed, saved, and made a digest of."""
    program = with_places(program, "program.jaxpr")
    names = sorted({*variable_names(program).values()})
    lines: list[str] = []
    with TemporaryDirectory() as folder:
        what = Recording(
            tuple(rng.sample(names, min(2, len(names)))),
            f"{folder}/values",
            digests=True,
            every=rng.choice((0, 3)),
            max_bytes=SMALL,
        )
        with recorded(what, program, lines.append, str, str) as observer:
            run(program, args, observer=observer, **LIMITS)
        with open(f"{folder}/values/{INDEX}") as f:
            json.load(f)
    for line in lines:
        json.loads(line)


def _same(a: list[Any], b: list[Any]) -> None:
    for i, (x, y) in enumerate(zip(map(_bits, a), map(_bits, b), strict=True)):
        if x != y:
            raise Failure(f"result {i} is another one where an observer looks on")


def _bits(x: Any) -> Any:
    x = x.data if isinstance(x, jt.KeyArray) else x
    return (x.dtype, x.shape, x.tobytes()) if isinstance(x, np.ndarray) else repr(x)


def _has_nan(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc" and bool(np.isnan(x).any())


def _equivalent(program: Any) -> Any:
    found = jt.equiv(program, program, samples=3, **LIMITS)
    if found.status == "refuted":
        raise Failure(f"a program is not equivalent to itself:\n{found}")
    return found


def _told(answer: Any) -> None:
    """An answer has words, and a document."""
    str(answer)
    json.dumps(answer.json())


def _tried(ask: Any) -> None:
    """An answer, or an error of the user's."""
    with suppress(jt.JaxprToolError):
        _told(ask())


TARGET = Target("faults", draw, check, show)
