"""Types that a text leaves out are found again: those of literals, and those of binders."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.infer import UntypedWarning
from tests.syntax.programs import CASES, traced

LITERAL = re.compile(
    r"(?<=[ ,(])(-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)|True|False|\([^ ()]*j\)|-?\d[\d.]*j|\(b'',\))"
    r":[a-z]\w*\[\]"
)


def literals(text: str) -> list[str]:
    """The operands and results of the equations of a program, where they are literals."""
    jaxpr = jt.parse(text).jaxpr
    atoms = [*(x for eqn in all_eqns(jaxpr) for x in eqn.inputs), *jaxpr.outs]
    return [repr(x) for x in atoms if isinstance(x, jt.Lit)]


@pytest.mark.parametrize("name", CASES)
def test_literals_of_traced_programs(name):
    """What the installed JAX prints, less the types of literals, is the same program."""
    text = str(traced(name))
    assert same_program(jt.parse(LITERAL.sub(r"\1", text)), jt.parse(text))


NAMED = "{{ lambda ; a:{0}[3] b:{0}[]. let {1} in (c,) }}"


@pytest.mark.parametrize(
    "dtype", ["f16", "bf16", "f32", "f64", "f8_e4m3fn", "i8", "u8", "i64", "u32"]
)
@pytest.mark.parametrize(
    "equation",
    [
        "c:{0}[3] = add a 2{1}",
        "c:{0}[3] = max 2{1} a",
        "c:bool[3] = gt a 2{1}",
        "c:{0}[] = mul 2{1} 2{1}",
        "c:{0}[3] = clamp 0{1} a 2{1}",
        "c:{0}[4] = pad[padding_config=((0, 1, 0),)] a 0{1}",
        "c:{0}[2] = broadcast_in_dim[broadcast_dimensions=() shape=(2,)] 2{1}",
        "c:{0}[1] = dynamic_slice[slice_sizes=(1,)] a 2",
        "c:{0}[] = select_n True b 2{1}",
        "c:{0}[] = jit[jaxpr={{ lambda ; x:{0}[] y:i32[]. let  in (x,) }} name=f] 2{1} 1",
        "c:{0}[] = cond[branches=({{ lambda ; x:{0}[]. let  in (x,) }} {{ lambda ; x:{0}[]. let  in (1{1},) }})] 1 2{1}",
        "c:{0}[] d:{0}[3] = scan[jaxpr={{ lambda ; x:{0}[] y:{0}[]. let  in (0{1}, x) }} length=3 num_carry=1 num_consts=0] 2{1} a",
    ],
)
def test_literals_take_the_type_that_fits(dtype, equation):
    point = ".0" if "f" in dtype else ""
    program = jt.parse(NAMED.format(dtype, equation.format(dtype, point)))
    jt.typecheck_jaxpr(program)
    kinds = set(re.findall(r":(\w+)\[\]", " ".join(literals(str(program)))))
    assert dtype in kinds or "dynamic_slice" in equation
    assert kinds <= {dtype, "i32", "bool"}


@pytest.mark.parametrize(
    "text, want",
    [
        ("{ lambda ; . let  in (1.0, 2, True, 1j) }", ["1.0:f32[]", "2:i32[]", "True:bool[]", "1j:c64[]"]),
        ("{ lambda ; . let  in (3000000000, 1e300) }", ["3000000000:u32[]", "1e+300:f64[]"]),
        ("{ lambda ; . let a:bool[] = eq 1 2 in (a,) }", ["1:i32[]", "2:i32[]"]),
        ("{ lambda ; a:f32[]. let b:f32[] = pow a 2 in (b,) }", ["2:i32[]"]),
        ("{ lambda ; a:f32[]. let b:f32[] = mul a 2 in (b,) }", ["2.0:f32[]"]),
        ("{ lambda ; . let b:f32[] = mul inf nan in (b, -inf) }", ["inf:f32[]", "nan:f32[]", "-inf:f32[]"]),
        ("{ lambda ; inf:f32[]. let b:f32[] = mul inf inf in (b,) }", []),
        ("{ lambda ; a:u8[9]. let b:u8[1] = dynamic_slice[slice_sizes=(1,)] a 5 in (b,) }", ["5:i32[]"]),
        ("{ lambda ; a:Ref{f64[]}. let a[] <- 1.0 in () }", ["1.0:f64[]"]),
        ("c:f64[] = mul b 2.0", ["2.0:f64[]"]),
    ],
)  # fmt: skip
def test_literals_by_themselves(text, want):
    assert literals(text) == want


def test_a_literal_that_fits_nowhere_is_the_checker_s_business():
    program = jt.parse("{ lambda ; a:i32[3]. let b:i32[3] = add a 1.5 in (b,) }", "x")
    with pytest.raises(jt.JaxprTypeError) as caught:
        jt.typecheck_jaxpr(program)
    assert "x:1:26" in str(caught.value)


def test_results_of_a_literal_s_own_jaxpr():
    """The type of a literal among the results is that of the binder that takes it, in a definition as well."""
    program = jt.parse(
        "let f = { lambda ; a:f16[]. let  in (a, 2.0) } in\n"
        "{ lambda ; a:f16[]. let b:f16[] c:f16[] = pjit[name=f jaxpr=f] a in (b, c) }"
    )
    jt.typecheck_jaxpr(program)


TYPED = """\
{ lambda ; a:f32[8] b:f32[4,8]. let
    c:f32[8] = while[
      body_jaxpr={ lambda ; d:f32[8] e:f32[8]. let f:f32[8] = add d e in (f,) }
      body_nconsts=1
      cond_jaxpr={ lambda ; g:f32[8]. let
          h:f32[] = reduce_sum[axes=(0,) out_sharding=None] g
          i:bool[] = lt h 9.0:f32[]
        in (i,) }
      cond_nconsts=0
    ] a a
    j:f32[8] k:f32[4,8] = scan[
      jaxpr={ lambda ; l:f32[8] m:f32[8]. let
          n:f32[8] = custom_jvp_call[
            name=g
            call_jaxpr={ lambda ; o:f32[8]. let p:f32[8] = sin o in (p,) }
            jvp=g_jvp
            symbolic_zeros=False
          ] l
          q:f32[8] = mul m n
        in (q, n) }
      length=4
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] c b
    r:f32[] s:i32[] = cond[
      branches=(
        { lambda ; t:f32[8]. let  in (0.0:f32[], 1:i32[]) }
        { lambda ; u:f32[8]. let v:f32[] = reduce_max[axes=(0,)] u in (v, 2:i32[]) }
      )
    ] 1:i32[] j
  in (r, k, s) }"""


@pytest.mark.filterwarnings("ignore::jaxprtool.syntax.infer.UntypedWarning")
def test_binders_inside_of_loops_branches_and_calls():
    head, body = TYPED.split(". let", 1)
    untyped = head + ". let" + re.sub(r"\b([a-z]):\w+\[[\d,]*\]", r"\1", body)
    assert "let f = add d e in" in untyped
    assert same_program(jt.parse(untyped), jt.parse(TYPED))
    assert same_program(jt.parse(LITERAL.sub(r"\1", untyped)), jt.parse(TYPED))


def test_equations_over_several_lines_and_without_results():
    program = jt.parse(
        "{ lambda ; a:f32[3] r:Ref{f32[3]}. let\n"
        "    b c\n      d = f\n    free_ref r\n    e = sin a\n  in (e,) }".replace(
            "b c\n      d = f", "b c\n      = top_k[axis=0 k=2] a"
        )
    )
    assert [e.primitive.name for e in program.eqns] == ["top_k", "free_ref", "sin"]
    assert [str(v.aval) for v in program.eqns[0].out_binders] == ["f32[2]", "i32[2]"]


def test_jaxprs_nested_deeper_than_the_stack():
    depth = 2000
    text = "{ lambda ; a:f32[]. let " + "b = jit[name=f jaxpr={ lambda ; a. let " * depth
    text += "b = mul a 2.0" + " in (b,) }] a" * depth + " in (b,) }"
    program = jt.parse(text)
    assert str(program.jaxpr.outs[0].aval) == "f32[]"


def test_a_body_used_by_many_is_inferred_once():
    lines = ["let f0 = { lambda ; a. let b = mul a 2.0 in (b,) } in"]
    for i in range(1, 40):
        body = f"b = jit[name=f jaxpr=f{i - 1}] a; c = jit[name=f jaxpr=f{i - 1}] b"
        lines.append(f"let f{i} = {{ lambda ; a. let {body} in (c,) }} in")
    lines.append("{ lambda ; a:f32[]. let b = jit[name=f jaxpr=f39] a in (b,) }")
    jt.typecheck_jaxpr(jt.parse("\n".join(lines)))


@pytest.mark.parametrize(
    "equation",
    [
        "b = scan[jaxpr=<function f at 0x7f0> length=3 num_carry=1 num_consts=0] a",
        "b = scan[jaxpr={ lambda ; x. let  in (x,) } length=3 num_carry=None num_consts=0] a",
        "b = cond[branches=7] a a",
        "b = cond[branches=({ lambda ; x. let  in (x,) } )] ",
        "b = while[body_jaxpr=None body_nconsts=0 cond_jaxpr={ lambda ; x. let  in (True,) } cond_nconsts=0] a",
        "b = xla_pmap[axis_name=i axis_size=3 call_jaxpr={ lambda ; x. let  in (x,) } in_axes=(0, 0) out_axes=(0,)] a",
        "b = shard_map[jaxpr={ lambda ; x. let  in (x,) }] a",
        "b = jit[jaxpr={ lambda ; x y. let  in (x,) } name=f] a",
    ],
)
def test_params_that_do_not_fit(equation):
    """An error at a place, whatever stands in the params."""
    with pytest.raises(jt.JaxprToolError) as caught:
        jt.typecheck_jaxpr(jt.parse(f"{{ lambda ; a:f32[3]. let {equation} in (b,) }}", "x"))
    assert str(caught.value).startswith("x:1:")


def test_a_type_that_nothing_tells_is_said_to_be_a_guess():
    head = "{ lambda ; a:f64[3]. let "
    for equation, guess in (
        ("b = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] 1", "1 .* i32"),
        ("b = add 1.0 2.0", "1.0 .* f32"),
    ):
        with pytest.warns(UntypedWarning, match=f"x:1:26: the type of {guess}"):
            jt.parse(f"{head}{equation} in (b,) }}", "x")
    for equation in (
        "b = add a 1.0",
        "b = lt 1.0 2.0",
        "b:f32[] = add 1.0 2.0",
        "b = add 1.0:f32[] 2.0",
        "b = dynamic_slice[slice_sizes=(1,)] a 1",
        "b = integer_pow[y=2] a",
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jt.parse(f"{head}{equation} in (b,) }}", "x")


GUESSED = "d = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] 0"
HOLDING = {
    "jit": "e = jit[name=f jaxpr={ lambda ; k l. let m = add l k in (m,) }] d a",
    "cond": "e = cond[branches=({ lambda ; k l. let m = add k l in (m,) } { lambda ; k l. let m = mul k l in (m,) })] p d a",
    "while": """e f = while[
      body_jaxpr={ lambda ; k l. let m = mul k l in (m, l) }
      body_nconsts=0
      cond_jaxpr={ lambda ; k l. let m = reduce_max[axes=(0,)] k; n = lt m 9 in (n,) }
      cond_nconsts=0
    ] d a""",
    "scan": """g = broadcast_in_dim[broadcast_dimensions=() shape=()] 1
    f e = scan[
      jaxpr={ lambda ; k l. let m = mul k l in (m, m) }
      length=3
      linear=(False, False)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] g a""",
    "scatter": """e = scatter[
      dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
      indices_are_sorted=False
      mode=GatherScatterMode.FILL_OR_DROP
      unique_indices=False
      update_consts=()
      update_jaxpr={ lambda ; k l. let  in (l,) }
    ] d i a""",
}


def guessed(name: str) -> str:
    head = "{ lambda ; a:u8[3] p:i32[] i:i32[3,1]. let\n    "
    return f"{head}{GUESSED}\n    {HOLDING[name]}\n  in (e,) }}\n"


@pytest.mark.parametrize("name", HOLDING)
def test_a_guess_gives_way_to_what_holds_jaxprs(name):
    """What is made of literals alone has the type that an operation with jaxprs inside needs, and nothing is said to be a guess."""
    with warnings.catch_warnings():
        warnings.simplefilter("error" if name != "scan" else "ignore")
        program = jt.parse(guessed(name))
    jt.typecheck_jaxpr(program)
    assert str(program.jaxpr.outs[0].aval) == "u8[3]"


@pytest.mark.parametrize("name", HOLDING)
def test_formatted_programs_have_the_types_that_are_found(name, tmp_path):
    """In a process that has checked nothing before, as `fmt` is one."""
    file = tmp_path / "x.jaxpr"
    file.write_text(guessed(name))
    done = subprocess.run(
        [sys.executable, "-m", "jaxprtool", "fmt", str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "d:u8[3] = broadcast_in_dim 0:u8[]" in done.stdout or name == "scan"
    jt.typecheck_jaxpr(jt.parse(done.stdout))


def test_what_types_do_not_say_stays_in_the_text():
    """A result without a type does not say its shape, so that the param does; where it does, the param goes, as in JAX."""
    text = "{ lambda ; a. let d = broadcast_in_dim[shape=(3,)] 0; e = add d a in (e,) }"
    assert "broadcast_in_dim[shape=(3,)] 0" in jt.format_jaxpr(jt.parse(text))


def test_a_guess_gives_way_wherever_it_has_been_used():
    """Values of literals alone have one type, though several equations make them (jax.random.fold_in of 0.2.24)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = jt.parse(
            """{ lambda ; a:u32[2]. let
    b = add 7 0
    c = shift_right_logical b 32
    d = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] c
    e = and b 4294967295
    f = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] e
    g = concatenate[dimension=0] d f
    h = add a g
  in (h,) }"""
        )
    jt.typecheck_jaxpr(program)
    (got,) = jt.eval_jaxpr(program, [np.array([1, 2], np.uint32)])
    np.testing.assert_array_equal(got, [1, 9])


