"""The programs of examples/ through every transformation, in process.

JAX is the oracle: values, and the number of equations of what comes out.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax.expansion import expanded
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.ir.walk import count_eqns
from tests.programs.catalogue import PROGRAMS, case_of


@pytest.fixture(scope="module", params=PROGRAMS)
def case(request):
    return case_of(request.param)


@pytest.fixture(scope="module", params=[n for n, p in PROGRAMS.items() if p.reverse])
def reversible(request):
    return case_of(request.param)


@pytest.fixture(scope="module", params=[n for n, p in PROGRAMS.items() if not p.reverse])
def forward_only(request):
    return case_of(request.param)


def test_text_round_trip(case):
    """Of what a file can hold: an equation that is an object of JAX's, as a root from 0.11 on, is the call of what it does."""
    program = expanded(case.program)
    text = jt.format_jaxpr(program, lossless=True)
    again = jt.parse(text)
    assert jt.format_jaxpr(again, lossless=True) == text
    jt.typecheck_jaxpr(again)
    case.close(jt.eval_jaxpr(again, case.args), case.want)
    if program is case.program:
        assert str(program).startswith(str(case.jaxpr))


def test_values_on_numpy_and_xla(case):
    case.close(case.run(*case.args), case.want)
    case.close(jt.compile(case.program)(*case.args), case.want)


def test_jvp(case):
    outs, tangents = jt.jvp(case.run, tuple(case.args), tuple(case.tangents))
    case.close(outs, case.want)
    case.close([t for t in tangents if t.dtype != jt.float0], case.want_tangents)
    program, _ = jt.jvp_jaxpr(case.program)
    jt.typecheck_jaxpr(program)
    both = [*case.args, *case.floats(case.tangents)]
    case.close(jt.eval_jaxpr(program, both), [*case.want, *case.want_tangents])
    if not case.reverse:  # the others are compiled with their cotangents
        case.close(jt.compile(program)(*both), [*case.want, *case.want_tangents])


def test_vjp(reversible):
    case = reversible
    program = vjp_jaxpr(case.program)
    jt.typecheck_jaxpr(program)
    want = [*case.want, *case.want_cotangents]
    case.close(jt.eval_jaxpr(program, [*case.args, *case.cotangents]), want, 10)
    case.close(jt.compile(program)(*case.args, *case.cotangents), want, 10)
    outs, pullback = jt.vjp(case.run, *case.args)
    cts = iter(case.cotangents)
    given = [next(cts) if x.dtype.kind == "f" else np.zeros(x.shape, jt.float0) for x in outs]
    case.close(case.floats(pullback(given)), case.want_cotangents, 10)


def test_loops_of_unknown_length_have_no_reverse_mode(forward_only):
    with pytest.raises(
        jt.MissingRuleError, match=r"while: reverse mode of a while loop .* use scan"
    ):
        vjp_jaxpr(forward_only.program)


def test_linearize(case):
    _, f_lin = jt.linearize(case.run, *case.args)
    tangents = [t for t in f_lin(*case.tangents) if t.dtype != jt.float0]
    case.close(tangents, case.want_tangents, 10)
    primal, linear, n_residuals = linearize_jaxpr(case.program)
    outs = jt.eval_jaxpr(primal, case.args)
    residuals = outs[len(outs) - n_residuals :]
    got = jt.eval_jaxpr(linear, [*residuals, *case.floats(case.tangents)])
    case.close(got, case.want_tangents, 10)


def test_vmap(case):
    case.close(jt.vmap(case.run)(*case.batch), case.want_batch)
    program, dims = jt.vmap_jaxpr(case.program, 3, [0] * len(case.batch), 0)
    jt.typecheck_jaxpr(program)
    assert dims == [0] * len(case.want)
    case.close(jt.compile(program)(*case.batch), case.want_batch)


def test_partial_evaluation(case):
    unknown = [i % 2 == 1 for i in range(len(case.args))]
    known, rest, unks_out, n_res = jt.partial_eval_jaxpr(case.program, unknown, verify=True)
    first = jt.eval_jaxpr(known, [x for x, u in zip(case.args, unknown, strict=True) if not u])
    residuals = first[len(first) - n_res :]
    given = [x for x, u in zip(case.args, unknown, strict=True) if u]
    second, done = iter(jt.eval_jaxpr(rest, [*residuals, *given])), iter(first)
    case.close([next(second) if u else next(done) for u in unks_out], case.want)


def test_back_to_jax(case):
    with case.precision():
        again = jt.to_jax(case.program)
        assert str(again) == str(case.jaxpr)
        case.close(case.jax(jax.extend.core.jaxpr_as_fun(again), *case.args), case.want)


def _ours(case):
    yield "jvp", [jt.jvp_jaxpr(case.program)[0]]
    yield "vmap", [jt.vmap_jaxpr(case.program, 3, [0] * len(case.args), 0)[0]]
    yield "linearize", linearize_jaxpr(case.program)[:2]
    if case.reverse:
        yield "vjp", [vjp_jaxpr(case.program)]
    if case.scalar and case.reverse:
        yield "grad", [grad_jaxpr(case.program, case.inexact)]


def _theirs(case):
    def linearize(xs, ts):
        outs, f_lin = jax.linearize(case.of_floats, *xs)
        return outs, case.only_floats(f_lin(*ts))

    xs, ts = case.floats(case.args), case.floats(case.tangents)
    return {
        "jvp": (case.pushforward, xs, ts),
        "vmap": (jax.vmap(case.f), *case.batch),
        "linearize": (linearize, xs, ts),
        "vjp": (case.pullback, xs, case.cotangents),
        "grad": (jax.grad(lambda xs: case.of_floats(*xs)[0]), xs),
    }


def test_sizes_are_at_most_those_of_jax(case):
    """Where a transformation gives two jaxprs, JAX is free to draw the line elsewhere: both count."""
    theirs = _theirs(case)
    counts = {
        verb: (sum(count_eqns(p.jaxpr) for p in programs), case.jax_size(*theirs[verb]))
        for verb, programs in _ours(case)
    }
    assert all(a <= b for a, b in counts.values()), counts
