"""Small checked programs compiled by XLA give what NumPy gives: shapes, types, and values up to what rounding explains.

Where both verbs take a program, and its arguments determine its results (the column `determined` of the rows). Some have
constants in the place of arguments, with which XLA computes while it compiles.
"""

from __future__ import annotations

import math
import random
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.backends.agreement import gap, larger
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.fuzzing.columns import Refused, deviation
from jaxprtool.driver.words.values import open_binders
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.walk import all_eqns
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
    if rng.random() < 0.2:
        program = with_known_arguments(program, rng.choice(("zeros", "ones", "random")))
    return Case(wrapped(rng, program) if rng.random() < 0.3 else program, rng.randrange(1 << 30))


def with_known_arguments(program: Any, kind: str) -> Any:
    """The program with constants in the place of its arguments, where these are small arrays; else itself.

    Args:
      program: any program.
      kind: of the values, as `generate` takes it.
    """
    jaxpr = program.jaxpr
    binders = jaxpr.in_binders
    if jaxpr.const_binders or not all(is_small(v.aval) for v in binders) or not accepted(program):
        return program
    try:
        values = [generate(kind, 0, i, v.aval) for i, v in enumerate(binders)]
    except jt.JaxprToolError:
        return program
    return jt.ClosedJaxpr(jaxpr.replace(const_binders=binders, in_binders=()), values)


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
    if found is None or any(map(_is_coarse, all_eqns(program.jaxpr))):
        return
    if not _moves_as_far(program, args):
        raise Failure(found.message)


def _moves_as_far(program: Any, args: list[Any]) -> bool:
    """Whether results are as far from XLA's as they move where each constant becomes the next number, as `deviation` moves arguments."""
    jaxpr, consts = program.jaxpr, program.consts
    if args or not consts:
        return False
    opened = jt.ClosedJaxpr(jaxpr.replace(const_binders=(), in_binders=jaxpr.const_binders), [])
    try:
        ours, theirs = jt.run(program), jt.run(program, jit=True)
        rooms = [0.0] * len(ours)
        for end in (-math.inf, math.inf):
            moved = jt.run(opened, *[_next(x, end) for x in consts])
            rooms = [*map(larger, rooms, moved, ours)]
    except jt.JaxprToolError:
        return False
    gaps = [gap(a, b, None, None, room) for a, b, room in zip(ours, theirs, rooms, strict=True)]
    return not any(g.differing for g in gaps)


def _next(x: Any, end: float) -> Any:
    """Floats of NumPy, each the next one towards an end; other values as they are."""
    return (
        np.nextafter(x, x.dtype.type(end)) if getattr(x, "dtype", np.dtype(int)).kind == "f" else x
    )


def _is_coarse(eqn: Any) -> bool:
    """Whether an equation is of 4 bits: XLA rounds on the way to the values of a function too, which leaves no digit."""
    return any(getattr(v.aval, "dtype", None) is _COARSE for v in eqn.out_binders)


_COARSE = find_dtype("f4_e2m1fn")


TARGET = Target("compiled-programs", draw, check, show)
