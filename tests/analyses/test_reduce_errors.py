"""reduce --check-error: any code of `check`, also of a text that is no program."""

from __future__ import annotations

import json
import re

import pytest

from jaxprtool.linter.messages import MESSAGES
from tests.invoke import invoke
from tests.linter.test_pages import WARNINGS
from tests.zoo.oracle import FOLDER

EXAMPLES = {
    page.code: page.example.bad.text
    for page in MESSAGES
    if page.command == "check" and page.code not in WARNINGS and page.code != "more"
}
# Where a text is no jaxpr, an equation more changes what is wrong with it.
MORE = """    p0:f32[] = sin 1.0:f32[]
    p1:f32[] = mul p0 2.0:f32[]
    p2:f32[] = add p1 nobody
"""


def said(text: str) -> set[str]:
    """The codes that `check` reports."""
    done = invoke(["check", "-", "--error-format", "json"], text)
    lines = [json.loads(line) for line in done.error.splitlines()]
    return {d["code"] for d in lines if d["severity"] == "error"}


def reduced(code: str, text: str) -> str:
    done = invoke(["reduce", "--check-error", code, "-"], text)
    assert done.status == 0, done.error
    return done.output


@pytest.mark.parametrize("code", EXAMPLES)
def test_every_code_of_check_is_one_to_reduce_by(code: str) -> None:
    small = reduced(code, EXAMPLES[code])
    assert code in said(small)


@pytest.mark.parametrize("code", [c for c in EXAMPLES if c != "unbound-variable"])
def test_and_so_it_is_beside_a_variable_that_nobody_binds(code: str) -> None:
    """The text is not read as a program then; what has nothing to do with the error goes."""
    head = re.compile(r"let *\n")
    if not head.search(EXAMPLES[code]):
        pytest.skip("the example has no line to put others behind")
    text = head.sub(lambda m: m[0] + MORE, EXAMPLES[code], count=1)
    if code not in said(text):
        pytest.skip("the error hides behind the others")
    small = reduced(code, text)
    assert code in said(small)
    assert "nobody" not in small
    assert not re.search(r"\bp[01]\b", small)


LONG = 400


