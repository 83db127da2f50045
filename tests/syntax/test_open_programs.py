"""Programs without types, as the releases to 0.2.21 print them: read as they stand, typed by their arguments."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from tests.syntax.two_readers import difference

X = np.arange(1, 4, dtype=np.float32)

# A text, its arguments and what they give. The first ones are in the style of 0.2, the last ones of 0.1.
PROGRAMS = {
    "elementwise": (
        "{ lambda  ; a.\n  let b = sin a\n      c = mul b 2.0\n  in (c,) }",
        [X],
        [2 * np.sin(X)],
    ),
    "constants": (
        "{ lambda a ; b.\n  let c = mul b a\n      d = broadcast_in_dim[ broadcast_dimensions=(  )\n"
        "                            shape=(3,) ] 1.0\n      e = sub d c\n  in (e, 2, a) }",
        [X, X],
        [1 - X * X, np.int32(2), X],
    ),
    "a call with a long left side": (
        "{ lambda  ; a.\n  let b c _ =\n        xla_call[ backend=None\n"
        "                  call_jaxpr={ lambda  ; a b.\n                               let c = add a b\n"
        "                                   d = sub a b\n                               in (c, d, 1.0) }\n"
        "                  device=None\n                  donated_invars=(False, False)\n"
        "                  name=<lambda> ] a 2.0\n  in (c, b) }",
        [X],
        [X - 2, X + 2],
    ),
    "a scan whose literal is carried": (
        "{ lambda  ; a.\n  let b c = scan[ jaxpr={ lambda  ; a b.\n                          let c = add a b\n"
        "                          in (c, a) }\n                  length=3\n                  linear=(False, False)\n"
        "                  num_carry=1\n                  num_consts=0\n                  reverse=False\n"
        "                  unroll=1 ] 0.0 a\n  in (b, c) }",
        [X.astype(np.float16)],
        [np.float16(6), np.array([0, 1, 3], np.float16)],
    ),
    "a while and a cond": (
        "{ lambda  ; a.\n  let b = while[ body_jaxpr={ lambda  ; a.\n                              let b = mul a 2.0\n"
        "                              in (b,) }\n                 body_nconsts=0\n"
        "                 cond_jaxpr={ lambda  ; a.\n                              let b = lt a 50.0\n"
        "                              in (b,) }\n                 cond_nconsts=0 ] a\n      c = gt b 0.0\n"
        "      d = convert_element_type[ new_dtype=int32\n                                old_dtype=bool ] c\n"
        "      e = cond[ branches=( { lambda  ; a.\n                             let \n                             in (0.0,) }\n"
        "                           { lambda  ; a.\n                             let b = neg a\n"
        "                             in (b,) } )\n                linear=(False,) ] d b\n  in (b, e) }",
        [np.float64(3)],
        [np.float64(96), np.float64(-96)],
    ),
    "reducers": (
        "{ lambda  ; a.\n  let b = reduce[ computation=<function f at 0x7f0>\n                  consts=(  )\n"
        "                  dimensions=(0,)\n                  jaxpr={ lambda  ; a b.\n"
        "                          let c = mul a b\n                          in (c,) } ] a 1.0\n"
        "      c = top_k[ k=1 ] a\n  in (b,) }".replace("      c = top_k[ k=1 ] a\n", "      c d = top_k[ k=1 ] a\n"),
        [X],
        [np.float32(6)],
    ),
    "units": (
        "{ lambda  ; a.\n  let b _ c = xla_call[ call_jaxpr={ lambda  ; a b.\n"
        "                                     let c = sin a\n                                         _ d = scan[ jaxpr={ lambda  ; a b c.\n"
        "                                                             let d = mul b c\n"
        "                                                             in (*, d) }\n"
        "                                                     length=3\n                                                     num_carry=1\n"
        "                                                     num_consts=1 ] b * c\n"
        "                                     in (c, b, d) }\n"
        "                        name=f ] a *\n      _ _ = remat_call[ call_jaxpr={ lambda  ; a b.\n"
        "                                         let \n                                         in (*, *) }\n"
        "                        concrete=False\n                        name=g ] * *\n  in (b, c) }",
        None,
        None,
    ),
    "two-armed conditional (0.1.68)": (
        "{ lambda  ; a b.\n  let c = gt a 0.0\n      d = cond[ false_jaxpr={ lambda  ; a a.\n"
        "                              let b = neg a\n                              in (b,) }\n"
        "                linear=(False, False, False)\n                true_jaxpr={ lambda  ; a.\n"
        "                             let b = sin a\n                             in (b,) } ] c a b b\n  in (d,) }",
        None,
        None,
    ),
    "three parts, a jaxpr below, results in a list (0.1.57)": (
        "{ lambda c ;  ; a.\n  let d = mul a c\n      e = xla_call[ device=None\n                    backend=None ] d\n"
        "        { lambda b ; f ; a.\n          let c = add a b\n              g = safe_mul c f\n          in [g] } [ c ; a ]\n"
        "      f = tie_in e d\n      g = dot[ precision=None ] e f\n  in [e, g] }\n",
        [X, 2 * X],
        [(2 * X * X + X) * 2 * X, np.dot((2 * X * X + X) * 2 * X, 2 * X * X)],
    ),
    "one result alone, literals spelled out (0.1.36)": (
        "{ lambda  ;  ; a.\n  let b = mul a Literal(val=2.0, hashable=False)\n      c = broadcast[ sizes=(2,) ] b\n"
        "      d = reduce_sum[ axes=(0,)\n                      input_shape=(2, 3) ] c\n  in d }\n",
        [X],
        [4 * X],
    ),
    "no results (0.1.36)": ("{ lambda  ;  ; a.\n  let \n  in * }\n", [X], []),
}  # fmt: skip
RUN = {name: case for name, case in PROGRAMS.items() if case[1] is not None}


@pytest.mark.parametrize("name", RUN)
def test_values_give_the_types(name):
    text, args, want = RUN[name]
    program = jt.parse(text)
    got = jt.eval_jaxpr(program.jaxpr, args)
    assert [(g.dtype, g.shape) for g in got] == [(np.asarray(w).dtype, np.shape(w)) for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3 if g.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("name", RUN)
def test_given_types_are_those_of_the_text(name):
    """The program with types is well-typed, and its print is read as the same program."""
    text, args, _ = RUN[name]
    program = jt.with_types(jt.parse(text), *args)
    jt.typecheck_jaxpr(program)
    again = jt.parse(jt.format_jaxpr(program, lossless=True))
    jt.typecheck_jaxpr(again)
    assert same_program(program, again)


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_readers_agree(name):
    text = PROGRAMS[name][0]
    assert difference(text) is None
    for at in range(0, len(text), 7):
        assert difference(text[:at]) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_open_program_prints_as_one(name):
    program = jt.parse(PROGRAMS[name][0])
    assert ":" not in str(program).replace("=<function f at 0x7f0>", "")
    assert same_program(jt.parse(str(program)), program)


def test_one_text_takes_many_types():
    program = jt.parse(PROGRAMS["elementwise"][0])
    for dtype in (np.float16, np.float32, np.float64, np.complex64):
        (got,) = jt.eval_jaxpr(program, [np.ones((2, 2), dtype)])
        assert (got.dtype, got.shape) == (dtype, (2, 2))
    assert str(program.jaxpr.in_binders[0].aval) == "?"


def test_transformations_see_the_types_of_their_tracers():
    run = jt.jaxpr_as_fun(jt.parse(PROGRAMS["elementwise"][0]))
    _, tangents = jt.jvp(run, [X], [X])
    np.testing.assert_allclose(tangents[0], 2 * np.cos(X) * X, rtol=1e-5)


@pytest.mark.parametrize(
    "use",
    [
        jt.typecheck_jaxpr,
        jt.check,
        jt.jvp_jaxpr,
        lambda program: jt.vmap_jaxpr(program, 3, [0]),
        jt.lower,
    ],
)
def test_what_needs_types_asks_for_them_by_name(use):
    program = jt.parse("{ lambda  ; x y.\n  let z = add x y\n  in (z,) }", "old.jaxpr")
    with pytest.raises(jt.JaxprTypeError, match="the type of the argument x is not in") as caught:
        use(program)
    assert [str(d.span) for d in caught.value.diagnostics] == ["old.jaxpr:1:13", "old.jaxpr:1:15"]


def test_types_that_do_not_fit_are_reported_where_that_shows():
    program = jt.parse("{ lambda  ; a b.\n  let c = sin a\n      d = add c b\n  in (d,) }", "x")
    with pytest.raises(jt.JaxprTypeError) as caught:
        jt.eval_jaxpr(program, [X, np.ones(4, np.float32)])
    assert str(caught.value.diagnostics[0].span) == "x:3:7"
    with pytest.raises(jt.JaxprToolError, match="takes 2 arguments, and 1 is given types"):
        jt.with_types(program, "f32[3]")


def test_lines_of_python_in_brackets():
    text = (
        "{ lambda  ; a.\n"
        "  let b = sin a                        [model.py:12 (f)]\n"
        "      c = reduce_sum[ axes=(0,) ] b    [model.py:13 (f)]\n"
        "  in (c,) }"
    )
    program = jt.parse(text)
    assert [str(e.origin.frame) for e in program.eqns] == ["model.py:12 (f)", "model.py:13 (f)"]
    assert difference(text) is None


def test_units_leave_no_trace():
    program = jt.with_types(
        jt.parse(
            PROGRAMS["units"][0]
            .replace("_ d = scan", "_ _ = scan")
            .replace("(c, b, d)", "(c, b, c)")
            .replace("mul b c", "mul c c")
            .replace("in (*, d)", "in (b, d)")
        ),
        X,
    )
    assert "*" not in str(program)
    got = jt.eval_jaxpr(program, [X])
    np.testing.assert_allclose(got[1], np.sin(X), rtol=1e-6)


def test_the_predicate_of_an_old_conditional_chooses_its_first_branch():
    program = jt.parse(PROGRAMS["two-armed conditional (0.1.68)"][0])
    for x in (0.5, -0.5):
        (got,) = jt.eval_jaxpr(program, [np.float32(x), np.float32(3)])
        np.testing.assert_allclose(got, np.sin(np.float32(x)) if x > 0 else -3.0, rtol=1e-6)


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("{ lambda  ; a.\n  let b = sin a\n  in b c }", "3:6", "the results of a jaxpr stand in parentheses"),
        ("{ lambda  ; a.\n  let b = sin c\n  in (b,) }", "2:15", "c is not bound"),
        ("{ lambda  ; a a.\n  let b = sin a\n  in (b,) }", "1:15", "a is bound twice"),
        ("{ lambda  ;  ; a:f32[].\n  let b = sin a\n  in (b,) }", "1:16", "expected"),
        ("{ lambda  ;  ; a.\n  let b = xla_call a\n      { lambda  ;  ; a.\n        let \n        in [a] } [ q ; ]\n  in [b] }", "5:20", "q is not bound"),
        ("{ lambda  ; a.\n  let b c =\n        top_k[ k=2 a\n  in (b,) }", "3:14", "not closed"),
    ],
)  # fmt: skip
def test_malformed_texts(text, place, message):
    with pytest.raises(jt.JaxprToolError, match=message) as caught:
        jt.parse(text, "x")
    assert str(caught.value.diagnostics[0].span) == f"x:{place}"
    assert difference(text) is None


BODIES = (
    "{ lambda ; c. let d = foo c in (d,) }",
    "{ lambda ; c:f32[]. let d = scan c 2.0 in (d, 1.0) }",
    "{ lambda ; . let  in (1.0,) }",
)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("param", ["jaxpr={}", "call_jaxpr={}", "branches=({})", "odd=({}, 1)"])
@pytest.mark.parametrize("name", ["sin", "foo"])
def test_jaxprs_in_params_that_nobody_declares_are_printed(name, param, body):
    text = f"{{ lambda ; a:f32[]. let b:f32[] = {name}[{param.format(body)}] a in (b,) }}"
    program = jt.parse(text)
    for style in (False, True):
        shown = jt.format_jaxpr(program, lossless=style)
        assert jt.format_jaxpr(jt.parse(shown), lossless=style) == shown


INSIDE = [
    "{ lambda ; c. let d = foo c in (d,) }",
    "{ lambda ; c. let d = mul c 2.0 in (d, 3.0) }",
    "{ lambda a:f32[] ; c. let d = add c a in (d,) }",
    "{ lambda ; c . let d = sin c in [d] }",
    "{ lambda ; . let  in (1.0,) }",
]
AROUND = ["({0},)", "({0})", "[{0}]", "{{'a': {0}}}", "{0}", "({0}, {0})", "X(a={0})", "({0}, 3)"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("head", ["a", "a:f32[]"])
@pytest.mark.parametrize("primitive", ["foo", "sin", "jit"])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("inside", INSIDE)
def test_a_jaxpr_without_types_inside_any_value_is_a_fixed_point(
    inside, around, primitive, head, lossless
):
    value = around.format(inside)
    binder = "b:f32[]" if ":" in head else "b"
    text = f"{{ lambda ; {head}. let {binder} = {primitive}[branches={value}] a in (b,) }}"
    try:
        program = jt.parse(text)
    except jt.JaxprToolError:
        return  # a value that cannot be read is refused
    shown = jt.format_jaxpr(program, lossless=lossless)
    assert jt.format_jaxpr(jt.parse(shown), lossless=lossless) == shown


def test_a_faulty_literal_with_blanks_has_its_column():
    with pytest.raises(jt.JaxprToolError, match=":1:41: "):
        jt.parse("{ lambda ; b:f32[3]. let c:f32[3] = mul [1.0, 2.0, 3.0]:f32[3] b in (c,) }")


OF_LITERALS = """{{ lambda ; a b.
  let c = broadcast_in_dim[ broadcast_dimensions=()
                            shape=(3,) ] 1
      d = reshape[ dimensions=None
                   new_sizes=(3, 1) ] c
      e = reshape[ dimensions=None
                   new_sizes=(3,) ] d
      f = lt a b
      {0}
  in (g,) }}"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["u32", "i8", "u64", "f16", "bf16", "i32", "f32"])
