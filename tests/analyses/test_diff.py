"""The structural diff: what it calls equal, what it marks, and that it is stable and fast."""

from __future__ import annotations

import random

import numpy
import pytest

import jaxprtool as jt
from jaxprtool.analyses.diffing.align import align
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.driver.diff import diff
from jaxprtool.driver.storage.files import load
from jaxprtool.syntax.parse import parse, parse_file
from tests.timing import assert_growth

LOSS = """{ lambda ; a:f32[3] b:f32[]. let
    c:f32[3] = sin a
    d:f32[3] = mul c b
    e:f32[] = reduce_sum[axes=(0,) out_sharding=None] d
  in (e,) }
"""


def lines(a: str, b: str) -> list[str]:
    return diff(parse_file(a), parse_file(b)).lines


def marked(a: str, b: str) -> list[str]:
    """The lines that are marked, without the header."""
    return [x for x in lines(a, b)[2:] if x[0] in "+-"]


def long_program(n: int, seed: int = 0, changed: tuple[int, ...] = (), prefix: str = "v") -> str:
    """A program of n elementwise equations, each of operands that are near; div at the changed places."""
    rng = random.Random(seed)
    names, body = ["a", "b"], []
    for i in range(n):
        x, y = rng.choice(names[-20:]), rng.choice(names[-20:])
        op = rng.choice(["add", "mul", "sub", "max"])
        body.append(f"    {prefix}{i}:f32[3] = {'div' if i in changed else op} {x} {y}")
        names.append(f"{prefix}{i}")
    return "{ lambda ; a:f32[3] b:f32[3]. let\n" + "\n".join(body) + f"\n  in ({names[-1]},) }}\n"


@pytest.mark.parametrize(
    "other",
    [
        LOSS.replace(" c ", " q ").replace("c:", "q:"),
        LOSS.replace("\n    ", " ; ").replace("let ;", "let").replace("\n  in", " in"),
        "# a comment\n" + LOSS,
        LOSS.replace("d:f32[3]", "d:float32[3]"),
    ],
    ids=["names", "layout", "comments", "long names of types"],
)
def test_equal_up_to_names_and_layout(other: str) -> None:
    assert diff(parse_file(LOSS), parse_file(other)).equal


def test_equal_across_dialects() -> None:
    modern = "{ lambda ; a:f64[3]. let b:f64[] = reduce_sum[axes=(0,)] a; c:bool[] = gt b 2.0:f64[] in (c,) }"
    tutorial = (
        "{ lambda a:float64[3] .\n  let b:float64[] = reduce_sum [ axis=(0,) ] a\n"
        "      c:bool[] = greater b 2.0\n  in ( c ) }"
    )
    assert lines(modern, tutorial) == []


@pytest.mark.parametrize(
    "other",
    [
        LOSS.replace("sin", "cos"),
        LOSS.replace("mul c b", "mul b c"),
        LOSS.replace("axes=(0,)", "axes=()"),
        LOSS.replace("f32[3]", "f32[4]"),
        LOSS.replace("in (e,)", "in (e, e)"),
        LOSS.replace("b:f32[]", "b:f32[] z:f32[]"),
    ],
    ids=["primitive", "operands", "param", "type", "results", "arguments"],
)
def test_different_and_something_is_marked(other: str) -> None:
    assert marked(LOSS, other)


def test_an_inserted_equation_marks_nothing_else() -> None:
    other = LOSS.replace("    d:", "    unused:f32[3] = cos a\n    d:")
    assert marked(LOSS, other) == ["+    unused:f32[3] = cos a"]


def test_an_inserted_argument_marks_the_header_only() -> None:
    other = LOSS.replace("a:f32[3]", "z:i32[] a:f32[3]")
    assert [x.strip("+- ")[:8] for x in marked(LOSS, other)] == ["{ lambda", "{ lambda"]


def test_a_changed_equation_in_a_nested_jaxpr_marks_it_alone() -> None:
    nested = (
        "{ lambda ; a:f32[3]. let b:f32[3] = jit[name=f jaxpr={ lambda ; a:f32[3]. let "
        "b:f32[3] = sin a; c:f32[3] = exp b in (c,) }] a; d:f32[3] = neg b in (d,) }"
    )
    assert [x.split(" = ")[1] for x in marked(nested, nested.replace("sin", "tan"))] == [
        "sin a",
        "tan a",
    ]


def test_swapped_files_swap_the_marks() -> None:
    other = LOSS.replace("sin", "cos")
    there, back = marked(LOSS, other), marked(other, LOSS)
    assert [x[0] for x in there] == ["-", "+"] and [x[1:] for x in there] == [
        x[1:] for x in reversed(back)
    ]


