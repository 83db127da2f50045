"""Origins of equations: the line of Python that made each, and its name stack."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprtool.ir.frozen import Frozen, amend, itself

__all__ = ["NAMES", "SOURCE", "Frame", "Names", "Origin", "names_of", "stack_of"]


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

    def located(self) -> str:
        """`file:line:column`, the column from 1 as in texts."""
        column = "" if self.column is None else f":{self.column + 1}"
        return f"{self.file}:{self.line}{column}"

    def json(self) -> dict[str, Any]:
        """The place with the keys file, line, column and function."""
        return self._asdict()

    def __str__(self) -> str:
        column = "" if self.column is None else f":{self.column}"
        return f"{self.file}:{self.line}{column} ({self.function})"


Names = tuple[str, ...]
SOURCE, NAMES = 1, 2  # bit mask of the parts of an origin to show: the line of Python, the names


class Origin(Frozen):
    """The origin of an equation.

    Transformations give a new equation the origin of the one that it was made from.

    Attributes:
      frame: the line of Python, or None.
      names: the name stack: the scopes around the operation, outermost first (`jvp(layer1)`,
        `attn`); None where they are not known.
      shown: the parts that the printer writes: `SOURCE`, `NAMES`, both or 0.
    """

    __slots__ = ("_find", "_frame", "names", "shown")
    __copy__ = __deepcopy__ = itself
    _frame: Frame | None
    _find: Callable[[], Frame | None] | None
    names: Names | None
    shown: int

    def __init__(
        self,
        frame: Frame | None = None,
        names: Names | None = None,
        shown: int = 0,
        find: Callable[[], Frame | None] | None = None,
    ):
        """`find`, where given, computes the frame when `frame` is first read, because that may take time."""
        amend(self, _frame=frame, names=names, shown=shown, _find=find)

    @property
    def frame(self) -> Frame | None:
        """The line of Python, or None."""
        if self._find is not None:
            amend(self, _frame=self._find(), _find=None)
        return self._frame

    @property
    def has_names(self) -> bool:
        """Whether the name stack is known (it may be empty).

        A text that shows only lines of Python leaves it unknown.
        """
        return self.names is not None and bool(self.names or self.shown != SOURCE)

    def within(self, transformation: str) -> Origin:
        """Return the origin of the equations that a transformation makes: the scope `attn` becomes `jvp(attn)`."""
        if self.names is None:
            return self
        return self._renamed(transformation)

    def of_inner(self, inner: Origin | None) -> Origin:
        """Return the origin of an inner equation that is inlined in the place of this equation.

        The name stack of the inner equation is appended to the one here.
        """
        if inner is None:
            return self
        return inner if not self.names or inner.names is None else self._above(inner)

    @functools.lru_cache(maxsize=1 << 14)
    def _renamed(self, transformation: str) -> Origin:
        names = self.names or ()
        first = names[0] if names else ""
        made = (f"{transformation}({first})", *names[1:])
        find = None if self._find is None else lambda: self.frame
        return Origin(self._frame, made, self.shown, find)

    @functools.lru_cache(maxsize=1 << 14)
    def _above(self, inner: Origin) -> Origin:
        find = None if inner._find is None else lambda: inner.frame
        return Origin(inner._frame, (self.names or ()) + (inner.names or ()), inner.shown, find)

    def __reduce__(self) -> tuple[Any, ...]:
        return Origin, (self.frame, self.names, self.shown)

    def __repr__(self) -> str:
        names = f" [{stack_of(self.names)}]" if self.names else ""
        return f"{self.frame or ''}{names}".lstrip()


def stack_of(names: Names) -> str:
    """Return a name stack as JAX shows it: `jvp(layer1)/attn`."""
    return "/".join(names)


def names_of(stack: str) -> Names:
    """Split `jvp(layer1)/attn` into names; slashes inside parentheses do not separate names."""
    names: list[str] = []
    depth = start = 0
    for i, c in enumerate(stack):
        depth += (c == "(") - (c == ")")
        if c == "/" and depth <= 0:
            names.append(stack[start:i])
            start = i + 1
    return (*names, stack[start:]) if stack else ()
