"""Replayed rules (see `interpreters.reuse.replay`): a transformation makes the same program as where every rule runs each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.analyses.identity.share import share_equal
from jaxprtool.core.bind import set_current_trace
from jaxprtool.interpreters.batch import batch_rules
from jaxprtool.interpreters.jvp import jvp_jaxpr, jvp_rules
from jaxprtool.interpreters.linearize import linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.reuse import replay
from jaxprtool.interpreters.reuse.replay import Replayer
from jaxprtool.interpreters.stage import JaxprTrace
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var, lossless_text
from jaxprtool.ir.origin import NAMES, SOURCE, Frame, Origin
from jaxprtool.ir.walk import map_programs, with_eqns
from tests.laws.oracle import EXAMPLES, by_structure, inputs, law, ours
from tests.random_programs.programs import programs
from tests.rules.example import Example


@pytest.fixture(autouse=True)
def _of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three equations are enough to keep a recording, so that programs of five are replayed."""
    monkeypatch.setattr(replay, "_FEWEST", 3)


def repeated(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that applies another one to arguments of their own, and once to arguments that are one variable where their types are.

    The params of its equations are other objects every second time, and their origins differ.
    """
    origins = [
        Origin(Frame("layers.py", i, 4, "layer"), (f"layer{i}",), SOURCE | NAMES) for i in range(5)
    ]
    closed = map_programs(closed, lambda c: with_origin(c, origins[0]))
    trace = JaxprTrace()
    outs = []
    for i in range(5):
        args = [trace.new_input(a) for a in closed.in_avals]
        if i == 3:
            args = [next(y for y in args if y.aval is x.aval) for x in args]
        placed = with_origin(closed, origins[i] if i != 2 else None)
        if i % 2:
            placed = with_eqns(placed, [e.replace(params={**e.params}) for e in placed.eqns])
        outs += trace.copy_jaxpr(placed, args)
    return trace.build(outs)


def with_origin(closed: ClosedJaxpr, origin: Origin | None) -> ClosedJaxpr:
    return with_eqns(closed, [e.with_origin(origin) for e in closed.eqns])


def made(program: ClosedJaxpr, seed: int) -> Iterator[Any]:
    """The texts of what transformations make of a program, or their errors."""
    rng = random.Random(seed)
    inexact = [a.dtype.kind in "fc" for a in program.in_avals]
    some = [x and rng.random() < 0.7 for x in inexact]
    dims = [0 if rng.random() < 0.7 else None for _ in inexact]
    transformations: list[Callable[[ClosedJaxpr], Any]] = [
        lambda p: jvp_jaxpr(p, some),
        linearize_jaxpr,
        vjp_jaxpr,
        lambda p: jt.vmap_jaxpr(p, 3, dims, None),
        lambda p: jt.vmap_jaxpr(jvp_jaxpr(p)[0], 2, [0] * len(jvp_jaxpr(p)[0].in_avals)),
    ]
    for f in transformations:
        try:
            yield texts(f(program.replace()))
        except JaxprToolError as e:
            yield [(d.code, d.message) for d in e.diagnostics]


def texts(x: Any) -> Any:
    """Lossless texts, where equal jaxprs have one name: each run of a rule may make one, which replays share."""
    if isinstance(x, (tuple, list)):
        return [*map(texts, x)]
    return lossless_text(share_equal(x)) if isinstance(x, ClosedJaxpr) else x


def assert_same(program: ClosedJaxpr) -> None:
    got = [*made(program, 0)]
    with mock.patch.object(Replayer, "__init__", never):
        want = [*made(program, 0)]
    for i, (x, y) in enumerate(zip(got, want, strict=True)):
        assert x == y, f"{i} of {lossless_text(program)}"


def never(self: Any, trace: Any, eqns: Sequence[Any]) -> None:
    self.often = set()


@pytest.mark.filterwarnings("ignore:debug_callback")
@law(by_structure(EXAMPLES))
def test_of_operations(example: Example) -> None:
    closed = jt.make_jaxpr(ours(example))(*inputs(example))
    assert_same(repeated(closed))


@settings(max_examples=40, deadline=None)
@given(programs(loops=False))
def test_of_random_programs(program: ClosedJaxpr) -> None:
    assert_same(repeated(program))


@pytest.mark.parametrize("fewest, runs", [(8, 1), (13, 12)])
def test_a_rule_runs_once_for_many_equations_and_each_time_for_few(
    monkeypatch: pytest.MonkeyPatch, fewest: int, runs: int
) -> None:
    monkeypatch.setattr(replay, "_FEWEST", fewest)
    trace = JaxprTrace()
    x = trace.new_input(ShapedArray((2,), FLOAT32))
    with set_current_trace(trace):
        outs = [lax.sin(y) for y in [x] * 12]
    calls = []
    rule = jvp_rules[lax.sin.primitive]

    def counted(primals: Any, tangents: Any, **params: Any) -> Any:
        calls.append(primals)
        return rule(primals, tangents, **params)

    with mock.patch.dict(jvp_rules.rules, {lax.sin.primitive: counted}):
        jvp_jaxpr(trace.build(outs))
    assert len(calls) == runs


def test_of_array_literals_that_print_alike() -> None:
    aval = ShapedArray((2000,), FLOAT32)
    x, mul = Var(aval), lax.mul.primitive
    binders, literals = [Var(aval) for _ in range(4)], []
    for i in range(4):
        value = np.zeros(2000, np.float32)
        value[1000] = i
        literals.append(Lit(value, aval))
    assert len({*map(repr, literals)}) == 1
    pairs = zip(literals, binders, strict=True)
    eqns = [JaxprEqn(mul, [x, y], mul.defaults, [v]) for y, v in pairs]
    program = ClosedJaxpr(Jaxpr([x], eqns, binders))
    tangent = np.ones(2000, np.float32)
    (*_, last) = jt.eval_jaxpr(jvp_jaxpr(program)[0], [tangent, tangent])
    assert last[1000] == 3


@pytest.mark.parametrize("outs, others", [(3, 1), (1, 3), (2, 1), (3, 3)])
def test_a_rule_with_another_number_of_results_is_refused(outs: int, others: int) -> None:
    program = jt.parse("{ lambda ; a:f32[4]. let b:f32[2] c:i32[2] = top_k[k=2] a in (b, c) }")
    given = lambda *_, **__: ([1.0] * outs, [None] * others)
    for table, verb in (
        (jvp_rules, jvp_jaxpr),
        (batch_rules, lambda p: jt.vmap_jaxpr(p, 2, [0])),
    ):
        verb(program)  # which loads the rules
        patched = mock.patch.dict(table.rules, {lax.top_k.primitive: given})
        with patched, pytest.raises(ValueError, match="a rule of top_k gives"):
            verb(program.replace())
