"""A program that `check` accepts never makes another verb fail otherwise than with an error of the user's."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.backends.arrays import generate
from jaxprtool.core.verification import set_verify
from jaxprtool.driver.grad import grad
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.linearize import linearize
from jaxprtool.driver.lower import lower
from jaxprtool.driver.partial_eval import partial_eval
from jaxprtool.driver.run import run
from jaxprtool.driver.transpose import transpose
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.vmap import vmap
from jaxprtool.driver.words.values import open_binders
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.ir.avals import ShapedArray
from tests.fuzz.target import Failure, Target

SMALL = 1 << 22  # bytes of what is evaluated


class Case(NamedTuple):
    program: Any
    seed: int


def draw(rng: random.Random) -> Case:
    """A program of equations, or one inside calls, branches, loops or functions with rules of their own."""
    program, levels = draw_program(rng), rng.choice((0, 0, 0, 1, 1, 2))
    for _ in range(5 if levels else 0):  # inside of a call a fault hides what is around it
        if accepted(program):
            break
        program = draw_program(rng)
    for _ in range(levels):
        program = wrapped(rng, program)
    return Case(program, rng.randrange(1 << 30))


def accepted(program: Any) -> bool:
    """Whether `check` accepts a program; any exception but its own is a failure."""
    try:
        jt.typecheck_jaxpr(program)
    except jt.JaxprToolError:
        return False
    return True


def is_small(aval: Any) -> bool:
    """Whether values of a type can be made, and take little room."""
    sized = isinstance(aval, ShapedArray) and all(isinstance(n, int) for n in aval.shape)
    return sized and aval.nbytes <= SMALL


def evaluate(program: Any) -> Any:
    """Run a program on NumPy, on small values."""
    binders = open_binders(program)
    if not all(is_small(v.aval) for v in binders):
        return run(program, [None] * len(binders))
    args = [generate("random", 0, i, v.aval) for i, v in enumerate(binders)]
    return run(program, args, max_bytes=SMALL, step_limit=1000)


def read_back(program: Any) -> None:
    """Print a program and read it; what comes back is as well-typed, and equal."""
    text = jt.format_jaxpr(program, lossless=True)
    try:
        again = jt.parse(text)
        jt.typecheck_jaxpr(again)
    except jt.JaxprToolError as e:
        raise Failure(f"the printed text is refused: {e}\n{text}") from e
    if not same_program(program, again):
        raise Failure(f"the printed text reads back different:\n{text}")


def verbs(program: Any, rng: random.Random) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is done with a program, by name."""
    n = len(program.jaxpr.in_binders)
    some = [i for i in range(n) if rng.random() < 0.5]
    axes = [rng.choice((None, 0, 0, -1)) for _ in range(n)] or [0]
    yield "run", lambda: evaluate(program)
    yield "lower", lambda: str(lower(program))
    yield "read back", lambda: read_back(program)
    yield "jvp", lambda: jvp(program)
    yield "jvp wrt some", lambda: jvp(program, some)
    yield "vmap 0", lambda: vmap(program, (0,), (0,), 2)
    yield f"vmap {axes}", lambda: vmap(program, axes, (0,), 2)
    yield "linearize", lambda: linearize(program)
    yield f"partial eval {some}", lambda: partial_eval(program, some)
    yield "transpose", lambda: transpose(program, some or range(n))
    yield "vjp", lambda: vjp(program)
    yield "grad", lambda: grad(program, range(n))
    yield "discharge", lambda: jt.discharge(program)
    yield "to_jax", lambda: jt.to_jax(program)
    if n:
        flags = [i in some for i in range(n)]
        yield "vmap_jaxpr", lambda: jt.vmap_jaxpr(program, 2, axes)
        yield "partial_eval_jaxpr", lambda: jt.partial_eval_jaxpr(program, flags)
        yield "transpose_jaxpr", lambda: jt.transpose_jaxpr(program, flags)
        yield "jvp_jaxpr", lambda: jt.jvp_jaxpr(program)


def made_of(result: Any) -> list[Any]:
    """The programs among what a verb gives."""
    if isinstance(result, dict):
        return [*result.values()]
    return [result] if isinstance(result, jt.ClosedJaxpr) else []


def check(case: Case) -> None:
    before = set_verify(True)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            _check(case)
    finally:
        set_verify(before)


def _check(case: Case) -> None:
    if not accepted(case.program):
        return
    rng = random.Random(case.seed)
    for name, apply in verbs(case.program, rng):
        made = made_of(_tried(name, apply, case))
        if made and rng.random() < 0.2:
            for program in made:
                _tried(f"run of {name}", lambda p=program: evaluate(p), case)
                _tried(f"lower of {name}", lambda p=program: str(lower(p)), case)
                _tried(f"read back of {name}", lambda p=program: read_back(p), case)


def _tried(name: str, apply: Callable[[], Any], case: Case) -> Any:
    try:
        return apply()
    except jt.JaxprToolError:
        return None
    except Failure:
        raise
    except Exception as e:
        raise Failure(f"{name}: {type(e).__name__}: {e}") from e


def show(case: Case) -> str:
    """The program's text, or what there is of it."""
    try:
        return jt.format_jaxpr(case.program, lossless=True)
    except Exception:
        return repr(case.program)


TARGET = Target("checked_programs", draw, check, show)
