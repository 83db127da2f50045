"""Functions may be called anything: what `jit` prints of a name is read back, of one call and of a shared jaxpr."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program

PROGRAM = jt.parse(
    "{ lambda ; a:f64[2]. let\n"
    "    b:f64[2] = jit[name=q jaxpr={ lambda ; c:f64[2]. let d:f64[2] = sin c in (d,) }] a\n"
    "    e:f64[2] = jit[name=q jaxpr={ lambda ; f:f64[2]. let g:f64[2] = sin f in (g,) }] b\n"
    "  in (e,) }"
)

# As JAX prints them, which changes nothing.
PLAIN = [
    "f", "", "<lambda>", "f.<locals>.g", "jvp(f)", "transpose(jvp(f))", "<unnamed wrapped function>", "a-b", "é", "f[0]",
    "a b", "lambda", "let", "in", "9", "nan",
]  # fmt: skip
ODD = [
    " x", "x ", "= ", "a = b", "=", "a =", "x\ny", "{", "a]", "'", '"', "'q'", '"q"', "#", "a # b", "a #", "in (", "f }",
    ";", "a[", "\r", "\\", "jaxpr=", "a jaxpr=b", "inline=True", "(", "\t", "\x00", "\ud800", "{ lambda", "a b:f32[2]",
    "{ lambda ; a. let }", "a\u2028b", "x" * 300, "[...]", "a:f32[]", "1.0:f32[]", "where", "a\n]",
]  # fmt: skip


def calls(name: str, n: int) -> jt.ClosedJaxpr:
    """A program that calls one function of this name once or twice."""
    inner = PROGRAM.eqns[0].params["jaxpr"]
    eqns = [e.replace(params={**e.params, "name": name, "jaxpr": inner}) for e in PROGRAM.eqns[:n]]
    outs = eqns[-1].out_binders
    return PROGRAM.replace(jaxpr=PROGRAM.jaxpr.replace(eqns=eqns, outs=outs, written=None))


def check(name: str) -> None:
    for n in (1, 2):
        program = calls(name, n)
        for lossless in (True, False):
            text = jt.format_jaxpr(program, lossless=lossless)
            again = jt.parse(text)
            assert same_program(program, again), text
            assert jt.format_jaxpr(again, lossless=lossless) == text


@pytest.mark.parametrize("name", [*PLAIN, *ODD], ids=repr)
def test_a_name_is_read_back(name):
    check(name)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=6) | st.text("ab =#;,'\"()[]{}\\\n:<>", max_size=8))
@example("{ lambda")
def test_any_name_is_read_back(name):
    check(name)


@pytest.mark.parametrize("name", PLAIN, ids=repr)
def test_a_plain_name_has_no_quotes(name):
    assert f"name={name}" in str(calls(name, 1))
