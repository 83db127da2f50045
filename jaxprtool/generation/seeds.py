"""Seeds: small programs that use each primitive, from which random programs are made.

They are in `seeds.jaxpr`, as `PRIMITIVE_N = { lambda ... }`, and are the examples of the test suite
(`tests/generation/test_seeds.py` writes the file).
"""

from __future__ import annotations

import functools
from pathlib import Path

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse_file

__all__ = ["SEEDS_PATH", "primitives_in", "seeds"]

SEEDS_PATH = Path(__file__).with_name("seeds.jaxpr")


@functools.cache
def seeds() -> dict[str, list[ClosedJaxpr]]:
    """Return small well-typed programs, by the name of the primitive that each is an example of."""
    found: dict[str, list[ClosedJaxpr]] = {}
    for name, program in parse_file(SEEDS_PATH.read_text(encoding="utf-8")).items():
        found.setdefault(name.rpartition("_")[0], []).append(program)
    return found


def primitives_in(program: ClosedJaxpr) -> set[str]:
    """Return the names of the primitives of a program, at any depth."""
    return {eqn.primitive.name for eqn in all_eqns(program.jaxpr)}
