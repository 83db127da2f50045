"""The traps in printed jaxprs: words that are variables, layout that means something, results named `_`."""

from __future__ import annotations

import pytest

from jaxprtool.ir.avals import AbstractToken, AxisGroups, RefType, ShapedArray, SymbolicDim
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Lit, Var
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr
from jaxprtool.syntax.printing.naming import base26
from tests.timing import assert_growth

UNCHANGED = {
    "variable named in": "{ lambda ; in:f32[3]. let io:f32[3] = add in 1.0:f32[] in (in, io) }",
    "in before a complex literal": """\
{ lambda ; in:c64[3]. let
    io:c64[3] = mul in (1+2j):c64[]
    ip:c64[93] = concatenate[dimension=0] in io in io in io in io in io in io in
      io in io in io in
  in (io, in, ip) }""",
    "inf and nan": "{ lambda ; inf:f32[] let:f32[]. let a:f32[] = f inf nan:f32[] let in (a,) }",
    "primitives named in and let": "{ lambda ; a:i32[]. let b:i32[] = in[x=1] a; c:i32[] = let b in (c,) }",
    "hyphens and dots": "{ lambda ; a:f32[]. let b:f32[] = my-prim.v2:fancy[x=1] a in (b,) }",
    "no operands": "{ lambda ; a:f32[]. let b:Tok = create_token ; _:Tok = after_all b in (a,) }",
    "nothing": "{ lambda ; . let  in () }",
    "no results": "{ lambda ; a:f32[]. let thing[x=1] a; other a a in () }",
    "float0": "{ lambda ; . let a:float0[3] = broadcast_in_dim (b'',):float0[] in (a,) }",
    "types": (
        "{ lambda a:key<fry>[2]; b:f32<host>[3] c:f32[8@x,4@(y,z)] d:f32[4]{V:i} e:Tok f:Ref<vmem>{f32[8,128]}\n"
        "    g:f32[floordiv(a, 2),2*a + 1] h:f32[2]{V:(x,y), R:z}. let\n"
        "    \n  in () }"
    ),
    "references": """\
{ lambda ; a:Ref{f32[8,4]} i:i32[] b:f32[4]. let
    c:f32[4] <- a[i,:]
    d:f32[4,4] <- a[i:i+4,:]
    a[...] <- d
    e:f32[4], a[0,:] <- a[0,:], b
    a[i:i+4,:] += 2.0:f32[]
    f:f32[8,4] <- a[:8,:] mask=d other=0.0:f32[]
    g:f32[2,4] <- a{reshape([4, 2, 4])}[0,:,:]
    dma_start(p0) a[...] -> a[i] c[...]
  in (e,) }""",
    "kernels on one line": (
        "{ lambda ; a:Ref{f32[8]} b:Ref{f32[8]} c:Ref<semaphore_mem>{dma_sem[]}. let\n"
        "    run_scoped[\n"
        "      collective_axes=()\n"
        "      jaxpr={ lambda d:Ref{f32[8]}; . let dma_wait d[...] d[0] in () }\n"
        "      ref_transforms=()\n"
        "    ] a\n"
        "  in () }"
    ),
    "odd definitions": """\
let f g=h {x} ; [y] = { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) } in
{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=f g=h {x} ; [y] jaxpr=f g=h {x} ; [y]] a
    c:f32[3] = jit[name=f g=h {x} ; [y] jaxpr=f g=h {x} ; [y]] b
  in (c,) }""",
    "definitions used before": """\
let outer = { lambda ; a:f32[]. let
    b:f32[] = jit[name=inner jaxpr=inner] a
  in (b,) } in
let inner = { lambda ; c:f32[]. let d:f32[] = sin c in (d,) } in
{ lambda ; e:f32[]. let
    f:f32[] = jit[name=outer jaxpr=outer] e
    g:f32[] = jit[name=inner jaxpr=inner] f
  in (g,) }""",
    "jaxprs by name in a tuple": """\
let jaxpr = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in
{ lambda ; c:i32[] d:f32[]. let
    e:f32[] = cond[
      branches=(
        { lambda ; f:f32[]. let
            g:f32[] = cos f
            h:f32[] = cos g
            i:f32[] = cos h
          in (i,) }
        jaxpr
      )
    ] c d
    j:f32[] = cond[branches=(jaxpr jaxpr)] c e
  in (j,) }""",
}


@pytest.mark.parametrize("case", UNCHANGED)
def test_unchanged(case):
    assert format_jaxpr(parse(UNCHANGED[case])) == UNCHANGED[case]


ACCEPTED = {
    "indented anew": "{ lambda ; a:f32[3]. let\n b:f32[3] = sin a\n c:f32[] = reduce_sum[\n  axes=(0,)\n  out_sharding=None\n ] b\n in (c,) }",
    "semicolons over lines": "{ lambda ; a:f32[3].\nlet b:f32[3] = sin a ;\n c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b ; in (c,) }",
    "long types": "{ lambda ; a:float32[3]. let b:float32[3] = sin a; c:float32[] = reduce_sum[axes=(0,) out_sharding=None] b in (c,) }",
    "keys in any order": (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[] = reduce_sum[out_sharding=None axes=(0,)] b in (c,) }"
    ),
    "params beside one another": (
        "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n    c:f32[] = reduce_sum[\n"
        "      out_sharding=None axes=(0,)\n    ] b\n  in (c,) }"
    ),
    "carriage returns": "{ lambda ; a:f32[3]. let\r\n    b:f32[3] = sin a\r\n    c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b\r\n  in (c,) }\r\n",
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_other_layouts_are_accepted(case):
    assert format_jaxpr(parse(ACCEPTED[case])) == (
        "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n"
        "    c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b\n  in (c,) }"
    )


