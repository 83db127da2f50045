"""How earlier releases print the types that they print otherwise: those that vary along axes of a mesh, and references."""

from __future__ import annotations

from collections.abc import Iterator

from jaxprtool.ir.avals import NO_GROUPS, AbstractType, RefType, ShapedArray
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.spellings import Release

__all__ = ["TAGGED", "has_tags", "has_types", "told_by_types", "type_in"]

_FLOAT0: Release = (0, 4, 29)
_UNTAGGED: Release = (0, 7)
_SHORT_REFERENCES: Release = (0, 7, 1)
TAGGED: Release = (0, 8, 1)  # since then all types are printed as ours are


def type_in(release: Release, aval: AbstractType) -> str:
    """The text of a type in a release: the axes that it varies along have no tag from 0.7.0 to 0.8.0, `f32[2]{i,j}`, and
    a reference to an array has the long name of the element type before 0.7.1, `Ref{float32[3]}`, and float0 was called void
    before 0.4.29.

    A type with further groups of axes, whose text could not be read, keeps ours.
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


_LETTERLESS = pattern(r"\]\{(?!(?:[VUR]|U_m(?:ax|in)):)\w")
# Of numbers; other types, as `bool`, have one name.
_REFERENCE = pattern(r"\b(?:Mem)?Ref(?:<\w+>)?\{(?:(b?float|u?int|complex)|bf|[fiuc])\d")


def told_by_types(text: str) -> Iterator[tuple[str, Release]]:
    """What the types of a text say about the release that printed it: ("since", release) and ("before", release)."""
    if "]{" in text and _LETTERLESS.search(text):
        yield from (("since", _UNTAGGED), ("before", TAGGED))
    if "Ref" in text and (m := _REFERENCE.search(text)):
        yield "before" if m[1] else "since", _SHORT_REFERENCES


def has_tags(text: str) -> bool:
    """Whether the axes that a type of a text varies along have a tag."""
    return "]{V:" in text


def has_types(release: Release, tagged: bool) -> bool:
    """Whether a release may print types with tags, if a text is `tagged`."""
    return not (tagged and _UNTAGGED <= release < TAGGED)
