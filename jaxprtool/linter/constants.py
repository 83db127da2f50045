"""Lint rule of large arrays that are constants of a program."""

from __future__ import annotations

from collections.abc import Iterator

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.linter.engine import View
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["large_constant"]


@lint_rule(
    "large-constant",
    family="constants",
    kind="program",
    mend="make it an argument of the function (`opt --passes lift-consts` does so for a file)",
)
def large_constant(view: View) -> Iterator[Found]:
    """The program holds a large array, as a constant that the function has captured.

    It is a part of the compiled program: it is copied, hashed and stored with each version of it,
    XLA may spend a long time on constant folding, and for another value the function is compiled
    again. `--max-const` sets the size from which on constants are reported (by default 1M, one
    mebibyte).
    """
    seen: set[int] = set()
    for frame in view.frames:
        for v, value in zip(frame.jaxpr.const_binders, frame.closed.consts, strict=False):
            nbytes = v.aval.nbytes if isinstance(v.aval, ShapedArray) else 0
            if nbytes < view.options.max_const or (value is not None and id(value) in seen):
                continue
            seen.add(id(value))
            name = f" {v.name}" if v.name else ""
            where = frame.step.eqn if frame.step else None
            place = where and frame.above and frame.above.place(where)
            message = f"the constant{name} of type {v.aval} takes {_size(nbytes)}"
            yield Found(message, None if v.span else place or None, v)


def _size(nbytes: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or unit == "GiB":
            return f"{nbytes:,.3g} {unit}" if unit != "bytes" else f"{nbytes:,} bytes"
        nbytes /= 1024  # type: ignore[assignment]
    raise AssertionError
