"""Decide whether a lossless text needs types of its literals, in the dialect of a release that
prints none (to JAX 0.6.0), and of its variables, in one that prints no types at all (to 0.2.21).

Such a text is read by inference (`infer.py`). The types are left out where the inference finds all
of them.
"""

from __future__ import annotations

import warnings
from typing import Any

from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit
from jaxprtool.ir.walk import map_programs
from jaxprtool.syntax.infer import UntypedWarning, reachable
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.printing.classic import ClassicPrinter
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.releases.dialects import Dialect

__all__ = ["needs_types"]


def needs_types(program: ClosedJaxpr, said: ClosedJaxpr, dialect: Dialect, relaid: bool) -> bool:
    """Whether a lossless text without types of literals cannot be read back as the same program.

    Then all literals are printed with types: a text with a type for only some of them would not be
    one of that release.

    Args:
      program: the program, with equations as the release has them.
      said: the program as it is read.
      dialect: the dialect of the text, in which literals have no types.
      relaid: whether the program is laid out as if it were made anew.
    """
    found = _types(said, dialect)
    if not found:
        return False
    bare = map_programs(program, _without_values)
    printer = ClassicPrinter if dialect.is_classic else Printer
    text = printer(bare, True, 80, dialect=dialect, relaid=relaid, untyped=True).text()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UntypedWarning)
            read = _types(parse_file(text, own=True)[""], dialect)
    except (JaxprToolError, UntypedWarning):
        return True
    return len(read) != len(found) or not all(map(_same, found, read))


def _same(x: Any, y: Any) -> bool:
    if type(x) is not type(y):
        return False
    return x == y if type(x) is not Lit else x.aval == y.aval and repr(x.val) == repr(y.val)


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without the values of its constants: no type depends on them, and they may be long."""
    return program.replace(consts=(None,) * len(program.consts)) if program.consts else program


def _types(program: ClosedJaxpr, dialect: Dialect) -> list[Any]:
    """Return the literals of a program, in the order of its jaxprs and equations; in the classic
    layout also the types of its variables.
    """
    jaxprs = [*reachable([program.jaxpr])]
    atoms = (x for j in jaxprs for xs in (*[e.inputs for e in j.eqns], j.outs) for x in xs)
    found: list[Any] = [x for x in atoms if type(x) is Lit]
    if dialect.is_classic:
        for j in jaxprs:
            found += [v.aval for v in j.all_binders]
            found += [v.aval for e in j.eqns for v in e.out_binders]
    return found
