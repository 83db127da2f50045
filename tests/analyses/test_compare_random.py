"""compare on random programs, and on the examples of every primitive."""

from __future__ import annotations

import os
import random
import warnings
from contextlib import redirect_stderr
from io import StringIO

import pytest

import jaxprtool as jt
from jaxprtool.analyses.comparing.comparison import Tolerance
from jaxprtool.backends.arrays import generate
from jaxprtool.backends.differences import difference
from jaxprtool.driver.compare import compare
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.driver.words.values import open_binders
from jaxprtool.generation.changes import draw_program
from jaxprtool.generation.seeds import seeds
from jaxprtool.generation.wrapping import wrapped
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.passes.precisions.double import in_double
from jaxprtool.rules.scatter import COMBINED_BY
from tests.analyses.exchanged import exchanges

SEEDS = 2000 if os.environ.get("JAXPRTOOL_ALL") else 2500
SMALL = 1 << 20
REDUCERS = {"reduce", "reduce_window", "select_and_scatter", "scatter", "custom_linear_solve"}
REDUCERS |= {*COMBINED_BY}


def drawn(seed):
    """A random program that runs, with places and arguments; None where the draw gives none."""
    rng = random.Random(seed)
    program = draw_program(rng)
    for _ in range(rng.choice((0, 1, 1, 2))):
        program = wrapped(rng, program)
    try:
        jt.typecheck_jaxpr(program)
        program = with_places(program, "p")
        binders = open_binders(program)
        if not all(isinstance(v.aval, ShapedArray) and v.aval.nbytes < SMALL for v in binders):
            return None
        args = [generate("random", seed, i, v.aval) for i, v in enumerate(binders)]
        values = [run(program, args, step_limit=50, max_bytes=SMALL) for _ in range(2)]
        if any(difference(x, y).n_different for x, y in zip(*values, strict=True)):
            return None  # it reads memory that nobody has written
    except (jt.JaxprToolError, KeyError, ValueError, TypeError):
        return None
    return program, args


def held(eqn):
    """The equations inside the jaxprs of an equation."""
    return [e for closed in sub_jaxprs(eqn) for e in all_eqns(closed.jaxpr)]


@pytest.mark.parametrize("part", range(5))
def test_exchanged_equations_of_random_programs(part):
    tried = found = 0
    for seed in range(part, SEEDS, 5):
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            made = drawn(seed)
            if made is None:
                continue
            program, args = made
            tried += 1
            same = compare(program, program, args, first=True, step_limit=50)
            assert same.equal and same.first is None, seed
            for other in exchanges(program, 2, seed):
                try:
                    both = compare(program, other.program, args, first=True, step_limit=50)
                except jt.JaxprToolError:
                    continue
                first = both.first
                assert both.equal or first is not None, (seed, other.how)
                if first is not None:
                    found += 1
                    reducers = REDUCERS & {
                        first.a.eqn.primitive.name
                    }  # theirs run as one operation
                    inside = held(first.a.eqn) if reducers else []
                    spans = [e.span for e in (first.a.eqn, *inside)]
                    assert other.eqn.span in spans, (seed, other.how, str(both))
    assert tried and found


@pytest.mark.parametrize("name", sorted(seeds()))
def test_every_primitive_in_double_precision(name):
    """Raised programs are well typed, and where they can be raised none of their values is narrow."""
    for program in seeds()[name]:
        made = in_double(program)
        jt.typecheck_jaxpr(made)
        wide = [str(a).replace("f32[", "f64[") for a in program.out_avals]
        assert len(wide) == len(made.out_avals)
        for a in (*made.in_avals, *made.out_avals):
            dtype = getattr(a, "dtype", None)
            assert (
                dtype is None or dtype.kind not in "fc" or dtype.name in ("float64", "complex128")
            )


@pytest.mark.parametrize("name", sorted(seeds())[:: 1 if SEEDS > 2500 else 4])
def test_double_precision_is_near_the_own_one(name):
    for program in seeds()[name][:2]:
        binders = open_binders(program)
        narrow = {str(getattr(v.aval, "dtype", "")) for v in binders}
        if not narrow <= {"f32", "i32", "u32", "bool", "c64"}:
            continue
        # bits say nothing of numbers; a generator that nobody specifies draws other numbers each time
        if any(
            e.primitive.name in ("bitcast_convert_type", "rng_uniform")
            for e in all_eqns(program.jaxpr)
        ):
            continue
        args = [generate("random", 0, i, v.aval) for i, v in enumerate(binders)]
        try:
            with warnings.catch_warnings(), redirect_stderr(StringIO()):
                warnings.simplefilter("ignore")
                run(program, args)
                found = compare(
                    program,
                    None,
                    args,
                    backends=("numpy", "f64"),
                    tolerance=Tolerance(rtol=1e-3, atol=1e-3),
                )
        except jt.JaxprToolError:
            continue
        assert found.equal, str(found)
