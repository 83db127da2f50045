"""Options of diff: what is ignored, tolerances, constants; and what the parts of a difference say."""

from __future__ import annotations

import json
import re

import jax
import numpy
import pytest

import jaxprtool as jt
from jaxprtool.driver.diff import Difference, diff
from jaxprtool.driver.storage.files import load
from jaxprtool.syntax.parse import parse_file

LOSS = """{ lambda ; a:f32[3] b:f32[]. let
    c:f32[3] = sin a
    d:f32[3] = cos a
    e:f32[3] = mul c d
    f:f32[3] = mul e b
  in (f,) }
"""
CALL = """{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=%s jaxpr={ lambda ; a:f32[3]. let b:f32[3] = %s; c:f32[3] = %s; d:f32[3] = add b c in (d,) }] a
  in (b,) }
"""
EFFECTS = """{ lambda ; a:f32[] b:f32[]. let
    c:f32[] = sin a
    debug_print[fmt=%s ordered=False partitioned=False] a
    debug_print[fmt=%s ordered=False partitioned=False] b
  in (c,) }
"""


def found(a: str, b: str, **how) -> Difference:
    return diff(parse_file(a), parse_file(b), **how)


def swapped(text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines[1:3] = lines[2], lines[1]
    return "".join(lines)


CONVERT = "{ lambda ; a:i32[3]. let b:f32[3] = convert_element_type[new_dtype=float32 weak_type=%s] a in (b,) }"
CONSTANT = "{ lambda a:f32[2]; b:f32[2]. let c:f32[2] = add a b in (c,) }\nwhere a = [%s]"
DOT = "{ lambda ; a:f32[3] b:f32[3]. let c:f32[] = dot_general[dimension_numbers=(([0], [0]), ([], [])) precision=%s] a b in (c,) }"
SIZED = """{ lambda ; a:f32[%(n)d]. let
    b:f32[2,%(n)d] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, %(n)d) sharding=None] a
    c:f32[1,%(n)d] = slice[limit_indices=(1, %(n)d) start_indices=(0, 0) strides=None] b
    d:f32[%(n)d] = reshape[dimensions=None new_sizes=(%(n)d,) sharding=None] c
  in (d,) }
"""
# What is ignored, and two programs that differ in that alone.
IGNORED = {
    "order": (LOSS, swapped(LOSS)),
    "names": (CALL % ("f", "sin a", "cos a"), CALL % ("g", "sin a", "cos a")),
    "weak": (CONVERT % True, CONVERT % False),
    "consts": (CONSTANT % "1.0, 2.0", CONSTANT % "1.0, 3.0"),
    "shapes": (SIZED % {"n": 4}, SIZED % {"n": 8}),
    "params:precision": (DOT % None, DOT % "HIGHEST"),
}


@pytest.mark.parametrize("word", IGNORED)
@pytest.mark.parametrize("other", IGNORED)
def test_each_word_ignores_what_it_says_and_nothing_else(word: str, other: str) -> None:
    a, b = IGNORED[word]
    assert not found(a, b).equal
    assert found(a, b, ignore=[other]).equal is (word == other)
    assert found(a, b, ignore=[*IGNORED]).equal


WEAK = "{ lambda ; a:f32[] b:f32[3]. let c:f32[3] = mul a b in (c,) }\nwhere weak a\n"
STRONG = WEAK.replace("where weak a", "args (x=*, y=*) -> *")


def test_a_weakly_typed_argument_is_another_one() -> None:
    """It makes another program, as its hash says; of other variables the text of JAX does not tell."""
    strong = STRONG
    there = found(strong, WEAK)
    assert not there.equal and there.summary == "a is weakly typed"
    assert "+{ lambda ; a:f32[] b:f32[3]. let  # a is weakly typed" in there.lines
    assert found(WEAK, strong).summary == "a is not weakly typed"
    assert found(strong, WEAK, ignore=["weak"]).equal and found(WEAK, WEAK).equal
    assert not found(strong, WEAK, ignore=["order", "names", "consts", "shapes"]).equal
    inside = "{ lambda ; a:f32[]. let b:f32[] = exp 1.0:f32[] in (b,) }"
    assert found(inside, f"{inside}\nwhere weak b\n").equal


def test_what_jax_prints_says_nothing_of_weak_types() -> None:
    printed = WEAK.partition("where")[0]
    assert (
        found(printed, WEAK).equal and found(WEAK, printed).equal and found(printed, STRONG).equal
    )
    live = jax.make_jaxpr(lambda x, y: x * y)(1.0, numpy.ones(3, numpy.float32))
    assert jt.diff(jt.from_jax(live), jt.parse(str(live))).equal


def test_diff_and_hash_agree_on_weak_types() -> None:
    programs = [jt.parse(text) for text in (WEAK, STRONG)]
    for a in programs:
        for b in programs:
            assert jt.diff(a, b).equal is (jt.hash_program(a) == jt.hash_program(b)) is (a is b)
            assert jt.diff(a, b, ignore=["weak"]).equal


def test_order_within_nested_jaxprs() -> None:
    a, b = CALL % ("f", "sin a", "cos a"), CALL % ("f", "cos a", "sin a")
    b = b.replace("add b c", "add c b")
    assert not found(a, b).equal and found(a, b, ignore=["order"]).equal


def test_a_jaxpr_in_a_param_that_is_ignored_makes_no_difference() -> None:
    a, b = CALL % ("f", "sin a", "cos a"), CALL % ("f", "sin a", "tan a")
    assert found(a, b, ignore=["params:jaxpr"]).equal
    other = found(a, b.replace("name=f", "name=g"), ignore=["params:jaxpr"])
    assert other.summary == "1 changed: 1 jit"
    assert found(a, b.replace("name=f", "name=g"), ignore="params:jaxpr").summary == other.summary


def test_order_of_effects_counts() -> None:
    a = EFFECTS % ("x", "y")
    first, second = re.findall(r"    debug_print.*\n", a)
    turned = a.replace(first, "@").replace(second, first).replace("@", second)
    assert not found(a, turned, ignore=["order"]).equal
    sin = "    c:f32[] = sin a\n"
    later = a.replace(sin, "").replace("  in (c", sin + "  in (c")
    assert not found(a, later).equal and found(a, later, ignore=["order"]).equal


def test_order_tells_apart_what_only_their_use_does() -> None:
    """Two equations that compute the same can stand for each other only with all that reads them."""
    body = "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = sin a; d:f32[] = %s; e:f32[] = %s in (d, e) }"
    a = body % ("neg b", "exp c")
    assert found(a, body % ("neg c", "exp b"), ignore=["order"]).equal
    assert not found(a, body % ("neg b", "exp b"), ignore=["order"]).equal


def test_a_word_that_is_unknown_is_refused() -> None:
    with pytest.raises(jt.UsageError, match="cannot ignore 'shape'"):
        found(LOSS, LOSS, ignore=["shape"])
    with pytest.raises(jt.UsageError, match="rtol is -1"):
        found(LOSS, LOSS, rtol=-1.0)
    with pytest.raises(jt.UsageError, match="atol is nan"):
        found(LOSS, LOSS, atol=float("nan"))


# ---- values


@pytest.mark.parametrize(
    "a, b, near, equal",
    [
        ("1.0, 2.0", "1.0, 2.0000002", {"rtol": 1e-6}, True),
        ("1.0, 2.0", "1.0, 2.01", {"rtol": 1e-6}, False),
        ("1.0, 2.0", "1.0, 2.01", {"atol": 0.02}, True),
        ("0.0, 2.0", "-0.0, 2.0", {"rtol": 0.0}, True),
        ("nan, inf", "nan, inf", {"rtol": 1.0}, True),
        ("nan, inf", "nan, -inf", {"rtol": 1e9}, False),
        ("nan, inf", "0.0, inf", {"atol": 1e30}, False),
        ("inf, 1.0", "3e38, 1.0", {"rtol": 1.0}, False),
    ],
)
def test_constants_within_a_tolerance(a: str, b: str, near: dict[str, float], equal: bool) -> None:
    one, other = CONSTANT % a, CONSTANT % b
    assert found(one, other, **near).equal is found(other, one, **near).equal is equal


def test_integers_are_compared_exactly() -> None:
    text = "{ lambda ; a:i32[]. let b:i32[] = add a %d:i32[] in (b,) }"
    assert not found(text % 1, text % 2, atol=10.0).equal


@pytest.mark.parametrize("form", ["inline", "bytes", "npz"])
def test_constants_are_summed_up(form: str, tmp_path) -> None:
    a = numpy.arange(90_000, dtype="float32") / 90_000
    b = a.copy()
    b[70_000] = numpy.nextafter(b[70_000], numpy.float32(2))
    body = "{ lambda w:f32[90000]; x:f32[90000]. let y:f32[90000] = mul x w in (y,) }\n"
    programs = []
    for name, values in (("a", a), ("b", b)):
        program = jt.ClosedJaxpr(jt.parse(body).jaxpr, [values])
        if form == "inline":
            text = body + f"where w = {values.tolist()}"
        elif form == "bytes":
            text = jt.format_jaxpr(program, lossless=True)
        else:
            jt.save(program, tmp_path / f"{name}.jaxpr")
            text = (tmp_path / f"{name}.jaxpr").read_text()
        programs.append(load(text, str(tmp_path / f"{name}.jaxpr")))
    told = diff(*programs[:2])  # type: ignore[call-arg]
    assert told.summary == "constant w: 1 of 90,000 differ, max 5.96e-08"
    (constant,) = told.json()["constants"]
    assert (constant["a"], constant["different"], constant["size"]) == ("w", 1, 90_000)
    assert diff(programs[0], programs[1], rtol=1e-6).equal
    assert diff(programs[0], programs[1], ignore=["consts"]).equal


# ---- what is said


def test_a_block_that_has_moved() -> None:
    block = "".join(f"    m{i}:f32[3] = tanh {f'm{i - 1}' if i else 'a'}\n" for i in range(20))
    chain = "".join(f"    n{i}:f32[3] = exp {f'n{i - 1}' if i else 'a'}\n" for i in range(40))
    text = "{ lambda ; a:f32[3]. let\n%s%s  in (m19, n39) }\n"
    told = found(text % (block, chain), text % (chain, block))
    assert told.summary == "20 moved: 20 tanh"
    assert {c.kind for c in told.changes} == {"moved"}
    assert told.lines[4].endswith("# moved to line 42")
    assert found(text % (block, chain), text % (chain, block), ignore=["order"]).equal


def test_a_block_that_has_moved_and_reads_another_value() -> None:
    block = "".join(f"    m{i}:f32[3] = tanh {f'm{i - 1}' if i else '%s'}\n" for i in range(20))
    chain = "".join(f"    n{i}:f32[3] = exp {f'n{i - 1}' if i else 'a'}\n" for i in range(40))
    text = "{ lambda ; a:f32[3]. let\n%s%s  in (m19, n39) }\n"
    told = found(text % (block % "a", chain), text % (chain, block % "n5"))
    assert told.summary == "1 changed: 1 tanh; 19 moved: 19 tanh"
    assert [c.moved for c in told.changes] == [True] * 20


def test_element_types_and_where_they_changed() -> None:
    text = """{ lambda ; a:%(t)s[3]. let
    b:%(t)s[3] = sin a # model.py:4:4 (f)
                     # [attn]
    c:%(t)s[3] = cos b # model.py:5:4 (f)
                     # [attn]
  in (c,) }
"""
    told = found(text % {"t": "f32"}, text % {"t": "f64"})
    assert told.summary.startswith("2 changed: 1 sin, 1 cos; f32 to f64 at attn; arguments: ")
    assert "model.py:4:5 in attn" in told.lines[2]


def test_signatures_are_told() -> None:
    told = lambda old, new: found(LOSS, LOSS.replace(old, new)).summary
    assert told("in (f,)", "in (f, e)") == "1 result to 2"
    assert told("in (f,)", "in (e,)") == "other results"
    assert told("b:f32[]", "b:f32[] z:i32[]") == "2 arguments to 3"


def test_lines_that_read_alike_say_what_their_names_are() -> None:
    """`mul c d` is written in both, where c and d are exchanged."""
    other = LOSS.replace("c:f32[3] = sin", "@").replace("d:f32[3] = cos", "c:f32[3] = cos")
    told = found(LOSS, other.replace("@", "d:f32[3] = sin"))
    (line,) = [x for x in told.lines if x.startswith("+ ") and "e:" in x]
    assert line.endswith("= mul c d  # c is d in A, d is c in A")


def test_names_are_those_of_the_files_and_of_both_where_they_differ() -> None:
    other = LOSS.replace("e:", "q:").replace("mul e", "mul q").replace("cos", "tan")
    told = found(LOSS, other)
    assert told.lines[2] == "@@ -1,6 +1,6 @@"
    assert "     e:f32[3] = mul c d  # e is q in B" in told.lines


def test_json_has_the_keys_that_the_help_names() -> None:
    told = found(LOSS, LOSS.replace("sin", "tan")).json()
    assert [*told] == ["schema", "equal", "summary", "changes", "constants", "lines"]
    assert [*told["changes"][0]] == ["kind", "a", "b", "moved"]
    json.dumps(told)


def test_places_say_the_way_through_nested_jaxprs() -> None:
    told = found(CALL % ("f", "sin a", "cos a"), CALL % ("f", "sin a", "tan a")).json()
    (change,) = told["changes"]
    assert [step["primitive"] for step in change["a"]["path"]] == ["jit"]


# ---- pages and folders


def test_a_page_is_whole_and_escapes_what_programs_hold() -> None:
    name = "'<script>alert(1)</script>'"
    a, b = (CALL % (name, "sin a", x) for x in ("cos a", "tan a"))
    page = found(a, b, name_a="<a>", name_b='"b"').html()
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert "<script" not in page and "<a>" not in page and "&lt;script&gt;" in page
    assert "http" not in page
    assert 'class="added"' in page and 'class="removed"' in page
