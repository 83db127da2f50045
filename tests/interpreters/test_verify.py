"""Verification: a rule that makes an ill-typed jaxpr is found where it is switched on."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.core.verification import set_verify, verifying
from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.jvp import jvp_rules
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import InternalError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var

F64, F32 = ShapedArray((2,), "float64"), ShapedArray((2,), "float32")


@pytest.fixture
def off():
    before = set_verify(False)
    yield
    set_verify(before)


def wrong_result() -> Jaxpr:
    """sin of f64[2], declared to be f32[2]."""
    x, y = Var(F64), Var(F32)
    return Jaxpr([x], [JaxprEqn(lax.sin.primitive, [x], lax.sin.primitive.defaults, [y])], [y])


def test_it_is_on_in_tests():
    assert verifying()


def test_an_ill_typed_jaxpr_is_a_fault_of_ours():
    with pytest.raises(InternalError, match=r"sin gives f64\[2\]"):
        verified(wrong_result())


def test_an_ill_typed_nested_jaxpr_is_found():
    x, y = Var(F64), Var(F32)
    params = {**lax.jit_call.primitive.defaults, "jaxpr": ClosedJaxpr(wrong_result())}
    outer = Jaxpr([x], [JaxprEqn(lax.jit_call.primitive, [x], params, [y])], [y])
    with pytest.raises(InternalError, match=r"sin gives f64\[2\]"):
        verified(outer)


def test_constants_have_the_types_of_their_binders():
    c = Var(F32)
    jaxpr = Jaxpr([], [], [c], [c])
    values = jt.eval_jaxpr(
        jt.make_jaxpr(lambda: lax.iota(dtype=F64.dtype, shape=(2,), dimension=0))(), []
    )
    with pytest.raises(
        InternalError, match=r"the value of the constant .* is f64\[2\], and f32\[2\] is needed"
    ):
        verified(ClosedJaxpr(jaxpr, values))
    with pytest.raises(InternalError, match="1 constant, 0 values"):
        verified(ClosedJaxpr(jaxpr, []))
    assert verified(ClosedJaxpr(jaxpr, [None])).consts == (None,)


def test_nothing_is_checked_when_it_is_off(off):
    jaxpr = wrong_result()
    assert verified(jaxpr) is jaxpr


def test_a_rule_that_uses_a_variable_of_elsewhere_is_found(monkeypatch):
    """jvp of sin, by a rule that records an equation with an operand nobody binds."""
    program = jt.make_jaxpr(lax.sin)(F64)
    stray = jt.make_jaxpr(lax.cos)(F64).jaxpr

    def rule(primals, tangents, **_):
        y = lax.sin(primals[0])
        y._trace.eqns.append(stray.eqns[0])
        return y, tangents[0]

    assert lax.sin.primitive in jvp_rules
    monkeypatch.setitem(jvp_rules.rules, lax.sin.primitive, rule)
    with pytest.raises(InternalError, match="not bound"):
        jt.jvp_jaxpr(program)
