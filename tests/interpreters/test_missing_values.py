"""What is said of values that a program needs and its text does not hold."""

import pytest

import jaxprtool as jt
from jaxprtool.ir.jaxpr import ClosedJaxpr, Var

INNER = """{ lambda ; x:f32[2]. let
    y:f32[2] = jit[
      name=f
      jaxpr={ lambda c:f32[] d:f32[2]; a:f32[2]. let
          b:f32[2] = mul a d
        in (b,) }
    ] x
  in (y,) }"""


def without_names(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program whose inner constants have no names and no places, as those that a transformation makes."""
    (eqn,) = program.jaxpr.eqns
    inner = eqn.params["jaxpr"].jaxpr
    consts = [Var(v.aval) for v in inner.const_binders]
    to = dict(zip(inner.const_binders, consts, strict=True))
    eqns = [e.replace(inputs=[to.get(x, x) for x in e.inputs]) for e in inner.eqns]
    made = ClosedJaxpr(inner.replace(const_binders=consts, eqns=eqns), [1.0, None])
    changed = eqn.replace(params={**eqn.params, "jaxpr": made})
    return ClosedJaxpr(program.jaxpr.replace(eqns=[changed]), [])


def said(f, *args) -> str:
    with pytest.raises(jt.UsageError) as e:
        f(*args)
    return str(e.value.diagnostics[0])


def test_a_constant_is_called_by_its_name():
    program = jt.parse(INNER)
    message = "<string>:4:22: error: the value of the constant c is not in the file"
    assert said(jt.eval_jaxpr, program.jaxpr, [[1.0, 2.0]]).startswith(message)


@pytest.mark.parametrize("verb", [lambda p: jt.eval_jaxpr(p.jaxpr, [[1.0, 2.0]]), jt.lower])
def test_a_constant_without_a_name_is_told_apart_by_what_reads_it(verb):
    message = "<string>:5:11: error: the value of constant 1 of 2 (_:f32[2]) of a jaxpr, operand 1 of mul, is not in the file"
    assert said(verb, without_names(jt.parse(INNER))).startswith(message)


@pytest.mark.parametrize(
    ("text", "column", "read"),
    [
        ("{ lambda _:f32[2]; a:f32[2]. let  in (a,) }", 63, "which nothing reads"),
        ("{ lambda _:f32[2]; a:f32[2]. let  in (_,) }", 63, "its result 0"),
    ],
)
def test_a_constant_that_no_equation_reads(text, column, read):
    program = jt.parse(
        f"{{ lambda ; x:f32[2]. let y:f32[2] = jit[name=f jaxpr={text}] x in (y,) }}"
    )
    message = said(jt.eval_jaxpr, program.jaxpr, [[1.0, 2.0]])
    assert f"constant 0 of 1 (_:f32[2]) of a jaxpr, {read}," in message
    assert message.startswith(f"<string>:1:{column}:")