def test_constants_and_literals_count() -> None:
    consts = "{ lambda c:f32[2]; a:f32[2]. let b:f32[2] = mul a c in (b,) }\nwhere c = [1.0, 2.0]\n"
    assert marked(consts, consts.replace("2.0]", "3.0]"))
    assert not same_program(parse(consts), parse(consts.partition("where")[0]))
    double = "{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"
    assert marked(double, double.replace("2.0", "3.0"))


def test_a_missing_jaxpr_of_several_is_marked_whole() -> None:
    two = "known = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }\nrest = " + LOSS
    assert all(x[0] == "-" for x in marked(two, two.partition("rest")[0] + "other = " + LOSS)[:6])
    assert diff(parse_file("x = " + LOSS), parse_file(LOSS)).equal


def test_hunks_of_a_long_program() -> None:
    found = lines(long_program(400), long_program(400, changed=(20, 300)))
    assert [x for x in found if x[0] in "+-"][2:][0].startswith("-")
    assert sum(x.startswith("@@") for x in found) == 2
    assert len(found) == 2 + 2 * (1 + 3 + 2 + 3)


def test_output_is_the_same_every_time() -> None:
    a, b = long_program(200), long_program(200, seed=1)
    assert lines(a, b) == lines(a, b)


@pytest.mark.parametrize("other", ["changed", "different", "renamed"])
def test_ten_thousand_equations_take_time_in_proportion(other: str) -> None:
    def pair(n: int):
        b = {
            "changed": lambda: long_program(n, changed=(3, n // 2)),
            "different": lambda: long_program(n, seed=1),
            "renamed": lambda: long_program(n, prefix="w"),
        }[other]()
        return parse_file(long_program(n)), parse_file(b)

    # a quadratic algorithm would take a hundred times as long, or more
    assert_growth(pair, lambda both: diff(*both), 1_000, 10_000, 40, floor=0.05)


def test_align_pairs_in_order() -> None:
    assert align([("abcd", "xbcy")], 4, 4) == [(1, 1), (2, 2)]
    assert align([("abab", "baba")], 4, 4) in ([(0, 1), (1, 2), (2, 3)], [(1, 0), (2, 1), (3, 2)])
    assert align([("", "abc")], 0, 3) == []
    assert align([("abc", "xyz"), ("kkk", "kkk")], 3, 3) == [(0, 0), (1, 1), (2, 2)]


ONE = "{ lambda ; a:%s. let b:%s = mul a %s:%s in (b,) }"


def literal(value: str, dtype: str) -> str:
    return ONE % (dtype, dtype, value, dtype)


PARAM = "{ lambda ; a:f32[4]. let b:f32[4] = foo[p=%s] a in (b,) }"
GATHER = """{ lambda ; a:f32[3] b:i32[2,1]. let
    c:f32[2] = gather[
      dimension_numbers=GatherDimensionNumbers(offset_dims=%s, collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=())
      fill_value=None
      indices_are_sorted=False
      mode=%s
      slice_sizes=(1,)
      unique_indices=False
    ] a b
  in (c,) }
"""
CALL = "{ lambda ; a:f32[]. let b:f32[] = %s[name=f%s jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }] a in (b,) }"
CONSTANT = "{ lambda a:f32[2]; b:f32[2]. let c:f32[2] = add a b in (c,) }\nwhere a = [%s]"

SAME = {
    "f32": (literal("1e-5", "f32[]"), literal("9.999999747378752e-06", "f32[]")),
    "f16": (literal("0.1", "f16[]"), literal("0.0999755859375", "f16[]")),
    "bf16": (literal("0.1", "bf16[]"), literal("0.10009765625", "bf16[]")),
    "c64": (literal("(0.1+0j)", "c64[]"), literal("(0.10000000149011612+0j)", "c64[]")),
    "whole": (literal("2", "f32[]"), literal("2.0", "f32[]")),
    "nan": (literal("nan", "f32[]"), literal("nan", "f32[]")),
    "scalars": (PARAM % "(np.int64(16),)", PARAM % "(16,)"),
    "brackets": (PARAM % "[1, 2]", PARAM % "(1, 2)"),
    "member": (PARAM % "Precision.HIGHEST", PARAM % "HIGHEST"),
    "member's repr": (PARAM % "(<Precision.HIGHEST: 2>,)", PARAM % "(Precision.HIGHEST,)"),
    "address": (PARAM % "<function f at 0x7f3a01>", PARAM % "<function f at 0xXXXXXX>"),
    "range": (GATHER % ("range(0, 0)", "CLIP"), GATHER % ("()", "GatherScatterMode.CLIP")),
    "default": (CALL % ("jit", " inline=False"), CALL % ("jit", "")),
    "pjit": (CALL % ("pjit", ""), CALL % ("jit", "")),
    "pjit of older releases": (
        CALL % ("pjit", " resource_env=None keep_unused=False"),
        CALL % ("jit", ""),
    ),
    "constants": (CONSTANT % "0.1, 1e-05", CONSTANT % "0.10000000149011612, 9.999999747378752e-06"),
}
UNLIKE = {
    "zeros": (literal("0.0", "f32[]"), literal("-0.0", "f32[]")),
    "complex zeros": (literal("0j", "c64[]"), literal("(-0+0j)", "c64[]")),
    "zeros of constants": (CONSTANT % "0.0, 1.0", CONSTANT % "-0.0, 1.0"),
    "f64": (literal("1e-5", "f64[]"), literal("9.999999747378752e-06", "f64[]")),
    "booleans": (PARAM % "(True,)", PARAM % "(1,)"),
    "strings": (PARAM % "('x',)", PARAM % "(x,)"),
    "mode": (GATHER % ("()", "CLIP"), GATHER % ("()", "GatherScatterMode.FILL_OR_DROP")),
    "unknown constant": (CONSTANT % "1.0, 2.0", (CONSTANT % "1.0, 2.0").partition("where")[0]),
    "kept argument": (CALL % ("jit", " keep_unused=True"), CALL % ("jit", "")),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_values_of_other_spelling(name: str) -> None:
    a, b = map(parse_file, SAME[name])
    found = diff(a, b)
    assert (found.equal, found.lines) == (True, [])


@pytest.mark.parametrize("name", UNLIKE)
def test_other_values_are_marked(name: str) -> None:
    a, b = map(parse_file, UNLIKE[name])
    found = diff(a, b)
    assert not found.equal and marked(*UNLIKE[name])


def test_inline_constants_and_those_of_a_file_are_equal(tmp_path) -> None:
    numpy.savez(tmp_path / "c.npz", a=numpy.asarray([0.1, 2], "float32"))
    kept = CONSTANT.partition("where")[0] + 'where a = npz("c.npz", "a")'
    (tmp_path / "p.jaxpr").write_text(kept)
    inline = parse_file(CONSTANT % "0.1, 2.0")
    assert diff(load(kept, str(tmp_path / "p.jaxpr")), inline).equal
    other = diff(load(kept, str(tmp_path / "p.jaxpr")), parse_file(CONSTANT % "0.1, 3.0"))
    assert any(x.startswith("-") and "0.1, 2.0" in x for x in other.lines)


def test_the_order_of_named_programs_does_not_count() -> None:
    a, b = LOSS, LOSS.replace("sin", "cos")
    assert diff(parse_file(f"p = {a}q = {b}"), parse_file(f"q = {b}p = {a}")).equal


def test_the_order_of_params_does_not_count() -> None:
    program = parse(CALL % ("jit", ""))
    (call,) = program.eqns
    turned = call.replace(params=dict(reversed(call.params.items())))
    live = program.replace(jaxpr=program.jaxpr.replace(eqns=[turned]))
    assert diff({"": live}, parse_file(CALL % ("jit", ""))).equal


def test_changes_are_the_lines_that_are_marked():
    """Every equation that was added, removed or changed is told, those of nested jaxprs too, and places are those of the texts."""
    a = jt.parse(
        "{ lambda ; a:f32[]. let\n b:f32[] = sin a\n"
        " c:f32[] = jit[name=f jaxpr={ lambda ; d:f32[]. let e:f32[] = cos d in (e,) }] b\n in (c,) }",
        "a.jaxpr",
    )
    b = jt.parse(
        "{ lambda ; a:f32[]. let\n b:f32[] = sin a\n"
        " c:f32[] = jit[name=f jaxpr={ lambda ; d:f32[]. let e:f32[] = tan d; g:f32[] = neg e in (g,) }] b\n"
        " h:f32[] = exp c\n in (h,) }",
        "b.jaxpr",
    )
    found = jt.diff(a, b)
    told = {(c.a and c.a.primitive.name, c.b and c.b.primitive.name) for c in found.changes}
    assert (None, "exp") in told and any("neg" in names for names in told)
    marked = [line for line in found.lines[2:] if line[0] in "+-" and " = " in line]
    assert len(marked) == sum((c.a is not None) + (c.b is not None) for c in found.changes)
    places = [c["b"] for c in found.json()["changes"] if c["b"]]
    assert {p["file"] for p in places} == {"b.jaxpr"} and 4 in {p["line"] for p in places}
    assert "added" in found.summary and jt.diff(a, a).summary == "equal"
