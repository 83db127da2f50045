"""Texts of earlier releases with one mistake, of a kind that people and other tools make.

Reading and checking refuse such a text at a place in it, or no verb breaks on the program (see `checked_programs`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jaxprtool as jt
from jaxprtool.syntax.parse import parse_file
from tests.fuzz.choice import choose
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets import checked_programs
from tests.fuzz.targets.checked_texts import Case

FOLDER = Path(__file__).parents[1] / "earlier"  # five texts of each of some releases
SEPARATOR = "\n----\n"

_PARAM = re.compile(r"\b([a-z_]+)=(\([^()]*\)|\[[^\[\]]*\]|[^\s\[\]{}(),]+)")
_OPERAND = re.compile(r"(?<=[\] ])[a-z]{1,2}(?=[ \n])")
_PAIR = re.compile(r"(?<=[\] ])([a-z]{1,2}) ([a-z]{1,2})(?=\n)")
_ELEMENT = re.compile(r"\b(?:f|i|u|c|bool|float|int|uint|complex)\d*(?=\[)")
_SHAPE = re.compile(r"(?<=[\dl]\[)[\d,]*(?=\])")
_PRIMITIVE = re.compile(r"(?<== )[a-z_0-9-]+(?=[\[ ])")
_NUMBER = re.compile(r"\b\d+\b")
_BRACKET = re.compile(r"[\[\](){}]")

_VALUES = (
    *("-1", "0", "7", "9" * 25, "()", "(0,)", "(9,)", "(0, 0)", "(-1,)", "(0, 1, 2)", "((0, 0),)"),
    *("None", "True", "1.5", "nan", "1e999", "'x'", "[1]", "{}", "float32", "int32", "f32[3]"),
)
_ELEMENTS = ("f32", "f64", "bf16", "i32", "i4", "u8", "c64", "bool", "key<fry>", "float0")
_SHAPES = ("", "1", "3", "3,4", "0", "2,2,2", "-1", "3,", "n", "9" * 16)
_NUMBERS = ("0", "1", "3", "-1", "00", "0x1", "1_000", "1e5", "9" * 30)
_ODD = ("λ", "é", "\u200b", "\x00", "\t", "\r", "'", '"', "\U0001f600", "\u2028", "\\", "#", ";")


@cache
def texts() -> list[str]:
    """The texts that are kept."""
    return [t for p in sorted(FOLDER.glob("*.txt")) for t in p.read_text().split(SEPARATOR)]


def _one_of(
    pattern: re.Pattern[str], change: Callable[[random.Random, re.Match[str]], str]
) -> Callable[[random.Random, str], str]:
    """A mutation that writes something else where a pattern matches; nothing changes where it does not."""

    def mutated(rng: random.Random, text: str) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        m = rng.choice(found)
        return text[: m.start()] + change(rng, m) + text[m.end() :]

    return mutated


def _renamed(rng: random.Random, m: re.Match[str]) -> str:
    name = rng.choice(("foo", "axis", "axes", "dimension", f"{m[1]}s", m[1][:-1] or "q"))
    return f"{name}={m[2]}"


def _another_primitive(rng: random.Random, text: str) -> str:
    names = _PRIMITIVE.findall(text)
    return _one_of(_PRIMITIVE, lambda rng, m: rng.choice(names))(rng, text)


def _lines(change: Callable[[random.Random, list[str]], None]) -> Callable[..., str]:
    def mutated(rng: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(rng, lines)
        return "\n".join(lines)

    return mutated


def _cut(rng: random.Random, lines: list[str]) -> None:
    del lines[rng.randrange(len(lines))]


def _moved(rng: random.Random, lines: list[str]) -> None:
    line = lines.pop(rng.randrange(len(lines)))
    lines.insert(rng.randrange(len(lines) + 1), line)


def _odd_character(rng: random.Random, text: str) -> str:
    i = rng.randrange(len(text))
    return text[:i] + rng.choice(_ODD) + text[i:]


MUTATIONS: dict[str, Callable[[random.Random, str], str]] = {
    "a param is missing": _one_of(_PARAM, lambda rng, m: ""),
    "a param twice": _one_of(_PARAM, lambda rng, m: f"{m[0]} {m[0]}"),
    "another name of a param": _one_of(_PARAM, _renamed),
    "another value": _one_of(_PARAM, lambda rng, m: f"{m[1]}={rng.choice(_VALUES)}"),
    "operands exchanged": _one_of(_PAIR, lambda rng, m: f"{m[2]} {m[1]}"),
    "another operand": _one_of(_OPERAND, lambda rng, m: rng.choice("abcdzq")),
    "an operand is missing": _one_of(_OPERAND, lambda rng, m: ""),
    "one operand more": _one_of(_OPERAND, lambda rng, m: f"{m[0]} {rng.choice('abc')}"),
    "another element type": _one_of(_ELEMENT, lambda rng, m: rng.choice(_ELEMENTS)),
    "another shape": _one_of(_SHAPE, lambda rng, m: rng.choice(_SHAPES)),
    "another primitive": _another_primitive,
    "another number": _one_of(_NUMBER, lambda rng, m: rng.choice(_NUMBERS)),
    "a bracket is missing": _one_of(_BRACKET, lambda rng, m: ""),
    "a bracket more": _one_of(_BRACKET, lambda rng, m: m[0] + rng.choice("[](){}")),
    "a line is missing": _lines(_cut),
    "a line elsewhere": _lines(_moved),
    "an odd character": _odd_character,
}


def draw(rng: random.Random) -> Case:
    text = choose(rng, texts())
    for _ in range(rng.choice((1, 1, 1, 2))):
        text = MUTATIONS[choose(rng, [*MUTATIONS])](rng, text)
    return Case(text, rng.randrange(1 << 30))


def check(case: Case) -> None:
    programs: dict[str, Any] = {}
    try:
        programs = parse_file(case.text)
        for program in programs.values():
            jt.typecheck_jaxpr(program)
    except jt.JaxprToolError as error:
        length = len(case.text)
        for d in error.diagnostics:
            if d.span is None or not 0 <= d.span.start <= length:
                raise Failure(f"no place in the text: {d.message} [{d.code}]") from error
        return
    for program in programs.values():
        checked_programs.check(checked_programs.Case(program, case.seed))


TARGET = Target("earlier-texts", draw, check, lambda case: case.text)
