"""Kinds of functions: jaxprs, names, and texts."""

from __future__ import annotations

from typing import Annotated, Any

from jaxprtool.core.kinds.containers import NOTHING, either
from jaxprtool.core.kinds.numbers import INTEGER
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Opaque, ParamValue, Record

__all__ = [
    "JAXPR",
    "NAME",
    "TEXT",
    "JaxprKind",
    "NameKind",
    "SolverJaxprs",
    "SolverLengths",
    "Text",
    "TextKind",
]


class JaxprKind(Kind):
    """Jaxprs, with the values of their constants."""

    holds_jaxprs = True

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, ClosedJaxpr)


class NameKind(Kind):
    """Names, which a text holds as they are. Functions have names such as `<lambda>`, which are no words."""

    spelling = "name"

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (str, Opaque))

    def read_text(self, text: str) -> Any:
        return text.strip()


class TextKind(NameKind):
    """Free text, which may hold anything."""

    spelling = "free"

    def read_text(self, text: str) -> Any:
        return text


class SolverTuple(Kind):
    """Records of something for each jaxpr of a linear solver."""

    code = "param-value"
    _FIELDS = ("matvec", "vecmat", "solve", "transpose_solve")

    def __init__(self, name: str, item: Kind):
        super().__init__(name, f"a record of {item.many}", f"records of {item.many}")
        self.note = f"its fields are {', '.join(self._FIELDS)}"
        self.item, self.holds_jaxprs = item, item.holds_jaxprs

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, Record) and all(
            f in value.fields and self.item.fits(value.fields[f]) for f in self._FIELDS
        )


JAXPR = JaxprKind("ClosedJaxpr", "a jaxpr", "jaxprs")
NAME = NameKind("str", "a name", "names")
TEXT = TextKind("Text", "a text", "texts")

SOLVER_JAXPRS = SolverTuple("SolverJaxprs", either(JAXPR, NOTHING))
SOLVER_LENGTHS = SolverTuple("SolverLengths", INTEGER)

SolverJaxprs = Annotated[Any, SOLVER_JAXPRS]
SolverLengths = Annotated[Any, SOLVER_LENGTHS]
Text = Annotated[str, TEXT]
