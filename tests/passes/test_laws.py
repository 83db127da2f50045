"""Each pass keeps the laws that it declares, on the examples, their derivatives, and the zoo."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.values import open_binders
from jaxprtool.driver.vjp import vjp
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
