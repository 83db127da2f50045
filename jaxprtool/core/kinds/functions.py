"""Kinds of functions: jaxprs, names, and texts."""

from __future__ import annotations

import ast
import re
from typing import Annotated, Any

from jaxprtool.core.kinds.containers import NOTHING, either
from jaxprtool.core.kinds.numbers import INTEGER
from jaxprtool.ir.declaration import REQUIRED
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.kinds import Kind, Style
from jaxprtool.ir.params import Opaque, ParamValue, Record, Word

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
    "VmapMethod",
    "labels_of",
    "neutral_names",
]


class JaxprKind(Kind):
    """Jaxprs, with the values of their constants."""

    holds_jaxprs = True

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, ClosedJaxpr)


class NameKind(Kind):
    """Names, which a text holds as they are. Names of functions need not be words (`<lambda>`).

    A function may have any name, and JAX prints it as it is. A name whose end a reader could not
    find is written in quotes, as a Python string.
    """

    spelling = "name"
    prints_itself = False

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (str, Opaque))

    def read_text(self, text: str) -> Any:
        name = text.strip()
        if name[:1] in ("'", '"'):
            found = _unquoted(name)
            return name if found is None else found
        return name

    def printed(self, value: ParamValue, style: Style) -> Any:
        del style
        if not isinstance(value, str) or isinstance(value, Word) or _stands_alone(value):
            return value
        return Opaque(repr(str(value)))


_WORDS = re.compile(r"[\w.<>\-]*(?<!\s)(?: [\w.<>\-]+)*")
_PARTING = re.compile(r"[\s'\"#;,=\\{}]")


def _stands_alone(name: str) -> bool:
    """Whether a reader finds the end of the name where it is written without quotes."""
    if _WORDS.fullmatch(name):
        return not name.startswith(" ")
    if not name.isprintable() or _PARTING.search(name):
        return False
    closing: list[str] = []
    for c in name:
        if c in "([":
            closing.append(")" if c == "(" else "]")
        elif c in ")]" and (not closing or closing.pop() != c):
            return False
    return not closing


def _unquoted(text: str) -> str | None:
    """Return the string of which `text` is the `repr`; None where it is none."""
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return found if isinstance(found, str) and repr(found) == text else None


# Texts that a param cannot hold, since a reader drops or misreads them: carriage returns, colours,
# a line that begins as a param does or closes the list of them, and an annotation.
_LOST = re.compile(
    r"\r|\x1b\[[0-9;]*m|\n {4,}(?:[^\W\d]\w*=|\])"
    r"|# (?=[^#\n]*\)(?:\n|\Z))[^#\n]*?:\d++(?::\d++)? \([^#\n]*\)(?:\n|\Z)"
)


class TextKind(NameKind):
    """Free text, which may hold anything, and which JAX prints as it is.

    Where it could not be read back, a lossless text has `$` and then the text in quotes, as a
    Python string.
    """

    spelling = "free"

    def read_text(self, text: str) -> Any:
        found = _unquoted(text[1:]) if text.startswith(("$'", '$"')) else None
        return text if found is None or not self._needs_quotes(found) else found

    def printed(self, value: ParamValue, style: Style) -> Any:
        quoted = style == "lossless" and isinstance(value, str) and self._needs_quotes(value)
        return Opaque(f"${value!r}") if quoted else value

    def _needs_quotes(self, text: str) -> bool:
        """Whether the text would not be read back as it is, or would be taken for a quoted one."""
        return _LOST.search(text) is not None or self.read_text(text) != text


class OneOfWords(Kind):
    """One of some words, without quotes or with them."""

    def __init__(self, name: str, *words: str):
        listed = f"{', '.join(words[:-1])} or {words[-1]}"
        super().__init__(name, listed, listed)
        self._words = words

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, str) and value in self._words


class SolverTuple(Kind):
    """Records with one item for each jaxpr of a linear solver."""

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
LABEL = NameKind("Label", "a name", "names")  # a label of a value, to which other params may refer
TEXT = TextKind("Text", "a text", "texts")

VMAP_METHOD = OneOfWords(
    "VmapMethod",
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"),
)

SOLVER_JAXPRS = SolverTuple("SolverJaxprs", either(JAXPR, NOTHING))
SOLVER_LENGTHS = SolverTuple("SolverLengths", INTEGER)

SolverJaxprs = Annotated[Any, SOLVER_JAXPRS]
SolverLengths = Annotated[Any, SOLVER_LENGTHS]
Text = Annotated[str, TEXT]
VmapMethod = Annotated[str, VMAP_METHOD]
Label = Annotated[str, LABEL]


def labels_of(eqn: JaxprEqn) -> dict[str, str]:
    """Return the params that give a value a name, to which other params may refer: param -> name."""
    declared = eqn.primitive.params.items()
    names = {k: eqn.params.get(k) for k, d in declared if d.kind is LABEL}
    return {k: name for k, name in names.items() if isinstance(name, str)}


def neutral_names(eqn: JaxprEqn) -> dict[str, str]:
    """Return the params that name functions without affecting what is computed, with their default names.

    Only for operations that hold jaxprs: in others, a name may decide what is computed (such as the
    algorithm of a key).
    """
    if not eqn.primitive.holds_jaxprs:
        return {}
    declared = eqn.primitive.params.items()
    names = {k: d.default for k, d in declared if d.kind is NAME and d.default is not REQUIRED}
    return {k: name for k, name in names.items() if eqn.params.get(k)}
