"""Maximum and minimum on NumPy with +0 larger than -0, as in XLA.

NumPy may return either of the two zeros.
"""

from __future__ import annotations

from typing import Any

from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Value

__all__ = ["signed_zeros", "ufunc_of"]


def signed_zeros(xp: Namespace, x: Value, y: Value, out: Value, *, minus_wins: bool) -> Value:
    """Correct the signs of zeros in the extremum `out` of floats x and y.

    Where one is -0 and the other +0 NumPy may return either; the result has the sign that XLA gives
    it.
    """
    if not y.ndim and (y != 0 or xp.signbit(y) == minus_wins):
        return out  # as in a relu: y is right where the two are equal
    zero = out == 0
    if not zero.any():
        return out
    both = -(-x - y) if minus_wins else x + y
    return xp.where(zero & (x == y), both, out)


def ufunc_of(xp: Namespace, name: str, dtype: DType) -> Any:
    """Return the function of the namespace that reduces values of an element type, as a ufunc.

    `maximum` and `minimum` of floats take signs of zeros into account.

    Returns:
      An object with `reduce`, `accumulate` and `at` that takes two operands, as a ufunc does.
    """
    ufunc = getattr(xp, name)
    if dtype.kind != "f" or name not in ("maximum", "minimum"):
        return ufunc
    return _Extremum(xp, ufunc, minus_wins=name == "minimum")


class _Extremum:
    """`maximum` or `minimum` of floats.

    Attributes:
      minus_wins: whether -0 is the result of +0 and -0.
    """

    __slots__ = ("minus_wins", "ufunc", "xp")

    def __init__(self, xp: Namespace, ufunc: Any, *, minus_wins: bool):
        self.xp, self.ufunc, self.minus_wins = xp, ufunc, minus_wins

    def __call__(self, x: Value, y: Value) -> Value:
        out = self.ufunc(x, y)
        return signed_zeros(self.xp, x, y, out, minus_wins=self.minus_wins)

    def reduce(self, x: Value, *, axis: Any, **options: Any) -> Value:
        """Return the extrema along axes."""
        out = self.ufunc.reduce(x, axis=axis, **options)
        if not (out == 0).any():
            return out
        return self._signed(out, self.xp.logical_or.reduce(self._winners(x), axis=axis))

    def accumulate(self, x: Value, *, axis: int, **options: Any) -> Value:
        """Return the running extrema along an axis."""
        out = self.ufunc.accumulate(x, axis=axis, **options)
        if not (out == 0).any():
            return out
        return self._signed(out, self.xp.logical_or.accumulate(self._winners(x), axis=axis))

    def at(self, table: Value, places: Value, rows: Value) -> None:
        """Combine `table[places[k]]` with `rows[k]` for each k, in place."""
        wins = self._winners(table)
        self.ufunc.at(table, places, rows)
        if (table == 0).any():
            self.xp.logical_or.at(wins, places, self._winners(rows))
            table[...] = self._signed(table, wins)

    def _winners(self, x: Value) -> Value:
        """Return where the zeros have the sign that wins against the other one."""
        return (x == 0) & (self.xp.signbit(x) == self.minus_wins)

    def _signed(self, out: Value, wins: Value) -> Value:
        """Give zero extrema their sign: the winning one where a zero with it is among the elements (`wins`)."""
        zero, minus = out.dtype.type(0.0), out.dtype.type(-0.0)
        signs = self.xp.where(wins == self.minus_wins, minus, zero)
        return self.xp.where(out == 0, signs, out)
