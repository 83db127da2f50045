"""Malformed text: the message says where, what was expected and what was found."""

from __future__ import annotations

import time

import pytest

from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.diagnostics import JaxprParseError, JaxprToolError, JaxprTypeError
from jaxprtool.syntax.parse import parse, parse_file
from tests.syntax.programs import traced

HEAD = "{ lambda ; a:f32[3]. let "

SYNTAX = [
    ("", "1:1", "the text is empty", "empty"),
    ("# a comment\n", "1:12", "the text is empty", "empty"),
    ("hello world", "1:1", "expected `name = ` and a jaxpr", "syntax"),
    ("{ lambda ; a:f32[3", "1:19", "the text ends inside a jaxpr opened at x:1:1", "truncated"),
    (HEAD + "c = add a 1x in (c,) }", "1:36", "1x is not an operand", "syntax"),
    (HEAD + "b:f32[3] = sin a", "1:42", "expected the results (`in (a, b) }`)", "truncated"),
    (HEAD + "b:f32[3] = sin a in (b", "1:48", "the text ends inside a jaxpr", "truncated"),
    (HEAD + "b:f32[3] = sin a in (b,)", "1:50", "expected effects (`: { ... }`) or `}`", "truncated"),
    (HEAD + "b:f32[3] = f[x=(0,", "1:44", "inside a list of params opened at x:1:38", "truncated"),
    (HEAD + "b:f32[3] = neg = a\n    c:f32[3] = iota[shape=(3 dtype=f32] in (c) d", "1:41", "a second equation begins", "syntax"),
    (HEAD + "b:f32[3] = neg a 1x\n    c:f32[3] = iota[shape=(3 dtype=f32] in (c) d", "1:43", "1x is not an operand", "syntax"),
    (HEAD + "b:f32[3] = f[] a in (b,) }", "1:39", "expected a param (`key=value`), found `]`", "syntax"),
    (HEAD + "b:f32[3] == f a in (b,) }", "1:35", "expected `=` after the results of an equation, found `==`", "syntax"),
    (HEAD + "b:f32[3] = sin a in (b,) } c", "1:53", "expected the end of the text, found `c`", "syntax"),
    (HEAD + "b:f33[3] = sin a in (b,) }", "1:28", "unknown element type f33", "bad-type"),
    (HEAD + "b:f32[x y] = sin a in (b,) }", "1:28", "x y is not a dimension", "bad-type"),
    (HEAD + "b:f32[-1] = sin a in (b,) }", "1:28", "-1 is not a dimension", "bad-type"),
    (HEAD + "b:f32 = sin a in (b,) }", "1:28", "a scalar is f32[]", "bad-type"),
    (HEAD + "b:f32[3] = add a 1.0.0 in (b,) }", "1:43", "1.0.0 is not an operand", "syntax"),
    (HEAD + "b:f32[3] = add a 1x:f32[] in (b,) }", "1:43", "1x is not a value of type f32", "bad-literal"),
    (HEAD + "b:f32[3] = add a 300:u8[] in (b,) }", "1:43", "300 does not fit in u8", "bad-literal"),
    (HEAD + "b:f32[3] = add a 2:bool[] in (b,) }", "1:43", "not a value of type bool", "bad-literal"),
    (HEAD + "b:f32[3] = add a & in (b,) }", "1:43", "& is not an operand", "syntax"),
    (HEAD + "b:f32[3] = f[x=1 x=2] a in (b,) }", "1:43", "the param x is given twice", "duplicate-param"),
    (HEAD + "b:f32[3] = jit[name=g jaxpr=g] a in (b,) }", "1:54", "g is not defined", "undefined-jaxpr"),
    (f"let g = {HEAD} in (a,) }} in\n", "1:47", "expected a shared definition", "truncated"),
    (
        f"let g = {HEAD}b:f32[3] = jit[name=g jaxpr=g] a in (b,) }} in\n{HEAD} in (a,) }}",
        "1:1",
        "g is defined by itself",
        "recursive-jaxpr",
    ),
    ("{ lambda a:f32[2]; . let  in (a,) }\nwhere a = [1.0]", "2:11", "the shape of f32[2]", "bad-constant"),
    ("{ lambda a:i8[]; . let  in (a,) }\nwhere a = 1.5", "2:11", "1.5 is not a value of type i8", "bad-constant"),
    ("{ lambda a:i8[]; . let  in (a,) }\nwhere b = 1", "2:7", "b is not a constant", "not-a-constant"),
    ("{ lambda a:i8[]; . let  in (a,) }\nwhere a = ", "2:10", "the text ends", "truncated"),
]  # fmt: skip


@pytest.mark.parametrize("text, place, message, code", SYNTAX)
def test_syntax_errors(text, place, message, code):
    with pytest.raises(JaxprParseError) as caught:
        parse(text, "x")
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert (str(first.span), first.code) == (f"x:{place}", code)