@pytest.mark.parametrize("use", ["g = select f e a", "g = mul e b", "g = select f a e"])
def test_what_is_made_of_literals_has_the_type_that_its_first_use_tells(use, dtype):
    aval = f"{dtype}[3]"
    program = jt.with_types(jt.parse(OF_LITERALS.format(use)), aval, aval)
    jt.check(program)
    assert str(program.out_avals[0]) == aval


@pytest.mark.filterwarnings("ignore")
def test_what_is_made_of_literals_and_used_in_two_ways_is_refused():
    text = OF_LITERALS.format(
        "h = mul e b\n      i = iota[dimension=0 dtype=int16 shape=(3,)]\n      g = mul e i"
    )
    with pytest.raises(jt.JaxprToolError, match="mul"):
        jt.check(jt.with_types(jt.parse(text), "u8[3]", "u8[3]"))


@pytest.mark.filterwarnings("ignore")
def test_the_keys_of_random_gamma_were_words():
    """To 0.3.16; without types to 0.2.21."""
    new = "{ lambda ; k:u32[2] a:f32[3]. let b:key<fry>[] = random_wrap[impl=fry] k\n c:f32[3] = random_gamma[log_space=False partitionable=False] b a in (c,) }"
    wanted = jt.eval_jaxpr(jt.parse(new), [np.array([1, 2], "u4"), np.ones(3, "f4")])
    impl = "PRNGImpl(key_shape=(2,), seed=<function threefry_seed at 0x7fd0bd5fe430>)"
    for text in (
        "{ lambda ; k a.\n  let c = random_gamma k a\n  in (c,) }",
        "{ lambda ; k:u32[2] a:f32[3]. let c:f32[3] = random_gamma k a in (c,) }",
        f"{{ lambda ; k:u32[2] a:f32[3]. let c:f32[3] = random_gamma[prng_impl={impl}] k a in (c,) }}",
        f"{{ lambda ; k:u32[2] a:f32[3]. let c:f32[3] = random_gamma[log_space=False prng_impl={impl}] k a in (c,) }}",
    ):
        program = jt.parse(text)
        if "u32" not in text:
            program = jt.with_types(program, "u32[2]", "f32[3]")
        jt.check(program)
        (found,) = jt.eval_jaxpr(program, [np.array([1, 2], "u4"), np.ones(3, "f4")])
        assert (found == wanted[0]).all()
    of_keys = f"{{ lambda ; k:key<fry>[] a:f32[3]. let c:f32[3] = random_gamma[prng_impl={impl} log_space=True] k a in (c,) }}"
    assert [e.primitive.name for e in jt.parse(of_keys).jaxpr.eqns] == ["random_gamma"]
    of_four = "{ lambda ; k:u32[4] a:f32[3]. let c:f32[3] = random_gamma k a in (c,) }"
    assert str(jt.parse(of_four).jaxpr.eqns[0].out_binders[0].aval) == "key<rbg>[]"


