"""Evaluation of a program that is not prepared gives what the prepared one does."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.evaluation import streamed
from jaxprtool.interpreters.evaluation.observe import observed_by
from jaxprtool.passes.precisions.jitter import Jitter
from tests.laws.oracle import EXAMPLES, by_primitive, ours

FIRST = [
    examples[0]
    for p, examples in by_primitive(EXAMPLES).items()
    if p.name in ("add", "scan", "cond", "while", "sort", "top_k", "custom_jvp_call", "qr", "psum")
]


class _Seen:
    def __init__(self):
        self.events = []

    def enter(self, jaxpr, args):
        self.events.append("enter")
        return True

    def begin(self, eqn, ins):
        self.events.append(f"begin {eqn.primitive}")

    def see(self, eqn, ins, outs):
        self.events.append(f"{eqn.primitive} {len(ins)} {len(outs)}")

    def leave(self, jaxpr, outs):
        self.events.append("leave")


def both(monkeypatch, run):
    """What `run` gives, with a prepared program and without."""
    monkeypatch.setattr(streamed, "_LARGE", -1)
    found = [run()]
    with streamed.streaming():
        return [*found, run()]


@pytest.mark.parametrize("example", FIRST, ids=lambda e: str(e.primitive))
def test_results_and_what_an_observer_sees(example, monkeypatch):
    def run():
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
        seen = _Seen()
        args = arguments(open_binders(program), ["random:0"])
        with observed_by(seen):
            return [x.tobytes() for x in jt.eval_jaxpr(program, args)], seen.events

    prepared, unprepared = both(monkeypatch, run)
    assert prepared == unprepared


def test_other_roundings(monkeypatch):
    program = jt.parse(
        "{ lambda ; a:f32[9]. let b:f32[9] = sin a; c:f32[9] = cos b in (c, b, a, 1.0:f32[]) }"
    )

    def run():
        with Jitter().drawn(3):
            return [x.tobytes() for x in jt.eval_jaxpr(program, [np.ones(9, np.float32)])]

    prepared, unprepared = both(monkeypatch, run)
    assert prepared == unprepared
    with streamed.streaming():
        assert run() != [x.tobytes() for x in jt.eval_jaxpr(program, [np.ones(9, np.float32)])]


def test_values_go_after_their_last_use(monkeypatch):
    """A chain of a thousand arrays holds a few at a time."""
    import tracemalloc

    n = 1000
    lines = "; ".join(f"v{i + 1}:f32[10000] = sin v{i}" for i in range(n))
    program = jt.parse(f"{{ lambda ; v0:f32[10000]. let {lines} in (v{n},) }}")
    monkeypatch.setattr(streamed, "_LARGE", 10)
    with streamed.streaming():
        jt.eval_jaxpr(program, [np.ones(10_000, np.float32)])
        tracemalloc.start()
        jt.eval_jaxpr(program, [np.ones(10_000, np.float32)])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 10 * 40_000


def test_an_error_names_the_place(monkeypatch):
    monkeypatch.setattr(streamed, "_LARGE", -1)
    text = '{ lambda ; a:f32[]. let\n    b:f32[] = ffi_call[target_name="x" result_avals=(ShapedArray(float32[]),)] a\n  in (b,) }'
    with streamed.streaming(), pytest.raises(jt.JaxprToolError) as e:
        jt.eval_jaxpr(jt.parse(text), [np.float32(1)])
    assert e.value.diagnostics[0].span is not None
