"""How earlier releases print types with varying axes, references, and numbers."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from jaxprtool.ir.avals import NO_GROUPS, AbstractType, RefType, ShapedArray
from jaxprtool.ir.jaxpr import Var
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.spellings import Release

__all__ = [
    "ITEMS",
    "NUMPYS",
    "TAGGED",
    "has_named_axes",
    "has_numbers",
    "has_tags",
    "has_types",
    "is_not_numpys",
    "named_axes",
    "number_of_numpy",
    "told_by_types",
    "type_in",
]

_FLOAT0: Release = (0, 4, 29)
_UNTAGGED: Release = (0, 7)
ITEMS: Release = (0, 4, 31)  # since then literals of types that NumPy lacks are Python's numbers
# From the first of these releases up to the second one all literals are printed as NumPy prints numbers of their types.
NUMPYS: tuple[Release, Release] = ((0, 7), (0, 7, 2))
_SHORT_REFERENCES: Release = (0, 7, 1)
TAGGED: Release = (0, 8, 1)  # since then all types are printed as ours are


def is_not_numpys(aval: object) -> bool:
    """Whether an element type is one that NumPy lacks."""
    return isinstance(aval, ShapedArray) and aval.dtype.name.startswith(_NOT_NUMPYS)


def has_numbers(aval: object) -> bool:
    """Whether a type is one of arrays."""
    return isinstance(aval, ShapedArray)


def number_of_numpy(x: complex, aval: object) -> str:
    """Return a number as NumPy prints a scalar of its type.

    Six digits for the types that are not its own (`2`, `0.100098`), and else the fewest digits that
    tell it from the other numbers of the type (`0.1`, which Python prints as 0.10000000149011612
    where the type is f32).

    Args:
      x: the number, a float or a complex number.
      aval: the type of the literal.
    """
    if is_not_numpys(aval):
        return f"{x:g}"
    code = _CODES.get(aval.dtype.name) if isinstance(aval, ShapedArray) else None
    if code is None:
        return str(x)
    if isinstance(x, complex):
        return str(complex(_short(x.real, code), _short(x.imag, code)))
    short = _short(x, code)
    # NumPy decides by the number itself, here a little less, whether it needs an exponent.
    return f"{short:.0e}" if abs(short) == 1e-4 and abs(_nearest(x, code)) < 1e-4 else str(short)


def _short(x: float, code: str) -> float:
    """Return the number with the fewest decimal digits that is x in the format of `struct` with this code."""
    nearest = _nearest(x, code)
    if not math.isfinite(nearest):
        return nearest
    short = (float(f"{nearest:.{digits}g}") for digits in range(1, 10))
    return next((s for s in short if _nearest(s, code) == nearest), nearest)


def _nearest(x: float, code: str) -> float:
    """Return the number of a format that is nearest to x: an infinity beyond its largest one."""
    try:
        return struct.unpack(code, struct.pack(code, x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


_NOT_NUMPYS = ("bfloat", "float8_", "float6_", "float4_")
_CODES = {"float16": "e", "float32": "f", "complex64": "f"}


def named_axes(v: Var) -> str:
    """Return the named axes in the type of a variable, as it stands in its text: `;i:4`; "" for none.

    The releases from 0.2.22 to 0.4.30 print the axes of `pmap` and `xmap` along which a value
    differs. They say nothing about its shape, and its type here has none.
    """
    span = v.span
    found = None if span is None else _AXES.search(span.source.text, span.start, span.end)
    return "" if found is None else found[1]


def has_named_axes(text: str) -> bool:
    """Whether there are named axes in the types of a text."""
    return _AN_AXIS.search(text) is not None and _AXES.search(text) is not None


def type_in(release: Release, aval: AbstractType) -> str:
    """Return the text of a type in a release.

    From 0.7.0 to 0.8.0 varying axes have no tag, `f32[2]{i,j}`; before 0.7.1 a reference to an
    array has the long name of the element type, `Ref{float32[3]}`; before 0.4.29 float0 was called
    void. A type with reduced or unreduced axes, whose text could not be read, is printed as this
    package prints it.
    """
    if isinstance(aval, RefType) and isinstance(aval.inner, ShapedArray):
        if release >= _SHORT_REFERENCES:
            return str(aval)
        return str(aval).replace(str(aval.inner), aval.inner.str_short())
    if release < _FLOAT0 and isinstance(aval, ShapedArray) and aval.dtype.kind == "0":
        return str(aval).replace("float0", "void")
    if not isinstance(aval, ShapedArray) or not _UNTAGGED <= release < TAGGED:
        return str(aval)
    groups = aval.vary
    if not groups.varying or groups.unreduced or groups.reduced:
        return str(aval)
    return f"{aval.update(vary=NO_GROUPS)}{{{','.join(groups.varying)}}}"


_AXES = pattern(r"\w\[[^\s;\[\]]*(;[^\s;:\[\]]+:\d+(?:, ?[^\s;:\[\]]+:\d+)*)\]")
# It begins with a rare character, so that the search is fast.
_AN_AXIS = pattern(r";[^\s;:\[\]]+:\d")
_LETTERLESS = pattern(r"\]\{(?!(?:[VUR]|U_m(?:ax|in)):)\w")
# Spellings of number types; other types, such as `bool`, have one name.
_REFERENCE = pattern(r"\b(?:Mem)?Ref(?:<\w+>)?\{(?:(b?float|u?int|complex)|bf|[fiuc])\d")


def told_by_types(text: str) -> Iterator[tuple[str, Release]]:
    """Yield the bounds on the release that the types of a text imply: ("since", release) and ("before", release)."""
    if ":void[" in text:
        yield "before", _FLOAT0
    if "]{" in text and _LETTERLESS.search(text):
        yield from (("since", _UNTAGGED), ("before", TAGGED))
    if "Ref" in text and (m := _REFERENCE.search(text)):
        yield "before" if m[1] else "since", _SHORT_REFERENCES


def has_tags(text: str) -> bool:
    """Whether varying axes in the types of a text have a tag (`V:`)."""
    return "]{V:" in text


def has_types(release: Release, tagged: bool) -> bool:
    """Whether a release may have printed the types of a text; `tagged`: whether varying axes in it have a tag."""
    return not (tagged and _UNTAGGED <= release < TAGGED)
