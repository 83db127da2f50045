"""Shared jaxprs stay shared: n levels that each use the last twice cost n, in every verb."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.diffing.diff import diff_programs
from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.interpreters.discharge import discharge_jaxpr
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.interpreters.partial_eval import partial_eval_jaxpr
from jaxprtool.interpreters.transpose import transpose_jaxpr
from jaxprtool.ir.jaxpr import Jaxpr
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from tests.laws.sharing import LEVELS, program

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FORWARD_ONLY = {"while", "while condition"}  # no reverse mode
NO_SECOND_FORWARD = {"custom_vjp_call"}
# Its rule is not the derivative of its body, and JAX's own text writes its jaxprs out.
IN_RECORDS = {"custom_linear_solve"}


def unique_eqns(*jaxprs: Jaxpr) -> int:
    """Number of equations, those of a nested jaxpr once however often it is used."""
    seen = {*jaxprs}
    pending = [*seen]
    total = 0
    while pending:
        jaxpr = pending.pop()
        total += len(jaxpr.eqns)
        for eqn in jaxpr.eqns:
            new = [c.jaxpr for c in sub_jaxprs(eqn) if c.jaxpr not in seen]
            seen.update(new)
            pending += dict.fromkeys(new)
    return total


def size(*programs: jt.ClosedJaxpr) -> int:
    """Equations and their operands, those of a jaxpr once."""
    operands = sum(len(e.inputs) for p in programs for e in all_eqns(p.jaxpr))
    return unique_eqns(*[p.jaxpr for p in programs]) + operands


def transposed(p: jt.ClosedJaxpr) -> jt.ClosedJaxpr:
    _, linear, n = linearize_jaxpr(p)
    return transpose_jaxpr(linear, [i >= n for i in range(len(linear.in_avals))])[0]


def differences(p: jt.ClosedJaxpr) -> int:
    found = diff_programs({"": p}, {"": p})
    return len(found.lines) if hasattr(found, "lines") else 0


def peak(p: jt.ClosedJaxpr) -> int:
    with pytest.raises(jt.UsageError, match="bytes") as error:
        check_memory(p, 0)
    return len(str(error.value))


FORWARD = {
    "print as JAX": lambda p: len(str(p)),
    "print": lambda p: len(jt.format_jaxpr(p, lossless=True)),
    "print and read": lambda p: size(jt.parse(jt.format_jaxpr(p, lossless=True))),
    "check": lambda p: len(jt.typecheck_jaxpr(p).out_types),
    "dce": lambda p: size(dce_closed(p)),
    "jvp": lambda p: size(jt.jvp_jaxpr(p)[0]),
    "vmap": lambda p: size(jt.vmap_jaxpr(p, 4, [0])[0]),
    "partial_eval": lambda p: size(*partial_eval_jaxpr(jt.jvp_jaxpr(p)[0], [False, True])[:2]),
    "discharge": lambda p: size(discharge_jaxpr(p)),
    "lower": lambda p: len(str(lower_jaxpr(p))),
    "cost": lambda p: len(str(cost_jaxpr(p).flops)),
    "peak": peak,
}
REVERSE = {
    "linearize": lambda p: size(*linearize_jaxpr(p)[:2]),
    "transpose": lambda p: size(transposed(p)),
    "vjp": lambda p: size(vjp_jaxpr(p)),
    "grad": lambda p: size(grad_jaxpr(p)),
    "vmap of grad": lambda p: size(jt.vmap_jaxpr(grad_jaxpr(p), 4, [0])[0]),
    "lower of grad": lambda p: len(str(lower_jaxpr(grad_jaxpr(p)))),
}


def cases() -> list[tuple[str, str]]:
    pairs = [(kind, verb) for kind in LEVELS for verb in (*FORWARD, *REVERSE)]
    return [
        (kind, verb)
        for kind, verb in pairs
        if not (kind in FORWARD_ONLY and verb in REVERSE)
        and not (kind in IN_RECORDS and verb == "print as JAX")
        and not (kind in NO_SECOND_FORWARD and verb == "lower of grad")
    ]


@pytest.mark.parametrize(("kind", "verb"), cases())
def test_size_is_linear(kind, verb):
    """From 10 levels to 20 the result grows no more than twice as much as from 5 to 10; a power of two would be 1,000."""
    run = {**FORWARD, **REVERSE}[verb]
    small, middle, large = (run(program(kind, n)) for n in (5, 10, 20))
    assert large - middle <= 3 * max(middle - small, small), (small, middle, large)


@pytest.mark.parametrize("kind", [k for k in LEVELS if k not in FORWARD_ONLY])
def test_values_are_those_of_forward_mode(kind):
    """Reverse mode gives the derivative of forward mode where shared bodies are called and
    recomputed.
    """
    if kind in NO_SECOND_FORWARD or kind in IN_RECORDS:
        pytest.skip("its rules are not those of its body")
    p = program(kind, {"scan": 5, "custom_jvp_call": 7}.get(kind, 8))
    x, t = np.array([0.3, 0.7, 1.1], np.float32), np.array([1.0, -2.0, 0.5], np.float32)
    _, pushed = jt.eval_jaxpr(jt.jvp_jaxpr(p)[0], [x, t])
    (gradient,) = jt.eval_jaxpr(grad_jaxpr(p), [x])
    assert abs(pushed) > 1e-30
    np.testing.assert_allclose(gradient @ t, pushed, rtol=1e-3)
    primal, linear, n = linearize_jaxpr(p)
    residuals = jt.eval_jaxpr(primal, [x])[1:]
    assert len(residuals) == n
    np.testing.assert_allclose(jt.eval_jaxpr(linear, [*residuals, t])[0], pushed, rtol=1e-3)


def test_the_program_is_as_large_as_it_says():
    p = program("jit", 20)
    assert count_eqns(p.jaxpr) > 2**20 and unique_eqns(p.jaxpr) < 150
    assert sum(1 for _ in all_eqns(p.jaxpr)) == unique_eqns(p.jaxpr)


def test_derived_jaxprs_are_the_same_objects():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        derivative, _ = jt.jvp_jaxpr(program("jit", 3))
    (top,) = [e for e in derivative.eqns if e.primitive.name == "jit"]
    calls = [e for e in top.params["jaxpr"].eqns if e.primitive.name == "jit"]
    assert len(calls) == 2 and calls[0].params["jaxpr"] is calls[1].params["jaxpr"]
