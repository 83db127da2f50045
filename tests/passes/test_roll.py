"""roll: loops that were written out become scans, and nothing else changes."""

from __future__ import annotations

import time

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.run import run
from jaxprtool.ir.walk import all_eqns, count_eqns
from jaxprtool.passes.pipeline import pipeline, run_pipeline
from tests.passes.laws import bits
from tests.passes.test_laws import STEP_LIMIT, ZOO, programs
from tests.passes.written_out import written_loop
from tests.programs.catalogue import PROGRAMS


def through(program: jt.ClosedJaxpr, passes: str) -> jt.ClosedJaxpr:
    made = run_pipeline(program, pipeline(passes))
    jt.typecheck_jaxpr(made)
    return made


def names(program: jt.ClosedJaxpr) -> list[str]:
    return [e.primitive.name for e in all_eqns(program.jaxpr)]


def same_values(a: jt.ClosedJaxpr, b: jt.ClosedJaxpr, args) -> bool:
    results = [run(p, args, step_limit=STEP_LIMIT) for p in (a, b)]
    return [*map(bits, results[0])] == [*map(bits, results[1])]


@pytest.mark.parametrize("seed", range(60))
def test_what_was_written_out_becomes_a_scan(seed):
    """A loop with a carry of one to three turns back, rows, numbers, and results that are read: a scan of its length."""
    written = written_loop(seed)
    program = jt.parse(written.text)
    made = through(program, "roll saved=1")
    scans = [e for e in made.eqns if e.primitive.name == "scan"]
    assert scans and scans[0].params["length"] >= written.turns - 3, made
    assert count_eqns(made.jaxpr) < count_eqns(program.jaxpr)
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=2), rng.normal(size=2), rng.normal(size=(written.rows, 2))]
    assert same_values(program, made, args), made
    again = through(made, f"unroll steps={written.turns}")
    assert "scan" not in names(again)
    assert same_values(program, again, args), again


@pytest.mark.parametrize("name", [*PROGRAMS, *ZOO])
def test_loops_of_real_programs(name):
    """Written out by `unroll`, then rolled: the same values, and never more equations."""
    for program, args in programs(name):
        flat = through(program, "unroll steps=20 size=3000")
        if flat is program:
            continue
        made = through(flat, "roll saved=1")
        assert count_eqns(made.jaxpr) <= count_eqns(flat.jaxpr)
        try:
            jt.run(program, *args, step_limit=STEP_LIMIT)
        except jt.JaxprToolError:  # it takes too many steps on these numbers
            continue
        assert same_values(flat, made, args)


def chain(n: int, step: str) -> jt.ClosedJaxpr:
    lines = [f"    v{i}:f32[2] = {step.format(x=f'v{i - 1}' if i else 'a', i=i)}" for i in range(n)]
    body = "\n".join(lines)
    return jt.parse(f"{{ lambda ; a:f32[2]. let\n{body}\n  in (v{n - 1},) }}")


def test_a_hundred_thousand_equations():
    program = chain(100_000, "mul {x} 0.5:f32[]")
    start = time.process_time()
    made = through(program, "roll")
    assert len(made.eqns) == 1 and made.eqns[0].params["length"] == 100_000
    assert time.process_time() - start < 60


def test_few_turns_and_little_gain_stay():
    program = chain(12, "sin {x}")
    assert through(program, "roll saved=20") is program
    assert through(program, "roll turns=13 saved=1") is program
    assert names(through(program, "roll"))[0] == "scan"


def test_equations_with_effects_stay_where_they_are():
    lines, last = [], "a"
    for i in range(10):
        lines.append(f"    v{i}:f32[] = sin {last}")
        lines.append(f"    debug_print[fmt={{}} ordered=False] v{i}")
        last = f"v{i}"
    body = "\n".join(lines)
    program = jt.parse(f"{{ lambda ; a:f32[]. let\n{body}\n  in ({last},) }}")
    assert through(program, "roll turns=2 saved=1") is program


def test_a_loop_inside_a_loop():
    """Three sines and a product, twelve times: a scan, in which another one is found where that saves enough."""
    lines, last = [], "a"
    for i in range(12):
        for j in range(9):
            lines.append(f"    v{i}_{j}:f32[2] = sin {last}".replace("_", "x"))
            last = f"v{i}x{j}"
        lines.append(f"    w{i}:f32[2] = mul {last} a")
        last = f"w{i}"
    body = "\n".join(lines)
    program = jt.parse(f"{{ lambda ; a:f32[2]. let\n{body}\n  in ({last},) }}")
    made = through(program, "roll saved=4")
    assert names(made) == ["scan", "scan", "sin", "mul"]
    assert same_values(program, made, [np.array([0.5, 2.0], np.float32)])


def test_keys_are_carried():
    lines, last = [], "k"
    for i in range(8):
        lines.append(f"    s{i}:key<fry>[2] = random_split[shape=(2,)] {last}")
        cut = "slice[limit_indices=(1,) start_indices=(0,) strides=None]"
        lines.append(f"    r{i}:key<fry>[1] = {cut} s{i}")
        lines.append(f"    k{i}:key<fry>[] = squeeze[dimensions=(0,)] r{i}")
        last = f"k{i}"
    lines.append(f"    b:u32[3] = random_bits[bit_width=32 shape=(3,)] {last}")
    body = "\n".join(lines)
    program = jt.parse(f"{{ lambda ; k:key<fry>[]. let\n{body}\n  in (b,) }}")
    made = through(program, "roll")
    assert names(made)[0] == "scan"
    key = jt.KeyArray("fry", np.array([1, 2], np.uint32))
    assert same_values(program, made, [key])
