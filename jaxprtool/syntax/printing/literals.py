"""Decide whether a lossless text needs types of its literals, in the dialect of a release that
prints none (to JAX 0.6.0).

Such a text is read by inference (`infer.py`). The types are left out where the inference finds all
of them.
"""

from __future__ import annotations

from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit
from jaxprtool.ir.walk import map_programs
from jaxprtool.syntax.infer import reachable
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.releases.dialects import Dialect

__all__ = ["needs_types"]


def needs_types(program: ClosedJaxpr, dialect: Dialect, relaid: bool) -> bool:
    """Whether a lossless text without types of literals cannot be read back as the same program.

    Then all literals are printed with types: a text with a type for only some of them would not be
    one of that release.

    Args:
      program: the program.
      dialect: the dialect of the text, in which literals have no types.
      relaid: whether the program is laid out as if it were made anew.
    """
    literals = _literals(program)
    if not literals:
        return False
    bare = map_programs(program, _without_values)
    text = Printer(bare, True, 80, dialect=dialect, relaid=relaid, untyped=True).text()
    try:
        read = _literals(parse_file(text, own=True)[""])
    except JaxprToolError:
        return True
    return len(read) != len(literals) or not all(map(_same, literals, read))


def _same(x: Lit, y: Lit) -> bool:
    return x.aval == y.aval and repr(x.val) == repr(y.val)


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without the values of its constants: no type depends on them, and they may be long."""
    return program.replace(consts=(None,) * len(program.consts)) if program.consts else program


def _literals(program: ClosedJaxpr) -> list[Lit]:
    """Return the literals of a program, in the order of its jaxprs and equations."""
    jaxprs = reachable([program.jaxpr])
    atoms = (x for j in jaxprs for xs in (*[e.inputs for e in j.eqns], j.outs) for x in xs)
    return [x for x in atoms if type(x) is Lit]
