"""What rounding does in each equation of a program, beside a run in double precision.

The program in double precision (`passes.double`) runs first, and its results wait in a file. Then the program itself runs
in its own types. Of each equation there are two errors: what it adds, its result against the same operation on the same
operands in double precision; and what has come together, its result against that of the run in double precision. Where the
two runs take other branches or another number of steps, what is inside has no second error. In loops the first fifty steps
are looked at, and every fiftieth.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import IO, Any

from jaxprtool.analyses.places import Place, Watch
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit
from jaxprtool.passes.double import Raised

__all__ = ["Errors", "Measure", "Shadow"]

_STEPS = 50
_HEAD, _LENGTH = struct.Struct("<qI"), struct.Struct("<Q")


class _Keyed(Watch):
    """An observer that has a number for each equation that runs, which is the same in both runs."""

    def __init__(self) -> None:
        super().__init__()
        self.prefixes: list[int] = []

    def meant(self, eqn: JaxprEqn) -> JaxprEqn | None:
        """The equation of the program that an equation of this run stands for."""
        return eqn

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        """Follow a jaxpr of the program."""
        if not super().enter(jaxpr, args):
            return False
        step = self.levels[-1].step
        prefix = 0
        if step is not None:
            if not _is_looked_at(step.step):
                self.levels.pop()
                return False
            eqn = self.meant(step.eqn)
            prefix = hash((self.prefixes[-1], id(eqn), step.param, step.branch, step.step))
        self.prefixes.append(prefix)
        return True

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        """Go back to the enclosing jaxpr."""
        super().leave(jaxpr, outs)
        self.prefixes.pop()

    def key(self, eqn: JaxprEqn) -> int:
        """The number of an equation of the program at this place."""
        return hash((self.prefixes[-1], id(eqn)))


def _is_looked_at(step: int | None) -> bool:
    """Whether a step of a loop is: the first ones, and some of the later ones, so that a long loop costs little."""
    return step is None or step < _STEPS or step % _STEPS == 0


def is_rounded(x: Any) -> bool:
    """Whether a value is of a floating or complex type."""
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if kind != "V":  # that of types which NumPy lacks
        return kind in ("f", "c")
    found = dtype_of(x.dtype)
    return found is not None and found.is_inexact


def _wide(x: Any) -> Any:
    xp = numpy_namespace()
    return xp.asarray(x).astype(xp.complex128 if x.dtype.kind == "c" else xp.float64)


class Shadow(_Keyed):
    """Watches the run in double precision, and keeps its results in a file.

    Attributes:
      full: whether the file has as many bytes as are allowed; what comes then is not kept.
    """

    def __init__(self, raised: Raised, file: IO[bytes], max_bytes: int | None):
        super().__init__()
        self.raised, self.file, self.left = raised, file, max_bytes
        self.full = False
        self._next: tuple[int, list[bytes]] | None = None

    def meant(self, eqn: JaxprEqn) -> JaxprEqn | None:
        """The equation of the program that one of the raised program stands for."""
        return self.raised.before.get(eqn)

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Keep the results of an equation."""
        meant = self.meant(eqn)
        if meant is None or self.full:
            return
        data = [_wide(x).tobytes() for x in outs if is_rounded(x)]
        if self.left is not None:
            self.left -= sum(map(len, data)) + _HEAD.size
            self.full = self.left < 0
        self.file.write(_HEAD.pack(self.key(meant), len(data)))
        for part in data:
            self.file.write(_LENGTH.pack(len(part)) + part)

    def rewind(self) -> None:
        """Go to the first of the results."""
        self.file.seek(0)
        self._read()

    def _read(self) -> None:
        head = self.file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            self._next = None
            return
        key, count = _HEAD.unpack(head)
        parts: list[bytes] = []
        for _ in range(count):
            (length,) = _LENGTH.unpack(self.file.read(_LENGTH.size))
            parts.append(self.file.read(length))
        self._next = key, parts

    def take(self, key: int, *, ahead: bool) -> list[bytes] | None:
        """The results of the next equation, where it has this number; with `ahead`, of the next one that has it."""
        while self._next is not None:
            found, parts = self._next
            if found == key:
                self._read()
                return parts
            if not ahead:
                return None
            self._read()
        return None