# What `print_shapes=False` prints from 0.9.1 on: the shape of a broadcast is neither a param nor in a type.
DECIDED = {
    "a number": ("b = broadcast_in_dim 1.0:f32[]; c = mul b a", "c"),
    "an array": (
        "d = reduce_sum[axes=(0,)] a; b = broadcast_in_dim[broadcast_dimensions=(1,)] d; c = sub a b",
        "c",
    ),
    "a chain": (
        "b = broadcast_in_dim 1.0:f32[]; d = neg b; e = mul 2.0:f32[] d; c = add_any e a",
        "c",
    ),
    "strictly, and used twice": (
        "b = broadcast_in_dim 1.0:f32[]; d = add_any b a; c = mul d b",
        "c, b",
    ),
    "later": ("b = broadcast_in_dim 1.0:f32[]; d = neg b; e = sin a; c = add_any e d", "c, d"),
    "in a call": (
        "b = broadcast_in_dim 1.0:f32[]; c = jit[name=f jaxpr={ lambda ; x y. let z = add_any x y in (z,) }] a b",
        "c, b",
    ),
    "in a call of a call": (
        "b = broadcast_in_dim 1.0:f32[]; c = jit[name=f jaxpr={ lambda ; x y. let z = jit[name=g jaxpr={ lambda ; "
        "u v. let w = neg u; t = add_any v w in (t,) }] x y in (z,) }] b a",
        "c, b",
    ),
    "in several uses": (
        "b = broadcast_in_dim 1.0:f32[]; d = mul a b; e = add b d; c = neg e",
        "c",
    ),
    "through what is made of two": (
        "b = broadcast_in_dim 1.0:f32[]; d = broadcast_in_dim 2.0:f32[]; e = sub d b; f = mul a e; c = add f b",
        "c",
    ),
    "through what has a type of its own": (
        "b = broadcast_in_dim 1.0:f32[]; d = mul b 2.0:f32[]; e = mul a d; f = sin e; c = add_any f b",
        "c, f",
    ),
    "by the other branch": (
        "i = convert_element_type[new_dtype=int32 weak_type=False] 1.0:f32[]; c = cond[branches=({ lambda ; x. let "
        "b = broadcast_in_dim 1.0:f32[]; y = neg b in (y,) } { lambda ; u. let v = sin u in (v,) })] i a",
        "c",
    ),
    "by the carry": (
        "b = broadcast_in_dim 0.0:f32[]; c = scan[jaxpr={ lambda ; y x. let z = mul x y; w = add z y in (w,) } length=3 "
        "linear=(False, False) num_carry=1 num_consts=1 reverse=False unroll=1] a b",
        "c, b",
    ),
    "by a predicate of many": (
        "b = broadcast_in_dim 0.0:f32[]; c = while[body_jaxpr={ lambda ; x. let y = add x 1.0:f32[] in (y,) } body_nconsts=0 "
        "cond_jaxpr={ lambda ; u x. let y = lt x u in (y,) } cond_nconsts=1] a b",
        "c",
    ),
    "by a loop": (
        "b = broadcast_in_dim 0.0:f32[]; c = scan[jaxpr={ lambda ; x y. let z = add_any y x in (z,) } length=3 "
        "linear=(False, False) num_carry=1 num_consts=1 reverse=False unroll=1] a b",
        "c, b",
    ),
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_use_decides_a_shape(name):
    lines, outs = DECIDED[name]
    program = jt.parse(f"{{ lambda ; a. let {lines} in ({outs},) }}")
    typed = jt.with_types(program, "f32[2,3]")
    assert all(str(t) == "f32[2,3]" for t in jt.typecheck_jaxpr(typed.jaxpr).out_types)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for got, want in zip(
        jt.eval_jaxpr(program.jaxpr, [x]), jt.eval_jaxpr(typed.jaxpr, [x]), strict=True
    ):
        assert got.shape == (2, 3)
        assert np.array_equal(got, want)


UNDECIDED = [
    ("b = broadcast_in_dim 1.0:f32[]", "b"),  # no use
    ("b = broadcast_in_dim 1.0:f32[]; c = mul a b", "c, b"),  # f32[1,3] would do, and is a result
    ("b = broadcast_in_dim 1.0:f32[]; c = dynamic_update_slice a b 0:i32[] 0:i32[]", "c"),
    ("b = broadcast_in_dim 1.0:f32[]; c = concatenate[dimension=0] a b", "c"),
    ("b = broadcast_in_dim 1.0:f32[]; c = dot_general[dimension_numbers=(([1], [1]), ([], []))] a b", "c"),
    ("b = broadcast_in_dim 1.0:f32[]; d = broadcast_in_dim 1.0:f32[]; c = add_any b d", "c"),
    ("b = broadcast_in_dim 1.0:f32[]; d = mul a b; e = dot_general[dimension_numbers=(([1], [1]), ([], []))] a b", "d"),  # one use decides
    ("b = broadcast_in_dim 1.0:f32[]; c = while[body_jaxpr={ lambda ; x. let y = add x 1.0:f32[] in (y,) } body_nconsts=0 cond_jaxpr="
     "{ lambda ; u x. let y = lt x u; z = reduce_and[axes=(0, 1)] y in (z,) } cond_nconsts=1] a b", "c"),
    # what a step takes is a row of it
    ("b = broadcast_in_dim 1.0:f32[]; c = scan[jaxpr={ lambda ; d:f32[3] e:f32[3]. let f:f32[3] = mul d e in (f,) } length=2 "
     "linear=(False, False) num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[3] b", "c"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "outs"), UNDECIDED)
def test_a_shape_that_nothing_decides_is_asked_for_by_name(lines, outs):
    program = jt.parse(f"{{ lambda ; a. let {lines} in ({outs},) }}")
    with pytest.raises(
        jt.JaxprTypeError, match="the type of b is not in the text, and nothing decides its shape"
    ):
        jt.with_types(program, "f32[2,3]")


def test_what_nothing_uses_may_have_any_shape():
    text = (
        "{ lambda ; a. let _ = broadcast_in_dim 1.0:f32[]; b = broadcast_in_dim[broadcast_dimensions=(1,)] a; d = neg b; "
        "c = jit[name=f jaxpr={ lambda ; x. let e = broadcast_in_dim 2.0:f32[]; z = sin x in (z,) }] a in (c,) }"
    )
    assert (
        str(jt.with_types(jt.parse(text), "f32[3]").jaxpr.eqns[1].out_binders[0].aval) == "f32[1,3]"
    )
    assert np.array_equal(jt.eval_jaxpr(jt.parse(text).jaxpr, [X])[0], np.sin(X))


@pytest.mark.parametrize("name", ["gather", "scatter-add", "gather of one row"])
def test_indices_have_the_least_shape_with_a_warning(name):
    numbers = {
        "gather": "gather[dimension_numbers=GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), "
        "operand_batching_dims=(), start_indices_batching_dims=()) fill_value=None indices_are_sorted=False mode=1 slice_sizes=(1,) "
        "unique_indices=False] a j",
        "scatter-add": "scatter-add[dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), "
        "scatter_dims_to_operand_dims=(0,), operand_batching_dims=(), scatter_indices_batching_dims=()) indices_are_sorted=False "
        "mode=GatherScatterMode.FILL_OR_DROP unique_indices=False update_consts=() update_jaxpr={ lambda ; u v. let w = add u v in (w,) }] a j d",
    }
    line = numbers[name.partition(" of ")[0]]
    if name == "gather of one row":
        lines = f"k = reduce_max[axes=(0,)] i; j = broadcast_in_dim k; c = {line}"
    else:
        lines = f"d = convert_element_type[new_dtype=float32 weak_type=False] i; j = broadcast_in_dim[broadcast_dimensions=(0,)] i; c = {line}"
    program = jt.parse(f"{{ lambda ; a i. let {lines} in (c,) }}")
    x, i = np.float32([1, 2, 3, 4]), np.int32([2, 0])
    with pytest.warns(
        UserWarning, match=r"the type of j is not in the text, and is taken to be i32"
    ):
        found = jt.eval_jaxpr(program.jaxpr, [x, i])[0]
    want = {"gather": x[i], "scatter-add": [1, 2, 5, 4], "gather of one row": x[2]}[name]
    assert np.array_equal(found, want)


_SHARDED = (
    "in_specs=(P('i',),) mesh=Mesh('i': 2, axis_types=(Auto,)) newly_manual_axes=frozenset({'i'})"
)
# What the jaxpr of an equation takes, which is not what the equation takes: the equation, for a:f32[4], and its results.
INSIDE = {
    "references": (
        "b = run_state[is_initialized=(True,) jaxpr={ lambda ; x. let y <- x[1:]; z = mul y 2.0:f32[]; x[:3] <- z in () } which_linear=(False,)] a",
        "f32[4]", [4, 6, 8, 4],
    ),
    "a loop over references": (
        "b = for[jaxpr={ lambda ; i x. let y <- x[i]; z = mul y y; x[i] <- z in () } nsteps=4 reverse=False unroll=1 which_linear=(False,)] a",
        "f32[4]", [1, 4, 9, 16],
    ),
    "a solver": (
        "b = CustomRoot[solve_jaxpr={ lambda ; x y. let z = add x y in (z,) } has_aux=False] a 1.0:f32[] a a",
        "f32[4]", [2, 3, 4, 5],
    ),
    "shards": (
        f"b = shard_map[check_vma=False {_SHARDED} jaxpr={{ lambda ; x. let y = reduce_sum[axes=(0,)] x; z = mul x y in (z,) }} out_specs=(P('i',),)] a",
        "f32[4]", [3, 6, 21, 28],
    ),
    "shards that vary": (
        f"b = shard_map[check_vma=True {_SHARDED} jaxpr={{ lambda ; x. let y = psum_invariant[axes=('i',)] x; z = sin y in (y,) }} out_specs=(P(None,),)] a",
        "f32[2]", [4, 6],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_what_a_jaxpr_takes_has_its_type_from_the_operands(name):
    lines, out, values = INSIDE[name]
    program = jt.parse(f"{{ lambda ; a. let {lines} in (b,) }}")
    typed = jt.with_types(program, "f32[4]")
    assert str(jt.typecheck_jaxpr(typed.jaxpr)) == f"(f32[4]) -> ({out})"
    x = np.float32([1, 2, 3, 4])
    for p in (program, typed):
        assert np.array_equal(jt.eval_jaxpr(p.jaxpr, [x])[0], np.float32(values))


def test_a_shard_does_not_decide_the_shape_of_the_whole():
    inner = "{ lambda ; x:f32[2]. let y:f32[2] = neg x in (y,) }"
    text = f"{{ lambda ; a. let b = broadcast_in_dim a; c = shard_map[check_vma=False {_SHARDED} jaxpr={inner} out_specs=(P('i',),)] b in (c,) }}"
    with pytest.raises(jt.JaxprTypeError, match="the type of b is not in the text"):
        jt.with_types(jt.parse(text), "f32[]")


def test_nested_calls_are_not_walked_again_and_again():
    inner = "{ lambda ; x. let y = neg x in (y,) }"
    for i in range(60):
        inner = f"{{ lambda ; x. let y = jit[name=f{i} jaxpr={inner}] x in (y,) }}"
    text = f"{{ lambda ; a. let b = broadcast_in_dim 1.0:f32[]; c = jit[name=f jaxpr={inner}] b in (c,) }}"
    with pytest.raises(jt.JaxprTypeError, match="the type of b"):
        jt.with_types(jt.parse(text), "f32[3]")
