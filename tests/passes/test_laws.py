"""Each pass keeps the laws that it declares, on the examples, their derivatives, and the zoo."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import jaxprtool as jt
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.words.values import open_binders
from jaxprtool.passes.pipeline import DEFAULT, pipeline, run_pipeline
from jaxprtool.passes.registry import BUILT_IN
from tests.passes.laws import STAGES, broken
from tests.programs.catalogue import EXAMPLES, PROGRAMS, case_of

ZOO = sorted(p.stem for p in (EXAMPLES / "zoo").glob("*.jaxpr"))
STEP_LIMIT = 2000


def programs(name: str):
    """A program with arguments, and its derivative with arguments."""
    if name in ZOO:
        program = jt.load(EXAMPLES / "zoo" / f"{name}.jaxpr")
        yield program, drawn(program)
        return
    case = case_of(name)
    yield case.program, case.args
    if case.reverse:
        derivative = vjp(case.program)
        yield derivative, drawn(derivative)


def drawn(program: jt.ClosedJaxpr):
    return [generate("random", 1, i, v.aval) for i, v in enumerate(open_binders(program))]


@pytest.mark.filterwarnings("ignore::jaxprtool.passes.own_rules.LostRuleWarning")
@pytest.mark.parametrize("name", [*PROGRAMS, *ZOO])
def test_passes_keep_their_laws(name):
    for program, args in programs(name):
        try:
            jt.run(program, *args, step_limit=STEP_LIMIT)
        except jt.JaxprToolError:  # it takes too many steps on these numbers
            args = None
        for text in STAGES:
            (stage,) = pipeline(text)
            found = broken(stage, program, args, step_limit=STEP_LIMIT)
            assert not found, f"{text} of {name}: {found}"


def test_every_pass_has_a_stage():
    assert {text.split()[0] for text in STAGES} == {*BUILT_IN} - {"specialise"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pipeline_comes_to_an_end(name):
    steps = []
    run_pipeline(case_of(name).program, pipeline(DEFAULT), until_fixed=True, after=steps.append)
    assert steps[-1].round < 10


def _weak(x, y):
    """Results of all kinds that are weakly typed: computed, of a loop, an argument, a literal, of a call, a literal in a call."""
    i = jax.lax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)
    c, ys = jax.lax.scan(lambda c, t: (c * 2, c), 1.0, y)
    called, two = jax.jit(lambda v: (v + 1, 2.0))(x)
    return x * 2, i, x, 3.0, c, ys, called, two, checkpoint_name(x * 3, "kept"), y


@pytest.mark.parametrize("text", [*STAGES, "remat policy=names=kept"])
def test_weak_types_of_results_are_kept(text):
    args = 1.5, np.arange(3, dtype=np.float32)
    program = jt.trace(_weak, *args)
    assert sum(a.weak_type for a in program.out_avals) >= 5
    (stage,) = pipeline(text)
    assert not broken(stage, program, [np.float32(1.5), args[1]], step_limit=STEP_LIMIT)
    made = jt.opt(program, passes=text, verify_each=True)
    if "types" in stage.of.laws:
        assert made.out_avals == program.out_avals
    jt.typecheck_jaxpr(made.jaxpr)
