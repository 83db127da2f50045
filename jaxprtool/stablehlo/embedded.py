"""Take functions from a module that another program has written, for insertion into a module of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxprtool.syntax.patterns import pattern

__all__ = ["Written", "functions_of"]

_HEAD = pattern(r"module @\S+ (?:attributes \{[^\n]*\} )?\{")
_FUNCTION = pattern(r"  func\.func (?:public|private) @([\w$.\-]+)\(")
_SYMBOL = pattern(r'"(?:[^"\\\n]|\\.)*"|@([\w$.\-]+)')  # or a string, in which `@` has no meaning
# What belongs to a process (its functions of Python) or to its devices, and tokens, which the operands of an array have not.
_BOUND = pattern(r"xla_ffi_partitioned_|xla_ffi_python_|xla_python_|!stablehlo\.token|\bsdy\.")


class Written(NamedTuple):
    """A function as text.

    Attributes:
      symbol: its name.
      text: from `func.func` to the brace that ends it.
    """

    symbol: str
    text: str

    def renamed(self, symbols: Mapping[str, str]) -> str:
        """Return a private function with other symbols for itself and for the functions that it calls."""

        def other(m: Any) -> str:
            return f"@{symbols[m[1]]}" if m[1] in symbols else m[0]

        return _SYMBOL.sub(other, self.text).replace("func.func public ", "func.func private ", 1)


def functions_of(text: str) -> list[Written]:
    """Return the functions of a module, `main` among them.

    Args:
      text: a module as MLIR prints it, without locations.

    Raises:
      ValueError: it contains more than functions, or something tied to the process or devices for
        which it was made.
    """
    lines = text.rstrip().split("\n")
    if not _HEAD.fullmatch(lines[0]) or lines[-1] != "}":
        raise ValueError("it has more than a module")
    if (bound := _BOUND.search(text)) is not None:
        raise ValueError(f"it holds {bound[0]}, which stands for something outside of it")
    found: list[Written] = []
    start = 1
    for i, line in enumerate(lines[1:-1], 1):
        if line == "  }":
            m = _FUNCTION.match(lines[start])
            if m is None:
                raise ValueError("it has more than functions")
            found.append(Written(m[1], "\n".join(lines[start : i + 1])))
            start = i + 1
    if start != len(lines) - 1 or "main" not in [f.symbol for f in found]:
        raise ValueError("it has more than functions")
    return found
