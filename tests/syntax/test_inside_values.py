"""Jaxprs inside values: records, mixed tuples, dicts. JAX writes them out; files name those that are shared."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import Record, Word
from jaxprtool.ir.walk import jaxprs_in
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file, format_jaxpr
from tests.laws.sharing import program
from tests.syntax.two_readers import difference

SINE = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
CALL = "{ lambda ; a:f32[3]. let b:f32[3] = jit[name=f jaxpr=f] a in (b,) }"
LOCAL = f"let f = {SINE} in\n{CALL}"
STEPS = "\n".join(f"    v{i + 1}:f32[3] = sin v{i}" for i in range(12))
LARGE = f"{{ lambda ; v0:f32[3]. let\n{STEPS}\n  in (v12,) }}"


def foo(value: str, before: str = "", after: str = "") -> str:
    """A program whose only equation has the value as a param."""
    return (
        f"{before}{{ lambda ; a:f32[3]. let\n    b:f32[3] = foo[x={value}{after}] a\n  in (b,) }}\n"
    )


TEXTS = {
    "first": foo(f"({SINE}, 1)"),
    "first with definitions": foo(f"({LOCAL}, 1)"),
    "alone in a tuple": foo(f"(({LOCAL},), 1)"),
    "first of a tuple in a tuple": foo(f"(({LOCAL}, 2), 1)"),
    "name first": foo("(f, 1)", f"let f = {SINE} in\n"),
    "name before one": foo(f"(f, {LOCAL}, 1)", f"let f = {SINE} in\n"),
    "one": foo(f"(1, {SINE})"),
    "definitions of its own": foo(f"(1, {LOCAL})"),
    "definitions in a record": foo(f"Four(f=None, g={LOCAL}, h=2)"),
    "definitions in a dict": foo(f"{{'g': {LOCAL}}}"),
    "definitions in a list": foo(f"[1, {LOCAL}]"),
    "the same name in two": foo(f"(1, {LOCAL}, {LOCAL.replace('sin', 'cos')})"),
    "the same name outside": foo(f"(1, {LOCAL.replace('sin', 'cos')}, f)", f"let f = {SINE} in\n"),
    "inside of inside": foo(f"(1, {foo(f'(2, {LOCAL})')[:-1]})"),
    "large ones in a call": foo(f"(1, {CALL.replace('jaxpr=f', 'jaxpr=' + LARGE)})"),
    "by name": foo("(1, f, F(f, g=f), {'k': f})", f"let f = {SINE} in\n"),
    "by name, inside of inside": foo(f"(1, f, {foo('(2, f)')[:-1]})", f"let f = {SINE} in\n"),
    "unused, with a number without a type": foo(
        f"(1, let g = {SINE.replace('sin a', 'mul 2.0 a')} in\n{SINE})"
    ),
    "defined later": foo("(1, g)", f"let g = {CALL} in\nlet f = {SINE} in\n"),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("lossless", [True, False])
def test_print_reads_back_equal(text, lossless):
    programs = parse_file(text)
    printed = format_file(programs, lossless=lossless)
    again = parse_file(printed)
    assert same_programs(programs, again)
    assert format_file(again, lossless=lossless) == printed


WEAK = "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = cos b in (c,) }\nwhere weak b c"
CLOSED = """{ lambda c:f32[2] ; a:f32[3]. let  in (a, c) }
where c = [1.0, 2.0]"""
HELD = {
    "weak": WEAK,
    "value": CLOSED,
    "number": CLOSED.replace("f32[2]", "f32[]").replace("[1.0, 2.0]", "1.0"),
    "bytes": CLOSED.replace("[1.0, 2.0]", 'base64("f32[2]", "AAAAAAAAgD8=")'),
    "both": f"{CLOSED}\n      weak c",
    "definition": f"let f = {WEAK} in\n{CALL}",
    "both of two": f"let f = {WEAK} in\n{CALL}\nwhere weak b",
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
@pytest.mark.parametrize(
    "value",
    [
        "({}, {})",
        "(1, {}, {})",
        "F(f={}, g={})",
        "{{'f': {}, 'g': {}}}",
        "[{}, {}]",
        "((1, {}), {})",
    ],
)
def test_what_follows_a_jaxpr_ends_where_the_next_one_begins(value, held):
    text = foo(value.format(held, held))
    assert difference(text) is None
    test_print_reads_back_equal(text, lossless=True)


def inside(text: str) -> list[ClosedJaxpr]:
    return list(jaxprs_in(jt.parse(text).eqns[0].params["x"]))


def test_names_stand_for_one_object():
    found = inside(TEXTS["by name"])
    assert len(found) == 4 and len({id(c) for c in found}) == 1
    again = inside(format_jaxpr(jt.parse(TEXTS["by name"]), lossless=True))
    assert len({id(c) for c in again}) == 1


def test_a_definition_inside_hides_the_one_outside():
    theirs, ours = inside(TEXTS["the same name outside"])
    assert ours.eqns[0].primitive.name == "sin"
    assert theirs.eqns[0].params["jaxpr"].eqns[0].primitive.name == "cos"


def test_a_definition_inside_is_unknown_outside():
    with pytest.raises(jt.JaxprParseError, match="f is not defined here"):
        jt.parse(foo(f"(1, {LOCAL})").replace("in (b,) }\n", "in (b,) }").replace(
            "  in (b,) }", "    c:f32[3] = jit[name=f jaxpr=f] b\n  in (c,) }"
        ))  # fmt: skip


def test_words_are_words_where_no_jaxpr_can_stand():
    """A name of a definition is a word in params of other kinds."""
    text = (
        f"let CLIP = {SINE} in\n"
        + """\
{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=CLIP jaxpr=CLIP] a
    c:f32[3] = dot_general[
      dimension_numbers=(([], []), ([0], [0]))
      precision=(CLIP, CLIP)
    ] a b
  in (c,) }"""
    )
    program = jt.parse(text)
    assert program.eqns[1].params["precision"] == (Word("CLIP"), Word("CLIP"))
    assert str(program) == text


def test_what_is_used_once_is_written_where_it_stands():
    text = TEXTS["definitions of its own"].strip()
    assert format_jaxpr(jt.parse(text), lossless=True).count("let f") == 1
    assert not format_jaxpr(jt.parse(text), lossless=True).startswith("let f")


def test_deeply_nested_values_are_read_back():
    """Beyond some levels every jaxpr inside a value is a definition: the reader bounds their nesting."""
    closed = jt.parse(SINE)
    for _ in range(60):
        holder = jt.parse(foo("1"))
        params = {"x": Record("F", (), f=closed, n=1)}
        eqn = holder.eqns[0].replace(params=params)
        closed = holder.replace(jaxpr=holder.jaxpr.replace(eqns=[eqn]))
    text = format_jaxpr(closed, lossless=True)
    assert len(text) < 60 * 200
    assert same_programs({"": closed}, {"": jt.parse(text)})


def test_shared_ones_stay_shared():
    text = format_jaxpr(program("custom_linear_solve", 3), lossless=True)
    record = jt.parse(text).eqns[0].params["jaxpr"].eqns[0].params["jaxprs"]
    assert record.solve is record.transpose_solve and record.matvec is record.vecmat


def test_an_undefined_name_in_a_record_is_a_word():
    with pytest.raises(jt.JaxprTypeError):
        text = format_jaxpr(program("custom_linear_solve", 2), lossless=True)
        jt.typecheck_jaxpr(jt.parse(text.replace("solve=jaxpr1", "solve=jaxpr9")))


def test_a_jaxpr_in_a_param_that_takes_none_is_printed():
    text = "{ lambda ; a:f32[3]. let b:f32[3] = cumsum[axis=0 reverse={ lambda ; c:f32[]. let  in (c,) }] a in (b,) }"
    printed = format_jaxpr(jt.parse(text))
    assert "reverse={ lambda ; c:f32[]. let  in (c,) }" in printed
    assert format_jaxpr(jt.parse(printed)) == printed


def test_unread_results_inside_have_the_names_that_they_were_read_with():
    """JAX 0.8 and 0.9 print `_` for what was dropped when it was traced, and a name for what lost its reader since."""
    text = """{ lambda ; a:f32[4]. let
    b:f32[4] = broadcast_in_dim[
      broadcast_dimensions=()
      shape=(4,)
      sharding=None
    ] 2.0:f32[]
    c:f32[4] = custom_linear_solve[
      const_lengths=_LinearSolveTuple(matvec=1, vecmat=None, solve=1, transpose_solve=None)
      jaxprs=_LinearSolveTuple(matvec={ lambda ; a:f32[4] b:f32[4]. let
    c:f32[4] = mul a b
    d:f32[4] = sin b
    _:f32[4] e:f32[4] = sort[dimension=0 is_stable=True num_keys=1] b d
  in (c,) }, vecmat=None, solve={ lambda ; a:f32[4] b:f32[4]. let c:f32[4] = div b a in (c,) }, transpose_solve=None)
    ] b b a
  in (c,) }"""
    assert str(jt.parse(text)) == text


# `g` applies primitives that are not known, with the names of functions as words: a definition cannot use itself.
WORDS = f"""let f = {{ lambda ; a:f32[3]. let
    b:f32[3] = apply_one[params=(f, 3) prim=f] a
  in (b,) }} in