class Errors:
    """The errors of one equation, in all steps of the loops around it.

    Attributes:
      place: where the error that it adds is largest.
      count: how often it ran where it was looked at.
      local: what it adds, in units in the last place; None where that is not known.
      local_relative: the same relative to the largest element.
      total: what has come together in its result, in units in the last place; None where that is not known.
      amplification: how many times larger the relative error of the result is than those of the operands.
    """

    __slots__ = ("amplification", "count", "local", "local_relative", "place", "total")

    def __init__(self, place: Place):
        self.place, self.count = place, 0
        self.local: float | None = None
        self.local_relative = 0.0
        self.total: float | None = None
        self.amplification: float | None = None


class Measure(_Keyed):
    """Watches the program itself, beside what a `Shadow` has kept.

    Attributes:
      errors: by equation.
    """

    def __init__(self, raised: Raised, shadow: Shadow):
        super().__init__()
        from jaxprtool.backends.agreement import error_of  # noqa: PLC0415 (gateway: NumPy)

        self.error_of = error_of
        self.raised, self.shadow = raised, shadow
        self.own = set(raised.before.values())
        self.errors: dict[JaxprEqn, Errors] = {}
        self.relative: list[dict[Any, float]] = []
        self.functions: dict[JaxprEqn, Any] = {}

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        """Follow a jaxpr of the program."""
        if not super().enter(jaxpr, args):
            return False
        self.relative.append({})
        return True

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        """Go back to the enclosing jaxpr."""
        super().leave(jaxpr, outs)
        self.relative.pop()

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Measure the results of an equation."""
        if eqn not in self.own:
            return
        parts = self.shadow.take(self.key(eqn), ahead=eqn.primitive.holds_jaxprs)
        rounded = [(v, x) for v, x in zip(eqn.out_binders, outs, strict=True) if is_rounded(x)]
        if not rounded:
            return
        found = self.errors.get(eqn)
        if found is None:
            found = self.errors[eqn] = Errors(self.place(eqn))
        found.count += 1
        if parts is not None:
            self.together(eqn, found, rounded, parts)
        self.added(eqn, found, ins, outs)

    def together(
        self, eqn: JaxprEqn, found: Errors, rounded: Sequence[Any], parts: Sequence[bytes]
    ) -> None:
        """Compare results with those of the run in double precision."""
        xp, known = numpy_namespace(), self.relative[-1]
        for (v, x), part in zip(rounded, parts, strict=True):
            dtype = xp.complex128 if x.dtype.kind == "c" else xp.float64
            ulps, known[v] = self.error_of(x, xp.frombuffer(part, dtype).reshape(x.shape))
            found.total = max(found.total or 0.0, ulps)
            before = [known[y] for y in eqn.inputs if type(y) is not Lit and y in known]
            if any(before):
                ratio = known[v] / max(before)
                found.amplification = max(found.amplification or 0.0, ratio)

    def added(self, eqn: JaxprEqn, found: Errors, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Compare results with those of the same operation on the same operands in double precision."""
        made = self.raised.after.get(eqn)
        if made is None or eqn.primitive.holds_jaxprs:
            return
        f = self.functions.get(eqn)
        if f is None:
            avals = [x.aval for x in made.inputs], [v.aval for v in made.out_binders]
            f = prepare_impl(numpy_namespace(), eqn.primitive, *avals, made.params)
            self.functions[eqn] = f
        exact = f(*[_wide(x) if is_rounded(x) else x for x in ins])
        exact = exact if eqn.primitive.multiple_results else [exact]
        for x, y in zip(outs, exact, strict=True):
            if is_rounded(x):
                ulps, relative = self.error_of(x, _wide(y))
                if found.local is None or ulps > found.local:
                    found.local, found.place = ulps, self.place(eqn)
                found.local_relative = max(found.local_relative, relative)
