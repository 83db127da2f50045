"""Types in which parts may be open, as expressions of `assert` write them: `f64`, `f32[_, 4096]`,
`bf16<host>[..., 128]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.syntax.assertions.nodes import At, TypePattern

__all__ = ["FilterFault", "find_type", "memory_space", "read_dims", "type_of"]


class FilterFault(ValueError):
    """A part of an expression that has no meaning."""

    def __init__(self, message: str, help: str = ""):
        super().__init__(message)
        self.message, self.help = message, help


def find_type(name: str) -> tuple[str, str] | None:
    """Return the short name of an element type and the memory space in `f32` or `f32<host>`; None for another name."""
    dtype = find_dtype(name)
    if dtype is not None:
        return dtype.short, ""
    first, _, memory = name.removesuffix(">").partition("<")
    dtype = find_dtype(first)
    return None if dtype is None or not memory else (dtype.short, memory_space(memory))


def memory_space(name: str) -> str:
    """Return the memory space that types show for a kind of memory: `host` for `pinned_host`."""
    return _SPACES.get(name, name)


_SPACES = {"pinned_host": "host"}


def type_of(name: str, dims: Sequence[str] | None, at: At) -> TypePattern:
    """Return the type of a name (`_` for any) and the texts of its dimensions (None: any).

    Raises FilterFault.
    """
    found = (None, "") if name == "_" else find_type(name)
    if found is None:
        raise FilterFault(f"`{name}` is no element type", "those of JAX are meant: f32, bf16, i32")
    return TypePattern(found[0], None if dims is None else read_dims(dims), found[1], at)


def read_dims(texts: Sequence[str]) -> tuple[Any, ...]:
    """Read dimensions from their texts: numbers, names, `_` and one `...`. Raises FilterFault."""
    if texts.count("...") > 1:
        raise FilterFault("`...` stands once among dimensions")
    return tuple(map(_dim, texts))


def _dim(text: str) -> Any:
    if text == "...":
        return ...
    if text == "_":
        return None
    digits = text.replace("_", "")
    if digits.isascii() and digits.isdigit():
        if len(digits) > 20:
            raise FilterFault("a dimension of more than 20 digits")
        return int(digits)
    if text.isidentifier():
        return text
    raise FilterFault(f"`{text}` is no dimension", "dimensions are numbers, names, `_` or `...`")
