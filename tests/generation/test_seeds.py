"""The seeds of random programs are the examples of the test suite: `pytest --update-golden` writes them anew."""

from __future__ import annotations

import re

import pytest

import jaxprtool as jt
from jaxprtool.generation.seeds import SEEDS_PATH, seeds
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.print import format_file
from tests.laws.oracle import EXAMPLES, by_structure, ours

_ADDRESS = re.compile(r"\b0x[0-9a-f]+")  # of an object, in the text of a param that only JAX holds


def expected() -> dict[str, ClosedJaxpr]:
    """A program for each example that differs from the others in more than the width of its types."""
    found: dict[str, list[ClosedJaxpr]] = {}
    for example in by_structure(EXAMPLES):
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
        plain = ClosedJaxpr(program.jaxpr, program.consts)
        found.setdefault(example.primitive.name, []).append(plain)
    return {f"{name}_{i}": p for name, ps in found.items() for i, p in enumerate(ps)}


def test_the_file_holds_the_examples(request: pytest.FixtureRequest) -> None:
    text = _ADDRESS.sub("0x1", format_file(expected(), lossless=True))
    if request.config.getoption("--update-golden"):
        SEEDS_PATH.write_text(text)
    assert text == SEEDS_PATH.read_text(), "run pytest --update-golden and review the difference"


def test_each_seed_is_well_typed() -> None:
    for programs in seeds().values():
        for program in programs:
            jt.typecheck_jaxpr(program)
