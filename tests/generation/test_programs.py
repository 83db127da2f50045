"""Random programs: well-typed, of the size and the primitives that are asked for, the same for the same seed everywhere."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.generation.programs import draw_typed, is_sized
from jaxprtool.generation.seeds import primitives_in, seeds
from jaxprtool.generation.wrapping import WRAPS
from jaxprtool.ir.jaxpr import Jaxpr, Lit
from jaxprtool.ir.walk import sub_jaxprs
from tests.invoke import invoke

ROOT = Path(__file__).parents[2]
COUNT = 1000 if os.environ.get("JAXPRTOOL_ALL") else 150


def test_programs_are_well_typed_and_are_read_back() -> None:
    for seed in range(COUNT):
        program = draw_typed(random.Random(seed))
        jt.typecheck_jaxpr(program)
        assert program.eqns and all(is_sized(v.aval) for v in program.jaxpr.in_binders)
        assert same_program(jt.parse(jt.format_jaxpr(program, lossless=True)), program)


@pytest.mark.filterwarnings("ignore")
def test_what_is_drawn_runs() -> None:
    """But for what says why it does not: an algorithm that NumPy lacks, say."""
    done = 0
    for seed in range(COUNT):
        program, args = jt.random_program(seed)
        try:
            jt.run(program, *args, max_bytes=1 << 26, step_limit=200)
            done += 1
        except jt.JaxprToolError:
            continue
    assert done > COUNT * 0.8


def test_all_literals_have_values() -> None:
    """Also in branches that are not taken: `vmap` takes all of them."""

    def inside(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
        yield jaxpr
        for eqn in jaxpr.eqns:
            for closed in sub_jaxprs(eqn):
                yield from inside(closed.jaxpr)

    for seed in range(COUNT):
        for jaxpr in inside(draw_typed(random.Random(seed), 20).jaxpr):
            atoms = [*jaxpr.outs, *(x for e in jaxpr.eqns for x in e.inputs)]
            assert all(x.val is not None for x in atoms if isinstance(x, Lit)), seed


@pytest.mark.parametrize("size", [1, 5, 40])
def test_size(size: int) -> None:
    found = [len(draw_typed(random.Random(seed), size).eqns) for seed in range(10)]
    assert all(n >= size for n in found) and min(found) <= size + 3


def test_every_argument_is_read_and_every_result_is_used() -> None:
    for seed in range(COUNT):
        jaxpr = draw_typed(random.Random(seed)).jaxpr
        read = {x for e in jaxpr.eqns for x in e.inputs} | {*jaxpr.outs}
        assert {*jaxpr.in_binders} <= read
        made = [v for e in jaxpr.eqns for v in e.out_binders if is_sized(v.aval)]
        assert {*made} <= read


@pytest.mark.parametrize(
    "names", [("add", "mul"), ("sin",), ("add", "mul", "sin", "scan", "cond"), ("gather", "sort")]
)
def test_primitives(names: tuple[str, ...]) -> None:
    for seed in range(30):
        assert primitives_in(draw_typed(random.Random(seed), 4, names)) <= {*names}


def test_most_primitives_are_drawn() -> None:
    found = set[str]()
    for seed in range(3000):
        found |= primitives_in(draw_typed(random.Random(seed), 3))
    left = {*seeds()} - found
    assert len(left) < 12, left


def test_values_flow_from_equation_to_equation() -> None:
    """Programs are more than equations side by side."""
    linked = 0
    for seed in range(100):
        jaxpr = draw_typed(random.Random(seed), 6, ["add", "mul", "sin", "neg"]).jaxpr
        made = {v for e in jaxpr.eqns for v in e.out_binders}
        linked += sum(any(x in made for x in e.inputs) for e in jaxpr.eqns)
    assert linked > 150


def test_programs_are_put_into_others() -> None:
    found = [primitives_in(draw_typed(random.Random(seed), 3)) for seed in range(300)]
    for name in WRAPS:
        assert any(name in names for names in found), name


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """In two processes, whose hashes differ."""
    texts = []
    for k in ("1", "2"):
        folder = tmp_path / k
        words = ["fuzz", "--seed", "100", "-n", "40", "-o", str(folder)]
        env = {**os.environ, "PYTHONHASHSEED": k, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-m", "jaxprtool", *words], env=env, check=True, capture_output=True)  # fmt: skip
        texts.append({p.name: p.read_bytes() for p in sorted(folder.iterdir())})
    assert texts[0] == texts[1] and len(texts[0]) == 80


def test_a_file_is_what_the_seed_gives(tmp_path: Path) -> None:
    """Whichever programs are drawn with it; and run takes it with its arguments."""
    assert invoke(f"fuzz --seed 3 -n 5 -o {tmp_path}").status == 0
    alone = tmp_path / "alone"
    assert invoke(f"fuzz --seed 6 -o {alone}").status == 0
    for name in ("fuzz-6.jaxpr", "fuzz-6.args.npz"):
        assert (alone / name).read_bytes() == (tmp_path / name).read_bytes()
    for seed in range(3, 8):
        path = tmp_path / f"fuzz-{seed}"
        done = invoke(f"run {path}.jaxpr --args {path}.args.npz")
        assert done.status == 0, done.error
