"""Where equations come from: the line of Python that made each, and the names of the scopes around it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxprtool.ir.frozen import Frozen, amend

__all__ = ["Frame", "Origin", "names_of", "stack_of"]


class Frame(NamedTuple):
    """A place in a Python file.

    Attributes:
      file: the path, as it is shown.
      line: from 1.
      column: from 0, as JAX counts; None where it is not known.
      function: the qualified name of the function.
    """

    file: str
    line: int
    column: int | None
    function: str

    def __str__(self) -> str:
        column = "" if self.column is None else f":{self.column}"
        return f"{self.file}:{self.line}{column} ({self.function})"


Names = tuple[str, ...]


class Origin(Frozen):
    """The origin of an equation; transformed equations have that of what they were made from.

    Attributes:
      frame: the line of Python, or None.
      names: the scopes around the operation, the outermost first (`jvp(layer1)`, `attn`), or None where
        they are not known.
      shown: whether the printer shows it: it was in a text, or is meant for one.
    """

    __slots__ = ("_find", "_frame", "names", "shown")
    _frame: Frame | None
    _find: Callable[[], Frame | None] | None
    names: Names | None
    shown: bool

    def __init__(
        self,
        frame: Frame | None = None,
        names: Names | None = None,
        shown: bool = True,
        find: Callable[[], Frame | None] | None = None,
    ):
        """`find` gives the frame when it is first asked for, where finding it takes time."""
        amend(self, _frame=frame, names=names, shown=shown, _find=find)

    @property
    def frame(self) -> Frame | None:
        """The line of Python, or None."""
        if self._find is not None:
            amend(self, _frame=self._find(), _find=None)
        return self._frame

    def replace(
        self,
        *,
        frame: Frame | type[Ellipsis] | None = ...,  # type: ignore[assignment]
        names: Names | type[Ellipsis] | None = ...,  # type: ignore[assignment]
        shown: bool | None = None,
    ) -> Origin:
        """An origin with some fields replaced."""
        known = self.frame if frame is ... else frame
        kept = self.names if names is ... else names
        return Origin(known, kept, self.shown if shown is None else shown)  # type: ignore[arg-type]

    def within(self, transformation: str) -> Origin:
        """The origin of what a transformation makes of an equation: `attn` becomes `jvp(attn)`."""
        if self.names is None:
            return self
        return _renamed(self, transformation)

    def __repr__(self) -> str:
        names = "" if self.names is None else f" [{stack_of(self.names)}]"
        return f"{self.frame or ''}{names}"


@functools.lru_cache(maxsize=1 << 14)
def _renamed(origin: Origin, transformation: str) -> Origin:
    names = origin.names or ()
    first = names[0] if names else ""
    made = (f"{transformation}({first})", *names[1:])
    return Origin(origin._frame, made, origin.shown, origin._find)


def stack_of(names: Names) -> str:
    """Names as JAX shows them: `jvp(layer1)/attn`."""
    return "/".join(names)


def names_of(stack: str) -> Names:
    """The names in `jvp(layer1)/attn`; slashes inside parentheses separate nothing."""
    names, depth, start = [], 0, 0
    for i, c in enumerate(stack):
        depth += (c == "(") - (c == ")")
        if c == "/" and depth <= 0:
            names.append(stack[start:i])
            start = i + 1
    return (*names, stack[start:]) if stack else ()