def test_a_text_in_block_layout_may_look_like_params():
    text = (
        "{ lambda ; a:f32[3]. let\n    debug_print[\n      fmt=values ordered=True partitioned=True {}\n"
        "      in_tree=None\n      ordered=False\n    ] a\n  in () }"
    )
    params = parse(text).eqns[0].params
    assert str(params["fmt"]) == "values ordered=True partitioned=True {}"
    assert params["ordered"] is False


def test_a_dropped_result_that_is_returned():
    program = parse(
        "{ lambda ; a:f32[3]. let _:i32[] b:f32[3] _:f32[3] = jit[name=f jaxpr={ lambda ; a:f32[3]. let "
        "_:f32[3] = neg a; b:f32[3] = mul a 2.0:f32[]; _:i32[] = count a in (_, b, _) }] a in (b,) }"
    )
    inner = program.eqns[0].params["jaxpr"].jaxpr
    assert [str(x.aval) for x in inner.outs] == ["i32[]", "f32[3]", "f32[3]"]
    assert inner.outs[0] is inner.eqns[2].out_binders[0]
    assert not any(isinstance(x, DropVar) for x in inner.outs)


def test_types():
    program = parse(
        "{ lambda ; a:f32[2*n + 1,m] b:Ref<vmem>{f32[3]} c:Tok d:f32<host>[8@x,4]{V:i}. let  in () }"
    )
    a, b, c, d = program.in_avals
    assert a.shape == (SymbolicDim("2*n + 1"), SymbolicDim("m"))
    assert isinstance(b, RefType) and b.space == "vmem"
    assert c is AbstractToken()
    assert isinstance(d, ShapedArray)
    assert (d.shape, d.memory, d.spec, d.vary) == ((8, 4), "host", (("x",), ()), AxisGroups(["i"]))


def test_literals():
    eqn = parse(
        "{ lambda ; . let a:f32[] = f 1.0:f32[] True:bool[] -7:i64[] (nan-1j):c64[] 18446744073709551615:u64[] "
        "-inf:f32[] 1e-30:bf16[] in (a,) }"
    ).eqns[0]
    values = [x.val for x in eqn.inputs]
    assert all(isinstance(x, Lit) for x in eqn.inputs)
    assert values[:3] + values[4:] == [1.0, True, -7, 18446744073709551615, float("-inf"), 1e-30]
    assert [type(v) for v in values] == [float, bool, int, complex, int, float, float]


def test_a_variable_wins_over_a_literal_like_name():
    eqn = parse("{ lambda ; nan:f32[]. let a:f32[] = neg nan in (a,) }").eqns[0]
    assert isinstance(eqn.inputs[0], Var)


def test_base26():
    assert [base26(n) for n in (0, 25, 26, 51, 52, 221, 675, 676)] == [
        "a", "z", "ba", "bz", "ca", "in", "zz", "baa",
    ]  # fmt: skip


def nested(depth: int) -> str:
    inner = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    return (
        "{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=" * depth
        + inner
        + "] a in (b,) }" * depth
    )


def test_nesting_a_thousand_deep():
    program = parse(nested(1000))
    text = format_jaxpr(program)
    assert format_jaxpr(parse(text)) == text
    for v in program.jaxpr.in_binders:
        amend(v, name=None)
    assert len(format_jaxpr(program)) == len(text)


def test_a_long_program_is_linear():
    def text_of(n):
        text = "{ lambda ; a:f32[]. let\n" + "".join(
            f"    {base26(i + 1)}:f32[] = add {base26(i)} 1.0:f32[]\n" for i in range(n)
        )
        return text + f"  in ({base26(n)},) }}"

    def round_trip(text):
        assert format_jaxpr(parse(text)) == text

    assert_growth(text_of, round_trip, 2_000, 20_000, 30)


def test_a_name_that_is_that_of_a_jaxpr_too():
    text = (
        "let f = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in\n"
        "{ lambda ; c:f32[]. let d:f32[] = odd[name=f jaxpr=f] c in (d,) }"
    )
    (eqn,) = parse(text).jaxpr.eqns
    assert eqn.params["name"] == "f" and isinstance(eqn.params["jaxpr"], ClosedJaxpr)


SCALARS = {
    "f32": ["1.0", "-1.5", "inf", "-inf", "nan"],
    "i32": ["1", "-3"],
    "bool": ["True", "False"],
    "c64": [
        "1j",
        "-1j",
        "infj",
        "-infj",
        "nanj",
        "(1+2j)",
        "(-0+infj)",
        "(nan-infj)",
        "(inf+nanj)",
    ],
    "c128": ["infj", "nanj"],
    "bf16": ["inf", "nan"],
}


@pytest.mark.parametrize(("kind", "word"), [(k, w) for k, ws in SCALARS.items() for w in ws])
def test_a_literal_is_read_where_nothing_else_has_its_type(kind, word):
    text = f"{{ lambda ; a:u8[]. let b:u8[] = f {word}:{kind}[] in (b,) }}"
    program = parse(text)
    assert str(program.eqns[0].inputs[0]) == f"{word}:{kind}[]"
    assert str(parse(str(program))) == str(program)
