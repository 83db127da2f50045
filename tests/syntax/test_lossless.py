"""What JAX's print drops has a place in our files: constants, weak types, hidden params, comments."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Var
from jaxprtool.syntax.consts import ArrayRef, ArrayText
from jaxprtool.syntax.parse import parse, parse_file
from jaxprtool.syntax.print import format_file, format_jaxpr

TEXT = """\
# made by hand
{ lambda a:f32[2,2] k:key<fry>[] q:bool[2]; b:f32[2,2] w:f32[]. let
    # a sum
    c:f32[2,2] = add a b  # of both
    d:f32[2,2] = jit[
      name=f
      inline=True
      jaxpr={ lambda e:c64[1] f:f32[]; g:f32[2,2]. let
          h:f32[2,2] = mul g 2.0:f32[]~
          i:f32[] = neg f
        in (h,) }
        where e = [(1+2j)]
              f = nan
              weak i
    ] c
    # the end
  in (d, w) }
where a = [[1.0, -inf], [1e-45, -0.0]]
      k = [1, 2]
      q = npz("w.npz", "q")
      weak w
# after"""


def test_everything_comes_back():
    assert format_jaxpr(parse(TEXT), lossless=True) == TEXT


def test_values_of_constants():
    program = parse(TEXT)
    assert program.consts[0].tolist() == [[1.0, -np.inf], [1e-45, -0.0]]
    assert program.consts[1] == ArrayText([1, 2], (), program.jaxpr.const_binders[1].aval.dtype)
    assert program.consts[2] == ArrayRef(
        "w.npz", "q", (2,), program.jaxpr.const_binders[2].aval.dtype
    )
    inner = program.eqns[1].params["jaxpr"]
    assert inner.consts[0].tolist() == [1 + 2j]
    assert np.isnan(inner.consts[1].tolist())


def test_weak_types():
    program = parse(TEXT)
    assert [v.aval.weak_type for v in program.jaxpr.in_binders] == [False, True]
    mul, neg = program.eqns[1].params["jaxpr"].eqns
    assert mul.inputs[1].aval.weak_type and not mul.inputs[0].aval.weak_type
    assert neg.out_binders[0].aval.weak_type


def test_jax_s_style_leaves_them_out():
    text = format_jaxpr(parse(TEXT))
    assert "weak" not in text and "~" not in text and "inline" not in text
    assert "where a = [[1.0" in text


def test_comments_belong_to_equations():
    program = parse(TEXT)
    assert program.eqns[0].comments == ("# a sum", "# of both")
    assert program.eqns[1].comments is None
    assert program.jaxpr.comments == {
        "head": ["# made by hand"],
        "tail": ["# the end"],
        "end": ["# after"],
    }


def test_unknown_values_stay_unknown():
    program = parse("{ lambda a:f32[2]; . let  in (a,) }")
    assert program.consts == (None,)
    assert format_jaxpr(program, lossless=True) == "{ lambda a:f32[2]; . let  in (a,) }"


DTYPES = [
    "bool",
    "i8",
    "i64",
    "u8",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "f8_e4m3fn",
    "i4",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_type_come_back_exactly(dtype):
    import ml_dtypes

    program = parse(f"{{ lambda a:{dtype}[2,3]; . let  in (a,) }}")
    name = program.jaxpr.const_binders[0].aval.dtype.name
    numpy_type = np.dtype(getattr(ml_dtypes, name, None) or name)
    values = np.random.default_rng(0).normal(size=(2, 3)) * 3
    if numpy_type.kind == "c":
        values = values + 1j * values[::-1]
    array = (np.abs(values) if numpy_type.kind == "u" else values).astype(numpy_type)
    text = format_jaxpr(ClosedJaxpr(program.jaxpr, [array]), lossless=True)
    again = parse(text).consts[0]
    assert np.array_equal(np.array(again.tolist()).astype(numpy_type), array)
    assert format_jaxpr(parse(text), lossless=True) == text


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (0, 3), (2, 0)])
@pytest.mark.parametrize("dtype", ["f32", "i8", "bool", "c64", "float0", "key<fry>"])
def test_what_is_read_is_printed_as_it_was(shape, dtype):
    program = parse(f"{{ lambda a:{dtype}[{','.join(map(str, shape))}]; . let  in (a,) }}")
    kinds = {"float0": jt.float0, "key<fry>": np.uint32, "f32": "f4", "i8": "i1", "c64": "c8"}
    value = np.zeros((*shape, 2) if "key" in dtype else shape, kinds.get(dtype, dtype))
    held = jt.KeyArray("fry", value) if "key" in dtype else value
    text = format_jaxpr(ClosedJaxpr(program.jaxpr, [held]), lossless=True)
    assert format_jaxpr(parse(text), lossless=True) == text


