"""Which literals a lossless text has no types for, in the dialect of a release that prints none (to JAX 0.6.0).

Such a text is read by inference (`infer.py`). A literal goes without its type where that is what the inference finds.
"""

from __future__ import annotations

from collections.abc import Collection

from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit
from jaxprtool.ir.walk import map_programs
from jaxprtool.syntax.infer import reachable
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.releases.dialects import Dialect

__all__ = ["untyped_literals"]

_NUMBERS = frozenset({bool, int, float, complex})


def untyped_literals(program: ClosedJaxpr, dialect: Dialect, relaid: bool) -> Collection[int]:
    """The ids of the literals of a program whose types are found again in its lossless text without them.

    Args:
      program: the program.
      dialect: that of the text, in which literals have no types.
      relaid: whether the program is laid out as if it were made anew.
    """
    literals = _literals(program)
    if not literals:
        return ()
    bare = map_programs(program, _without_values)
    candidates = {id(x) for x in literals if type(x.val) in _NUMBERS and x.val == x.val}
    for _ in range(2):  # with some types more may be found, or others
        text = Printer(bare, True, 80, dialect=dialect, relaid=relaid, untyped=candidates).text()
        try:
            read = _literals(parse(text))
        except JaxprToolError:
            return ()
        if len(read) != len(literals):
            return ()
        found = {id(x) for x, y in zip(literals, read, strict=True) if _same(x, y)}
        if found.issuperset(candidates):
            return candidates
        candidates &= found
    return ()


def _same(x: Lit, y: Lit) -> bool:
    return x.aval == y.aval and repr(x.val) == repr(y.val)


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the values of its constants: no type depends on them, and they may be long."""
    return program.replace(consts=(None,) * len(program.consts)) if program.consts else program


def _literals(program: ClosedJaxpr) -> list[Lit]:
    """The literals of a program, in the order of its jaxprs and equations."""
    jaxprs = reachable([program.jaxpr])
    atoms = (x for j in jaxprs for xs in (*[e.inputs for e in j.eqns], j.outs) for x in xs)
    return [x for x in atoms if type(x) is Lit]
