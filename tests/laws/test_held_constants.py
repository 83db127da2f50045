"""Constants with values inside of a program: every transformation does with them what it does with arrays as literals.

Each argument of each example is a constant of a call, a loop or a branch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.generation.wrapping import WRAPS
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.walk import map_jaxprs
from jaxprtool.syntax.parse import parse
from tests.laws.oracle import (
    EXAMPLES,
    assert_close,
    by_structure,
    inputs,
    law,
    ours,
    tangent_like,
)
from tests.laws.test_partial_eval import check_split, splits
from tests.random_programs.test_random import arguments
from tests.rules.example import Example

AROUND = [WRAPS[name] for name in ("jit", "remat2", "scan")]


def _programs(example: Example) -> Iterator[ClosedJaxpr]:
    args = inputs(example)
    program = jt.make_jaxpr(ours(example))(*args)
    jaxpr = program.jaxpr
    for i, v in enumerate(jaxpr.in_binders):
        ins = [w for w in jaxpr.in_binders if w is not v]
        consts = [*jaxpr.const_binders, v]
        closed = ClosedJaxpr(
            jaxpr.replace(in_binders=ins, const_binders=consts), [*program.consts, args[i]]
        )
        yield AROUND[(i + len(args)) % len(AROUND)](random.Random(i), closed)


def with_literals(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with literals in the place of its constants, at any depth."""
    jaxpr = closed.jaxpr
    values = {v: Lit(c, v.aval) for v, c in zip(jaxpr.const_binders, closed.consts, strict=True)}

    def read(atoms: Sequence[Atom]) -> list[Atom]:
        return [x if isinstance(x, Lit) else values.get(x, x) for x in atoms]

    def inside(eqn: JaxprEqn) -> JaxprEqn:
        params = {k: map_jaxprs(v, with_literals) for k, v in eqn.params.items()}
        return eqn.replace(inputs=read(eqn.inputs), params=params)

    eqns = [inside(e) for e in jaxpr.eqns]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outs=read(jaxpr.outs), const_binders=[]), [])


def outcome(f: Callable[[], Any]) -> Any:
    """What f returns, or the codes of the messages of its error."""
    try:
        return f()
    except JaxprToolError as e:
        assert e.exit_code != 3, e
        return [d.code for d in e.diagnostics]


def transformed(program: ClosedJaxpr, args: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    tangents = [tangent_like(x, i) for i, x in enumerate(args)]

    def run(*xs: Any) -> Any:
        return jt.eval_jaxpr(program, xs)

    def pullback() -> Any:
        outs, back = jt.vjp(run, *args)
        return back([tangent_like(y, i) for i, y in enumerate(outs)])

    return {
        "run": lambda: run(*args),
        "jvp": lambda: jt.jvp(run, tuple(args), tuple(tangents))[1],
        "vmap": lambda: jt.vmap(run)(*[np.stack([x, x]) for x in args]),
        "vjp": pullback,
        "text": lambda: jt.eval_jaxpr(parse(jt.format_jaxpr(program, lossless=True)), args),
    }


# draws other numbers each time
REPEATABLE = [e for e in by_structure(EXAMPLES) if e.primitive.name != "rng_uniform"]


@pytest.mark.filterwarnings("ignore:debug_callback")
@law(REPEATABLE)
def test_constants_are_as_literals(example: Example) -> None:
    for held in _programs(example):
        args = arguments(held)
        ways, literal = transformed(held, args), transformed(with_literals(held), args)
        for name, way in ways.items():
            got = outcome(way)
            want = outcome(
                literal["run" if name == "text" else name]
            )  # a literal array has no text
            assert_same(got, want, f"{name} of {jt.format_jaxpr(held, lossless=True)}")


def assert_same(got: list[Any], want: list[Any], what: str) -> None:
    """Fail unless both are equal values, or the codes of equal messages."""
    codes = [x for x in got if isinstance(x, str)]
    if codes == ["no-callback"]:
        return  # Python's functions have no text
    assert codes == [x for x in want if isinstance(x, str)], what
    assert len(got) == len(want), what
    for x, y in zip(got, want, strict=True):
        if not isinstance(x, str) and getattr(x, "dtype", None) != jax.dtypes.float0:
            assert_close(x, y, what=what)


@law(REPEATABLE)
def test_every_split_of_a_program(example: Example) -> None:
    for held in _programs(example):
        args = arguments(held)
        whole = outcome(lambda held=held, args=args: jt.eval_jaxpr(held, args))
        if whole and isinstance(whole[0], str):
            continue
        for unks_in in splits(len(args), 4):
            check_split(held, args, whole, unks_in)