@pytest.mark.parametrize(
    "text, place, message, code",
    [
        (
            "{ lambda ; a b. let  in (a,) }",
            "1:12",
            "the type of the argument a is not in",
            "no-type",
        ),
        (HEAD + "c = foo a in (c,) }", "1:30", "unknown primitive foo", "unknown-primitive"),
        (
            HEAD + "c = add a a a in (c,) }",
            "1:26",
            "add takes 2 operands, and has 3",
            "operand-count",
        ),
        (
            HEAD + "b = foo a; c = sin b in (c,) }",
            "1:30",
            "unknown primitive foo",
            "unknown-primitive",
        ),
    ],
)
def test_open_types_are_the_checker_s_business(text, place, message, code):
    with pytest.raises(JaxprToolError) as caught:
        typecheck_jaxpr(parse(text, "x"))
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert (str(first.span), first.code) == (f"x:{place}", code)


def test_all_unbound_and_rebound_variables_are_reported():
    text = HEAD + "b:f32[3] = sin c; d:f32[3] = cos z; d:f32[3] = cos a in (b, q) }"
    with pytest.raises(JaxprTypeError) as caught:
        parse(text, "x")
    found = [(str(d.span), d.code) for d in caught.value.diagnostics]
    assert found == [
        ("x:1:41", "unbound-variable"),
        ("x:1:59", "unbound-variable"),
        ("x:1:62", "bound-twice"),
        ("x:1:86", "unbound-variable"),
    ]


def test_names_do_not_reach_into_nested_jaxprs():
    text = HEAD + "b:f32[3] = jit[name=f jaxpr={ lambda ; c:f32[3]. let  in (a,) }] a in (b,) }"
    with pytest.raises(JaxprTypeError, match="a is not bound"):
        parse(text)


def test_two_programs_with_one_name():
    text = "f = { lambda ; . let  in () }\nf = { lambda ; . let  in () }"
    with pytest.raises(JaxprParseError, match="f is defined twice"):
        parse_file(text)


def test_parse_wants_a_single_program():
    text = "f = { lambda ; . let  in () }\ng = { lambda ; . let  in () }"
    with pytest.raises(JaxprParseError, match="2 programs: f, g"):
        parse(text)


def test_truncation_names_what_is_open():
    text = HEAD + "\n    b:f32[3] = jit[\n      name=f\n      jaxpr={ lambda ; c:f32[3]. let\n"
    with pytest.raises(JaxprParseError) as caught:
        parse(text, "x")
    message = caught.value.diagnostics[0].message
    assert "a jaxpr opened at x:4:13, in a list of params opened at x:2:19" in message


GARBAGE = {
    "letters": "x" * 1_000_000,
    "brackets": "(" * 1_000_000,
    "binders": "a:f32[] " * 120_000,
    "heads": "{ lambda ; " * 90_000,
    "equations": HEAD + "b:f32[3] = sin a " * 60_000,
    "params": HEAD + "b:f32[3] = f[x=( " * 60_000,
    "unbalanced": HEAD + "\n" + "    b:f32[3] = f[\n      x=(\n    ] a\n" * 20_000,
    "quotes": HEAD + "b:f32[3] = f[x='\"" * 60_000,
    "tuples": HEAD + "b:f32[3] = f[x=({ lambda" * 40_000,
    "results": HEAD + "in (" * 200_000,
    "definitions": "let f = { lambda ; " * 50_000,
    "null": "\0" * 1_000_000,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_megabyte_of_garbage_is_refused_soon(kind):
    start = time.process_time()
    with pytest.raises((JaxprParseError, JaxprTypeError)):
        parse(GARBAGE[kind])
    assert time.process_time() - start < 8


@pytest.mark.parametrize("name", ["large_inner", "branches", "debug", "mutated", "gather"])
def test_every_prefix_is_refused_cleanly(name):
    text = str(traced(name))
    for cut in range(len(text) - 1):
        with pytest.raises((JaxprParseError, JaxprTypeError)):
            parse(text[:cut])


ONE_ARGUMENT = "{ lambda ; a:f32[3]. let\n    "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE_ARGUMENT + "in a in (a,) }", "expected the results"),
        (ONE_ARGUMENT.replace("f32[3]", "f32[3a]") + "in (a,) }", "is not a dimension"),
        (ONE_ARGUMENT.replace("f32[3]", "f32[3a:f32[3]") + "in (a,) }", "found `a:f32"),
        (
            ONE_ARGUMENT + "b:f32[3] <- nan[...]\n  in (b,) }",
            "malformed equation on a reference|is a number, where",
        ),
        (
            ONE_ARGUMENT + "b:f32[3] = xla_call[name=f\n  =None] a\n  in (b,) }",
            "the value of name holds",
        ),
    ],
)
def test_what_could_not_be_read_back_is_an_error(text, message):
    with pytest.raises(JaxprToolError, match=message):
        parse(text)