def chain(last: str) -> str:
    """A long chain of equations with a line in the middle, which the rest has nothing to do with."""
    lines = [f"    x{i + 1}:f32[3,4] = sin x{i}" for i in range(LONG)]
    lines.insert(LONG // 2, f"    {last}")
    body = "\n".join(lines)
    return f"{{ lambda ; x0:f32[3,4] y:f32[4]. let\n{body}\n  in (x{LONG}, y) }}\nargs (x=*, y=*) -> (*, *)\n"


@pytest.mark.parametrize(
    ("code", "line", "left"),
    [
        ("unbound-variable", f"z:f32[3,4] = mul x{LONG // 2} nobody", 1),
        ("bound-twice", f"x{LONG // 4}:f32[3,4] = neg x{LONG // 2}", 2),
        ("bad-type", f"z:f32[3,,4] = neg x{LONG // 2}", 1),
    ],
)
def test_of_a_long_text_a_line_or_two_are_left(code: str, line: str, left: int) -> None:
    """What an equation before it has given is an argument."""
    small = reduced(code, chain(line))
    assert said(small) == {code}
    assert small.count(" = ") <= left
    assert len(small) < 120


def test_equations_of_many_lines_and_definitions_go_whole() -> None:
    """Loops in loops and calls: what opens a bracket and what closes it are far from each other."""
    text = (FOLDER / "beam_search.jaxpr").read_text()
    operands = [*re.finditer(r"= (?:mul|add|sub) ([a-z]+)\b", text)]
    at = operands[len(operands) // 2]
    small = reduced("unbound-variable", f"{text[: at.start(1)]}nobody{text[at.end(1) :]}")
    assert said(small) == {"unbound-variable"} and "nobody" in small
    assert text.count("\n") > 300 and small.count("\n") <= 12


def test_the_document_of_a_text(tmp_path) -> None:
    whole, small = tmp_path / "whole.jaxpr", tmp_path / "small.jaxpr"
    whole.write_text(chain("z:f32[3,4] = mul x200 nobody"))
    words = ["reduce", "--check-error", "unbound-variable", str(whole), "-o", str(small), "--json"]
    done = invoke(words)
    found = json.loads(done.output)
    assert found["failure"] == {"code": "unbound-variable", "message": "nobody is not bound"}
    assert found["before"]["lines"] == LONG + 4 and found["after"]["lines"] <= 3
    assert found["file"] == str(small) and said(small.read_text()) == {"unbound-variable"}


def test_sizes_are_those_of_the_whole_program_where_it_is_one_without_a_line(tmp_path) -> None:
    """What is left when the text is a program goes on as any program does: its shapes get small."""
    text = chain("z:f32[3,4] = mul x200 nobody").replace("x399:f32[3,4] =", "x399:f32[3] =")
    done = invoke(["reduce", "--check-error", "binder-type", "-", "--json"], text)
    found = json.loads(done.output)
    assert found["before"]["eqns"] == LONG + 1 and found["after"]["eqns"] == 1
    assert found["after"]["elements"] < 12


def test_what_is_for_programs_is_refused() -> None:
    for option in (["--scrub"], ["--keep-good", "good.jaxpr"]):
        done = invoke(
            ["reduce", "--check-error", "bad-type", *option, "-"], chain("z:f32[3,,4] = neg y")
        )
        assert done.status == 2 and "the text is none" in done.error


def test_another_code_is_not_found_and_no_code_is_none() -> None:
    text = chain("z:f32[3,,4] = neg y")
    done = invoke(["reduce", "--check-error", "operand-types", "-"], text)
    assert done.status == 1 and "none of the code operand-types: bad-type" in done.error
    assert invoke(["reduce", "--check-error", "bad-tipe", "-"], text).status == 2


MALFORMED = """{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] = add a b
    d:f32[3] = mul c b
    e:f32[3] = tanh d (
    f:f32[3] = sub e a
  in (f,) }
"""


def test_a_command_makes_a_text_shorter_that_is_no_program(tmp_path):
    file, small = tmp_path / "long.jaxpr", tmp_path / "small.jaxpr"
    file.write_text(MALFORMED)
    done = invoke(
        ["reduce", str(file), "--test", "grep -q tanh {}", "--args", "ones", "-o", str(small)]
    )
    assert done.status == 0, done.error
    assert small.read_text().split() == ["tanh"]


def test_a_verb_that_fails_on_a_text_that_is_no_program_fails_on_the_short_one_as_it_did(tmp_path):
    file, small = tmp_path / "long.jaxpr", tmp_path / "small.jaxpr"
    file.write_text(MALFORMED)
    done = invoke(["reduce", str(file), "--crash", "run", "--json", "-o", str(small)])
    assert done.status == 0, done.error
    found = json.loads(done.output)
    assert found["failure"]["code"] == "syntax" and found["after"]["tokens"] <= 10
    error = invoke(["run", str(small), "--json"])
    assert json.loads(error.output)["error"]["code"] == "syntax"


def test_a_text_that_no_command_is_interested_in_has_its_error(tmp_path):
    file = tmp_path / "long.jaxpr"
    file.write_text(MALFORMED)
    for test in ("--test=false {}", "--nan"):
        done = invoke(["reduce", str(file), test])
        assert done.status == 2 and "( is not an operand [syntax]" in done.error


NESTED = """let inner = { lambda ; a:f32[3]. let b:f32[3] = sin a nobody in (b,) } in
{ lambda ; a:f32[3]. let
    b:f32[3] = jit[
      jaxpr={ lambda ; a:f32[3]. let
          b:f32[3] = jit[jaxpr=inner] a
          c:f32[3] = mul b b
        in (c,) }
    ] a
  in (b,) }"""


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_jaxpr_inside_of_others_is_left_alone_and_its_last_line_has_an_end(end: str) -> None:
    small = reduced("unbound-variable", NESTED + end)
    assert small.endswith("}\n") and small.count("\n") == 1
    assert small.count("{") == 1 and "nobody" in small


@pytest.mark.parametrize("code", ["syntax", "unbound-variable", "truncated"])
def test_a_short_text_ends_its_last_line(code: str) -> None:
    text = EXAMPLES.get(code, NESTED)
    assert reduced(code, text.rstrip()).endswith("\n") and reduced(code, text).endswith("\n")
