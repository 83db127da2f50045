"""Linearize rules against what they abbreviate: the jvp rule, partially evaluated; and what is known to be live."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.generation.seeds import seeds
from jaxprtool.interpreters.dce import dce_body, dce_jaxpr
from jaxprtool.interpreters.linearize import linearize_jaxpr, linearize_rules, vjp_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import JaxprEqn, Var
from jaxprtool.ir.walk import count_eqns

lax = jt.lax
X = np.linspace(-1.0, 1.0, 3).astype(np.float32)
W = np.float32(0.5)


def _scan(x, w):
    def step(c, u):
        k, c = c
        return (lax.add(k, 1), lax.tanh(c * u + lax.sin(w))), lax.mul(u, u)

    (_, c), ys = jt.scan(step, (0, w), x)
    return c, ys


def _scan_from_zero(x, w):
    return jt.scan(lambda c, u: (lax.sin(c + u * w), w), lax.mul(w, 0.0), x)


def _reversed_nest(x, w):
    def outer(c, u):
        return jt.scan(lambda d, v: (d * v + c, d * u), c, x, reverse=True)

    return jt.scan(outer, w, x)


def _cond(x, w):
    pred = lax.gt(w, 0.0)
    return jt.cond(pred, lambda a, b: lax.sin(a) * b, lambda a, b: lax.exp(a) + b, x, x * w)


def _jit(x, w):
    return jt.jit(lambda a, b: (lax.sin(a) * b, b, lax.exp(b)))(x, x * w)


def _loop_of_calls(x, w):
    def step(c, u):
        c = jt.jit(lambda a: lax.cos(a) * w)(c)
        return jt.cond(lax.gt(c, u), lambda a: a * u, lambda a: a, c), c

    return jt.scan(step, w, x)


PROGRAMS = [_scan, _scan_from_zero, _reversed_nest, _cond, _jit, _loop_of_calls]


def _linearized(f, wrt):
    program = jt.make_jaxpr(f)(X, W)
    return linearize_jaxpr(program, wrt), vjp_jaxpr(program, wrt)


@pytest.mark.parametrize("wrt", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("f", PROGRAMS)
def test_rule_is_the_jvp_rule_partially_evaluated(f, wrt, monkeypatch):
    (primal, linear, n_res), pullback = _linearized(f, wrt)
    monkeypatch.setattr(linearize_rules, "rules", {})
    (primal2, linear2, n_res2), pullback2 = _linearized(f, wrt)
    assert count_eqns(primal.jaxpr) <= count_eqns(primal2.jaxpr)
    assert count_eqns(linear.jaxpr) <= count_eqns(linear2.jaxpr)
    assert count_eqns(pullback.jaxpr) <= count_eqns(pullback2.jaxpr)

    tangents = [t for t, w in zip((X * X, np.float32(2)), wrt, strict=True) if w]

    def results(primal, linear, n_res):
        outs = jt.eval_jaxpr(primal, [X, W])
        residuals = outs[len(outs) - n_res :]
        return [*outs[: len(outs) - n_res], *jt.eval_jaxpr(linear, [*residuals, *tangents])]

    ours, theirs = results(primal, linear, n_res), results(primal2, linear2, n_res2)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


UNKNOWN_PRIMAL = """
{ lambda ; a:f32[6]. let
    b:f32[5] c:f32[5] = reduce_window[
      base_dilation=(1,)
      consts=()
      jaxpr={ lambda ; e:f32[] f:f32[] g:f32[] h:f32[]. let
          i:f32[] = add e g
          j:f32[] = mul f h
        in (i, j) }
      padding=((0, 0),)
      window_dilation=(1,)
      window_dimensions=(2,)
      window_strides=(1,)
    ] a a 0.0:f32[] 1.0:f32[]
    d:f32[5] = jit[name=f jaxpr={ lambda ; k:f32[5]. let l:f32[5] = sin k in (l,) }] b
    m:f32[6] = mul a a
  in (RESULT,) }
"""


def test_a_primal_that_is_not_known_takes_the_jvp_rule():
    primal, _, n_res = linearize_jaxpr(jt.parse(UNKNOWN_PRIMAL.replace("RESULT", "m")))
    assert [e.primitive.name for e in primal.eqns] == ["mul"]
    assert n_res == 1


def test_a_result_that_is_not_known_is_refused():
    with pytest.raises(jt.UnsupportedError, match="result 0 has no value without tangents"):
        linearize_jaxpr(jt.parse(UNKNOWN_PRIMAL.replace("RESULT", "d")))


@pytest.mark.parametrize("follower", ["neg", "sin"])
def test_a_refusal_names_the_primitive_whatever_comes_after_it(follower):
    refused = 0
    for program in (p for programs in seeds().values() for p in programs if len(p.eqns) == 1):
        types = [x.aval for x in program.jaxpr.outs]
        if not all(isinstance(t, ShapedArray) and t.dtype.kind == "f" for t in types):
            continue
        try:
            linearize_jaxpr(program)
        except jt.JaxprToolError as e:
            refused += 1
            made = [Var(t) for t in types]
            op = getattr(lax, follower).primitive
            after = [
                JaxprEqn(op, [x], {k: p.default for k, p in op.params.items()}, [v])
                for x, v in zip(program.jaxpr.outs, made, strict=True)
            ]
            eqns = [*program.eqns, *after]
            longer = program.replace(jaxpr=program.jaxpr.replace(eqns=eqns, outs=made))
            with pytest.raises(jt.JaxprToolError) as found:
                linearize_jaxpr(longer)
            assert found.value.diagnostics[0].message == e.diagnostics[0].message
    assert refused >= 12


def test_a_refusal_says_that_the_operation_is_inside():
    program = jt.parse("""\
{ lambda ; a:f32[4]. let
    b:f32[3] = remat2[
      differentiated=False
      jaxpr={ lambda ; c:f32[4]. let
          d:f32[3] = reduce_window[
            jaxpr={ lambda ; e:f32[] f:f32[]. let g:f32[] = mul e f; h:f32[] = sin g in (h,) }
            consts=()
            window_dimensions=(2,)
            window_strides=(1,)
            padding=((0, 0),)
            base_dilation=(1,)
            window_dilation=(1,)
          ] c 0.0:f32[]
        in (d,) }
      policy=None
      prevent_cse=True
    ] a
  in (b,) }""")
    with pytest.raises(jt.UnsupportedError, match="the jvp rule of an operation in remat2"):
        vjp_jaxpr(program)


def test_what_is_live_is_not_made_again():
    program = jt.parse(
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a; d:f32[] = cos b; e:f32[] = exp a in (c, d) }"
    )
    live, used = dce_jaxpr(program.jaxpr)
    assert [e.primitive.name for e in live.eqns] == ["sin", "cos"] and used == [True, True]
    assert dce_jaxpr(live)[0] is live
    fewer, used = dce_jaxpr(live, [True, False])
    assert [e.primitive.name for e in fewer.eqns] == ["sin"] and used == [True, False]
    kept, used = dce_body(jt.ClosedJaxpr(live), [False, True])
    assert len(kept.in_binders) == 2 and used == [False, True]