def test_guesses_that_meet_give_way_together():
    """The bounds of jax.random.uniform in half precision, where no call is around them."""
    program = jt.parse(
        """{ lambda ; a:f16[4]. let
    b = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] -0.5
    c = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 1.0
    d = sub c b
    e = mul a d
    f = add e b
  in (f,) }"""
    )
    jt.typecheck_jaxpr(program)
    assert {str(v.aval.dtype) for e in program.eqns for v in e.out_binders} == {"f16"}


@pytest.mark.parametrize(
    ("zeros", "want"),
    [("zeros_like a", np.float32), ("zeros_like 0", np.int32), ("zeros_like 1.5", np.float32)],
)
def test_zeros_where_nothing_has_a_type(zeros, want):
    program = jt.parse(f"{{ lambda ; a. let b = {zeros} in (b,) }}")
    (got,) = jt.eval_jaxpr(program.jaxpr, [np.ones(3, np.float32)])
    assert got.dtype == want and not got.any()


def test_a_result_with_a_type_tells_that_of_literals():
    """Also where other results have none."""
    program = jt.parse(
        "{ lambda ; a:bf16[2]. let b:bf16[2] = sub 1 a; c = neg b; d:bool[2] = gt 0 b in (b, d) }"
    )
    jt.typecheck_jaxpr(program)
    assert str(program.eqns[0].inputs[0].aval) == "bf16[]"


def test_what_a_call_mentions_may_be_the_type_of_literals():
    """The bounds of jax.random.uniform in half precision, as releases without types print it."""
    program = jt.parse(
        "{ lambda  ; a.\n"
        "  let b = xla_call[ call_jaxpr={ lambda  ; a b c.\n"
        "                                 let d = bitcast_convert_type[ new_dtype=float16 ] a\n"
        "                                     e = broadcast_in_dim[ broadcast_dimensions=(  )\n"
        "                                                           shape=(1,) ] b\n"
        "                                     f = mul d e\n"
        "                                     g = max c b\n"
        "                                 in (f, g) }\n"
        "                    name=_uniform ] a -0.99951171875 1.0\n"
        "  in (b,) }".replace("let b =", "let b _ =")
    )
    (got,) = jt.eval_jaxpr(program.jaxpr, [np.array([15360], np.uint16)])
    assert got.dtype == np.float16 and got == np.float16(-0.99951171875)