def test_constants_of_no_values_take_no_memory():
    shape = (100_000, 100_000)
    program = parse("{ lambda a:float0[100000,100000]; b:f32[]. let  in (a, b) }")
    held = ClosedJaxpr(program.jaxpr, [np.zeros(shape, jt.float0)])
    text = format_jaxpr(held, lossless=True)
    assert 'where a = base64("float0[100000,100000]", "")' in text
    again = parse(text)
    assert format_jaxpr(again, lossless=True) == text
    assert jt.eval_jaxpr(again, [np.float32(1)])[0].shape == shape
    assert jt.hash_program(again) == jt.hash_program(held)
    assert "constant dense<false> : tensor<100000x100000xi1>" in str(jt.lower(again))


NAMED = """\
# known at compile time
known = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
# the rest
unknown = let f = { lambda ; a:f32[]. let b:f32[] = cos a in (b,) } in
{ lambda ; c:f32[]. let
    d:f32[] = jit[name=f jaxpr=f] c
    e:f32[] = jit[name=f jaxpr=f] d
  in (e,) }
"""


def test_named_programs():
    programs = parse_file(NAMED)
    assert list(programs) == ["known", "unknown"]
    assert format_file(programs) == NAMED


def test_a_single_program_has_no_name():
    assert list(parse_file("{ lambda ; . let  in () }")) == [""]


def test_constants_do_not_run_into_the_next_program():
    text = "a = { lambda b:f32[]; . let  in (b,) }\nwhere b = 1.0\nb = { lambda ; . let  in () }\n"
    assert format_file(parse_file(text)) == text


def test_a_call_with_results_that_nobody_reads():
    """JAX names such results of the body `_`, also where the body returns them again."""
    text = (
        "{ lambda ; a:f32[]. let\n    _:f32[] b:f32[] = jit[\n      name=f\n"
        "      jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c; e:f32[] = cos c in (d, d) }\n"
        "    ] a\n  in (b,) }"
    )
    program = parse(text)
    for eqn in (program.jaxpr, program.jaxpr.eqns[0].params["jaxpr"].jaxpr):
        for v in [*eqn.in_binders, *[v for e in eqn.eqns for v in e.out_binders]]:
            amend(v, name=None)  # so that the printer names them
    printed = format_jaxpr(program, lossless=True)
    inner = parse(printed).jaxpr.eqns[0].params["jaxpr"].jaxpr
    assert inner.outs == (inner.eqns[0].out_binders[0],) * 2
    assert format_jaxpr(parse(printed), lossless=True) == printed


def test_a_line_of_the_version_inside_a_text_is_no_comment():
    text = "# jaxprtool format 1\n{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }\n"
    assert format_file(parse_file(f"# first\n{text}")) == f"# first\n{text.partition(chr(10))[2]}"
    inside = text.replace("let ", f"let\n{text.partition(chr(10))[0]}\n    ")
    assert format_file(parse_file(inside)) == text.partition("\n")[2]


def test_a_call_whose_result_is_a_variable_inside_it():
    """Jaxprs may share variables; where the jaxpr of the call gives another result than that, both have names of their own."""
    called = jt.parse(
        "{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }] a in (b,) }"
    )
    (call,) = called.eqns
    inner = call.params["jaxpr"]
    (sine,) = inner.eqns
    one, more = Var(sine.out_binders[0].aval), Var(sine.out_binders[0].aval)
    eqns = [sine.replace(out_binders=[one]), sine.replace(inputs=[one], out_binders=[more])]
    inner = inner.replace(jaxpr=inner.jaxpr.replace(eqns=eqns, outs=[more]))
    call = call.replace(out_binders=[one], params={**call.params, "jaxpr": inner})
    program = called.replace(jaxpr=called.jaxpr.replace(eqns=[call], outs=[one]))
    again = parse(format_jaxpr(program, lossless=True))
    assert jt.diff(again, program).equal
    x = np.float32(0.5)
    assert jt.eval_jaxpr(again.jaxpr, [x])[0] == np.sin(np.sin(x))
