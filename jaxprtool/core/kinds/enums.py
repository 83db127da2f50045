"""Kinds whose values are members of an enum of JAX's.

A value is the word that JAX prints (`GatherScatterMode.CLIP`, `CLIP`), a string as JAX's functions
take it (`"clip"`), or, in texts of earlier releases, the number of the member.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from jaxprtool.core.kinds.containers import NOTHING, TupleOf, either
from jaxprtool.core.kinds.numbers import INTEGER
from jaxprtool.ir.diagnostics import Diagnostic, JaxprTypeError
from jaxprtool.ir.kinds import Kind, Style
from jaxprtool.ir.params import Opaque, ParamValue, Record, Word

__all__ = [
    "ACCURACY",
    "COPY_SEMANTICS",
    "DEBUG_EFFECT",
    "DOT_ALGORITHM",
    "EIGENVALUE_ALGORITHM",
    "EIGENVALUE_LIBRARY",
    "FFT_TYPE",
    "INDEX_MODE",
    "PRECISION",
    "PRECISION_LEVEL",
    "RANDOM_ALGORITHM",
    "ROUNDING_METHOD",
    "SELECTION",
    "SVD_ALGORITHM",
    "Accuracy",
    "CopySemantics",
    "DebugEffect",
    "EigenvalueAlgorithm",
    "EigenvalueLibrary",
    "EnumKind",
    "FftType",
    "IndexMode",
    "Precision",
    "RandomAlgorithm",
    "RoundingMethod",
    "Selection",
    "SvdAlgorithm",
    "precision_level",
]


class EnumKind(Kind):
    """The members of an enum.

    Attributes:
      enum: the name of the enum in JAX.
      members: the names of its members.
      numbered: whether a number, counted from 0 in the order of `members`, stands for a member.
      synonyms: other words for members (word -> member).
    """

    def __init__(
        self,
        name: str,
        members: tuple[str, ...],
        *,
        enum: str = "",
        numbered: bool = False,
        synonyms: Mapping[str, str] | None = None,
        code: str = "param-value",
    ):
        shown = [f"{m} ({i})" if numbered else m for i, m in enumerate(members)]
        listed = f"{', '.join(shown[:-1])} or {shown[-1]}"
        enum = enum or name
        super().__init__(name, listed, f"members of {enum}", f"a member of {enum}")
        self.enum, self.members, self.numbered, self.code = enum, members, numbered, code
        self._words = {w: m for m in members for w in (m, m.lower())} | dict(synonyms or {})

    def member(self, value: Any) -> str | None:
        """Return the name of the member that a value stands for; None where it stands for none."""
        if isinstance(value, str):
            return self._words.get(value.rpartition(".")[2] if "." in value else value)
        if type(value) is int and self.numbered:
            return self.members[value] if 0 <= value < len(self.members) else None
        name = getattr(
            value, "name", None
        )  # `value` is an `EnumMember`, a member itself, or a primitive
        return self._words.get(name) if isinstance(name, str) else None

    def number(self, value: Any) -> int | None:
        """Return the position in `members` of the member that a value stands for; None where it stands for none."""
        found = self.member(value)
        return None if found is None else self.members.index(found)

    def required(self, primitive: str, param: str, value: Any) -> str:
        """Return the member that the value of a param stands for.

        Raises JaxprTypeError where it stands for none.
        """
        found = self.member(value)
        if found is None:
            message = f"{primitive}: {param} is {value}, and has to be {self.one}"
            raise JaxprTypeError(Diagnostic(message, self.code))
        return found

    def word(self, member: str) -> Word:
        """Return a member as the value of a param."""
        return Word(f"{self.enum}.{member}")

    def fits(self, value: ParamValue) -> bool:
        return self.member(value) is not None

    def given(self, value: Any) -> Any:
        return INTEGER.given(value) if self.numbered else value


class RecordKind(Kind):
    """Constructors with certain names: `Tolerance(atol=0.1, ...)`."""

    def __init__(self, *constructors: str, one: str):
        super().__init__(" | ".join(constructors), one, f"{one}s")
        self.constructors = constructors

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, Record) and value.name in self.constructors


class AddressedRecord(RecordKind):
    """Objects of a class that JAX prints with their address; a file holds a constructor instead."""

    prints_itself = False

    def printed(self, value: ParamValue, style: Style) -> Any:
        live = getattr(value, "value", None)  # `value` is a record for an object of a running JAX
        if style != "jax" or live is None:
            return value
        return Opaque(_ADDRESS.sub(lambda m: f"0x{'X' * len(m[1])}", str(live)))


_ADDRESS = re.compile(r"\b0x([0-9a-f]+)")


_ALGORITHMS = (
    *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY"),
    *("ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16"),
    *("BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9"),
    *("TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64"),
)

INDEX_MODE = EnumKind(
    "IndexMode",
    ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"),
    enum="GatherScatterMode",
    numbered=True,
    synonyms={"fill": "FILL_OR_DROP", "drop": "FILL_OR_DROP"},
    code="index-mode",
)
PRECISION_LEVEL = EnumKind(
    "PrecisionLevel",
    ("DEFAULT", "HIGH", "HIGHEST"),
    enum="Precision",
    synonyms={
        **{"fastest": "DEFAULT", "bfloat16": "DEFAULT", "bfloat16_3x": "HIGH"},
        **{"tensorfloat32": "HIGH", "float32": "HIGHEST"},
    },
)
DOT_ALGORITHM = EnumKind("DotAlgorithmPreset", _ALGORITHMS)
FFT_TYPE = EnumKind("FftType", ("FFT", "IFFT", "RFFT", "IRFFT"), numbered=True)
RANDOM_ALGORITHM = EnumKind(
    "RandomAlgorithm", ("RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"), numbered=True
)
ROUNDING_METHOD = EnumKind("RoundingMethod", ("AWAY_FROM_ZERO", "TO_NEAREST_EVEN"), numbered=True)
EIGENVALUE_LIBRARY = EnumKind(
    "EigenvalueLibrary", ("LAPACK", "CUSOLVER", "MAGMA"), enum="EigImplementation"
)
EIGENVALUE_ALGORITHM = EnumKind(
    "EigenvalueAlgorithm", ("QR", "JACOBI", "QDWH"), enum="EighImplementation"
)
SVD_ALGORITHM = EnumKind("SvdAlgorithm", ("DEFAULT", "QR", "JACOBI", "POLAR", "DIVIDE_AND_CONQUER"))
SELECTION = EnumKind("Selection", ("ge", "le"), code="bad-param")
COPY_SEMANTICS = EnumKind(
    "CopySemantics",
    ("REUSE_INPUT", "ALWAYS_COPY", "DONATE_INPUT"),
    enum="ArrayCopySemantics",
    numbered=True,
)
DEBUG_EFFECT = EnumKind(
    "DebugEffect",
    ("Debug", "OrderedDebug"),
    synonyms={"PRINT": "Debug", "ORDERED_PRINT": "OrderedDebug"},  # to 0.4.1
)


class Printed(Kind):
    """Objects of a class of which only the print with an address is known,
    `<jax._src.lax.lax.Tolerance object at 0x7f00>`.
    """

    def __init__(self, cls: str, one: str):
        super().__init__(cls, one, f"{one}s")
        self.start = f".{cls} object at 0x"

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, Opaque) and value.text.startswith("<") and self.start in value.text


_ACCURACY_MODE = EnumKind("AccuracyMode", ("DEFAULT", "HIGHEST"))
ACCURACY = either(
    _ACCURACY_MODE,
    AddressedRecord("Tolerance", one="a tolerance"),
    Printed("Tolerance", "a tolerance"),
    name="Accuracy",
)
_LEVEL = either(PRECISION_LEVEL, NOTHING)
PRECISION = either(
    PRECISION_LEVEL,
    TupleOf(_LEVEL, 2, one="a pair of these"),
    DOT_ALGORITHM,
    RecordKind("DotAlgorithm", one="a DotAlgorithm"),
    name="Precision",
)


def precision_level(value: Any) -> str:
    """Return the level of a precision, or of one of a pair; `DEFAULT` for None."""
    return PRECISION_LEVEL.member(value) or "DEFAULT"


IndexMode = Annotated[Any, INDEX_MODE]
Precision = Annotated[Any, PRECISION]
FftType = Annotated[Any, FFT_TYPE]
RandomAlgorithm = Annotated[Any, RANDOM_ALGORITHM]
RoundingMethod = Annotated[int, ROUNDING_METHOD]
EigenvalueLibrary = Annotated[Any, EIGENVALUE_LIBRARY]
EigenvalueAlgorithm = Annotated[Any, EIGENVALUE_ALGORITHM]
SvdAlgorithm = Annotated[Any, SVD_ALGORITHM]
Selection = Annotated[Any, SELECTION]
CopySemantics = Annotated[Any, COPY_SEMANTICS]
Accuracy = Annotated[Any, ACCURACY]
DebugEffect = Annotated[Any, DEBUG_EFFECT]