let g = {{ lambda ; a:f32[3]. let
    b:f32[3] = apply_one[prim=g] a
    c:f32[3] = jit[name=f jaxpr=f] b
    d:f32[3] = apply_one[
      like=(1, {{ lambda ; a:f32[3]. let b:f32[3] = apply_one[prim=g] a in (b,) }})
      prim=f
    ] c
    e:f32[3] = apply_one[fn=h prim=h] d
  in (e,) }} in
let h = {SINE} in
{{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=f jaxpr=f] a
    c:f32[3] = jit[name=g jaxpr=g] b
  in (c,) }}"""


def test_a_word_that_is_the_name_of_the_definition_around_it_is_a_word():
    read = jt.parse(WORDS)
    assert str(read) == WORDS
    assert format_jaxpr(read, lossless=True) == WORDS
    f, g = (e.params["jaxpr"] for e in read.eqns)
    assert f.eqns[0].params["prim"] == "f"
    assert not [*jaxprs_in(f.eqns[0].params["params"])]
    first, _, third, fourth = g.eqns
    assert (first.params["prim"], third.params["prim"]) == ("g", "f")
    (inside,) = jaxprs_in(third.params["like"])
    assert inside.eqns[0].params["prim"] == "g"
    assert type(fourth.params["fn"]) is type(fourth.params["prim"]) is ClosedJaxpr
    assert not difference(WORDS)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_lossless_text_has_no_definitions_with_the_names_of_words(keeps):
    text = f"""let solve = {SINE} in
{{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=solve jaxpr=solve] a
    c:f32[3] = apply_one[like=[solve1] prim=word] b
    d:f32[3] = jit[name=solve jaxpr=solve] c
  in (d,) }}"""
    read = jt.parse(text)
    first, word, last = read.eqns
    eqns = [first, word.replace(params={**word.params, "prim": "solve"}), last]
    written = read.jaxpr.written if keeps else None
    made = read.replace(jaxpr=read.jaxpr.replace(eqns=eqns, written=written))
    printed = format_jaxpr(made, lossless=True)
    again = jt.parse(printed)
    assert again.eqns[1].params["prim"] == "solve"
    assert same_programs({"": again}, {"": made})
    assert format_jaxpr(again, lossless=True) == printed
