"""The lifetimes of values as a chart of text."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.analyses.memory.liveness import Lifetime, lifetimes
from jaxprtool.analyses.table import size_text
from jaxprtool.ir.jaxpr import Jaxpr

__all__ = ["chart"]

_WIDTH = 60  # columns, at most
_LEVELS = " .:-=+*#%@"  # how much memory is taken, from none to the most


def chart(jaxpr: Jaxpr, top: int) -> list[str]:
    """Return lines that show the lifetimes of a jaxpr's largest values, from its first equation (left) to its last.

    The line below them shows how much memory all values take, as levels: ` ` for nothing, `@` for
    the most.
    """
    n = len(jaxpr.eqns)
    lives = [life for life in lifetimes(jaxpr) if life.nbytes]
    if not lives or not n:
        return []
    largest = sorted(lives, key=lambda life: -life.nbytes)[:top]
    shown = sorted(largest, key=lambda life: (life.made, life.last))
    width = min(n, _WIDTH)
    label = max(len(_label(life)) for life in shown)
    lines = [f"lifetimes, from equation 1 to {n:,}"]
    lines += [f"{_label(life).rjust(label)} |{_bar(life, n, width)}|" for life in shown]
    return [*lines, f"{'all'.rjust(label)} |{_levels(lives, n, width)}|"]


def _label(life: Lifetime) -> str:
    return f"{size_text(life.nbytes)}  {life.variable.aval}  {life.variable.name or '_'}"


def _bar(life: Lifetime, n: int, width: int) -> str:
    first, last = max(life.made, 0) * width // n, min(life.last, n - 1) * width // n
    return " " * first + "#" * (last - first + 1) + " " * (width - last - 1)


def _levels(lives: Sequence[Lifetime], n: int, width: int) -> str:
    """Return for each column the character of the most memory that is taken there."""
    change = [0] * (n + 1)
    for life in lives:
        change[max(life.made, 0)] += life.nbytes
        change[min(life.last, n - 1) + 1] -= life.nbytes
    taken, now = [0] * width, 0
    for i in range(n):
        now += change[i]
        taken[i * width // n] = max(taken[i * width // n], now)
    most = max(taken)
    return "".join(_LEVELS[-(-x * (len(_LEVELS) - 1) // most)] for x in taken)
