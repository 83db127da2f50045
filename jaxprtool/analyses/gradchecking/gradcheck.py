"""The derivatives of a program at a point against finite differences, and forward mode against reverse mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

from jaxprtool.analyses.gradchecking.bends import bends_of
from jaxprtool.analyses.gradchecking.found import Check, Mismatch, largest_of, unravel
from jaxprtool.analyses.gradchecking.point import FEW_BITS, MODES, How, Point, copied
from jaxprtool.analyses.gradchecking.rounding import Excuse, Rounding
from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.core.trace import inexact
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.forward_mode import check_forward
from jaxprtool.interpreters.jvp import jvp_jaxpr
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import (
    JaxprToolError,
    MissingRuleError,
    UnsupportedError,
)
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.precisions.double import doubled, in_complex, in_double

__all__ = [
    "check_point",
    "derivative_of",
    "differentiable",
    "directions_of",
    "is_symmetric",
]

_NO_DERIVATIVE = (UnsupportedError, MissingRuleError)
# What a rule may raise for complex numbers, although its types allow them.
_NO_COMPLEX = (JaxprToolError, TypeError, ValueError)
_NEGLIGIBLE = 1e-3  # of a result: a smaller error of a difference is no reason for doubt
_SMALL = 24  # up to so many elements the whole Jacobian is checked


def differentiable(program: ClosedJaxpr) -> bool:
    """Whether a program has an argument and a result with derivatives, and takes and gives arrays alone."""
    avals = [*program.in_avals, *program.out_avals]
    arrays = all(isinstance(a, ShapedArray) for a in avals)
    if not arrays or any(a.dtype.kind == "0" for a in avals):
        return False  # float0 is its own tangent type: nothing can be compared
    return any(inexact(program.in_avals)) and any(inexact(program.out_avals))


def derivative_of(program: ClosedJaxpr, mode: str) -> ClosedJaxpr:
    """Return the program of the derivative: (a, tangents) -> (b, tangents), or (a, cotangents) -> (b, cotangents).

    Raises:
      UnsupportedError, MissingRuleError: the program has no derivative in this mode.
    """
    if mode == "rev":
        return vjp_jaxpr(program)
    made = jvp_jaxpr(program)[0]
    check_forward(program, made)
    return made


def directions_of(
    program: ClosedJaxpr, args: Sequence[Any], mode: str, how: How, k: int = 0
) -> list[Any]:
    """Return a random direction of the arguments (`fwd`) or of the results (`rev`), in their types."""
    point = Point(program, args, how)
    like = point.given if mode == "fwd" else [x * 0 + 1 for x in point.results(point.given)]
    found = point.numeric.directions(like, 5000 + 1000 * how.seed + k, 2.0**-4)
    return _typed(found, like)


def check_point(program: ClosedJaxpr, args: Sequence[Any], how: How) -> list[Check]:
    """Check the derivatives of a program at a point; return the checks: one for each mode, and one mode against the other.

    Args:
      program: (a) -> (b); see `differentiable`.
      args: the values of a.
      how: modes, steps and tolerances.

    Raises:
      UsageError: a derivative needs more memory than is allowed.
    """
    point = Point(program, args, how)
    if point.bits > FEW_BITS and point.widen():
        found = _unless_rough(point, _checks_at(point))
        if any(c.wrong for c in found):
            own = _checks_at(Point(program, args, how))
            # a kink in single precision, which few bits may hide, is no mistake in double precision
            if any(c.kinks for c in own) and not any(c.wrong for c in own):
                found = own
        return found
    found = _unless_rough(point, _checks_at(point))
    if any(c.wrong or c.kinks for c in found) and point.widen():
        again = _checks_at(point)
        kinks = any(c.kinks for c in found) and not any(c.wrong for c in found)
        if not (kinks and any(c.wrong for c in again)):
            found = again
    if point.rounds_much:
        wrong = any(c.wrong for c in found)
        alone = len(program.eqns) == 1 and any(c.unsure for c in found)
        exact = _in_double(point) if wrong or alone else None
        if exact is not None and wrong != any(c.wrong for c in exact):
            return exact
    return found


def _unless_rough(point: Point, found: list[Check]) -> list[Check]:
    """Return the checks; repeat those that failed where rounding moves a result by far more than its size suggests."""
    doubted = any(c.wrong or c.kinks for c in found) and not point.rounds_much
    return _checks_at(point) if doubted and point.roughen() else found


def _checks_at(point: Point) -> list[Check]:
    """Return the checks at a point: one for each mode, and for one mode against the other."""
    checks = [Check(mode) for mode in point.how.modes]
    return [*checks, *_Checking(point, checks).run()]


def _in_double(point: Point) -> list[Check] | None:
    """Return the checks of a program in double precision, within the tolerance of its own types; None where it has kinks.

    In a type of few bits differences say little of an operation: they are not known well enough to exclude one and a half
    times its derivative. And what a right rule computes has few digits, or none where some cancel.
    """
    program = in_double(point.program)
    if program is None:
        return None
    how = point.how._replace(rtol=point.rtol)
    found = _checks_at(Point(program, [*map(doubled, point.args)], how))
    return None if any(c.kinks for c in found) else found


def _reason(error: JaxprToolError) -> str:
    return error.diagnostics[0].message


class _Direction(NamedTuple):
    """A direction of the arguments, and what is found along it.

    Attributes:
      tangents: an array for each argument.
      found: the estimates of the derivatives of the results, by differences.
      argument: the argument and the index, where the direction is that of one element; else None.
      length: the length of the direction of one element, else 1; numbers are reported per unit.
      kinks: for each result where it has a kink along the direction, so that the reverse mode is not compared with the
        differences there: where the slopes on the two sides differ, unless rounding explains that and forward mode agrees.
      pushed: the tangents of the results; empty before forward mode was looked at.
      noisy: for results that differ in forward mode, whether rounding explains it.
    """

    tangents: list[Any]
    found: Sequence[Any]
    argument: tuple[int, tuple[int, ...]] | None
    length: float
    kinks: list[Any]
    pushed: list[Any]
    noisy: dict[int, bool]


def _is_finite(x: Any) -> bool:
    """Whether all numbers of a result are finite; float0 and keys count as finite."""
    array = numpy_namespace().asarray(numpy_namespace().words(x))
    return array.dtype.names is not None or bool((abs(array) < math.inf).all())


class _Checking:
    """The comparisons at one point.

    One mode is compared after the other: the derivative of a long program is several times as long,
    and only one is kept.

    Attributes:
      made: the program of the derivative that is compared.
      rounding: what rounding does in it.
      checks: the check of each mode.
      both: the check of one mode against the other.
      value: the check of the values that rules compute.
      base: the results.
      small: whether every element is checked.
      finite: whether all results are finite; where one is not, a sum over them may be NaN.
      directions: the directions to compare along, with what the differences say.
      gaps: how far the derivative of each element of a result may be from its differences, where it
        has a kink along the first, random direction, or bends (`bends_of`); else 0. An argument
        that ties with several others may show no kink alone.
      bent: whether it is known where derivatives bend.
    """

    made: ClosedJaxpr
    rounding: Rounding
    base: list[Any]
    small: bool
    finite: bool

    def __init__(self, point: Point, checks: Sequence[Check]):
        self.point, self.numeric = point, point.numeric
        self.numpy = numpy_namespace()
        self.checks = {c.mode: c for c in checks}
        self.both, self.value = Check("fwd=rev"), Check("value")
        self.directions: list[_Direction] = []
        self.gaps: list[Any] = []
        self.bent = False
        self.rows: dict[tuple[int, int], list[Any]] = {}

    def run(self) -> list[Check]:
        """Compare in each mode along each direction; return the checks besides those of the modes."""
        for mode in MODES:
            check = self.checks.get(mode)
            if check is None or check.reason:
                continue
            with self.numpy.errstate(all="ignore"):  # infinities are compared as well
                if not self.directions:  # before the derivative is made, which takes memory too
                    self.look()
                    self.point.forget()
                if not self.derive(check):
                    continue
                for direction in self.directions:
                    (self.forward if mode == "fwd" else self.reverse)(direction)
            del self.made, self.rounding
        for check in self.checks.values():  # mismatches at single elements come first
            check.steps = "complex" if self.directions and self.point.complex else "real"
            check.wrong.sort(key=lambda m: m.argument is None)
        found = [self.value] if self.value.wrong else []
        done = self.directions and not any(c.reason for c in self.checks.values())
        return [*found, self.both] if done and len(self.checks) == 2 else found

    def derive(self, check: Check) -> bool:
        """Make the derivative of a mode; return whether there is one."""
        try:
            # from a copy, since what is derived from a program is kept as long as the program is
            self.made = derivative_of(copied(self.point.program), check.mode)
        except _NO_DERIVATIVE as e:
            check.reason = _reason(e)
            return False
        self.rounding = Rounding(self.made, self.point.program, self.point.steps.tiny)
        if self.point.how.max_bytes is not None:
            check_memory(self.made, self.point.how.max_bytes)
        return True

    def look(self) -> None:
        """Take differences along random directions or, for few arguments, along each element too."""
        point, smallest = self.point, self.point.steps.sizes[-1]
        self.base = point.results(point.given)
        if point.is_wide:
            point.forget()  # differences run another form of the program
        self.finite = all(map(_is_finite, self.base))
        self.small = max(_size(point.given), _size(self.base)) <= _SMALL
        for k in range(1 if self.small else point.how.directions):
            seed = 1000 * point.how.seed + k
            self.along(self.numeric.directions(point.given, seed, smallest))
        if self.small:
            for which, x in enumerate(point.given):
                for k in range(math.prod(x.shape)):
                    tangents = self.numeric.basis(point.given, which, k, smallest)
                    element = point.positions[which], unravel(k, x.shape)
                    self.along(tangents, element, abs(tangents[which].reshape(-1)[k].item()))

    def along(
        self,
        tangents: list[Any],
        argument: tuple[int, tuple[int, ...]] | None = None,
        length: float = 1.0,
    ) -> None:
        """Take differences along one direction."""
        if self.point.how.symmetric:
            pairs = zip(tangents, self.point.given, strict=True)
            tangents = [t + t.conj().swapaxes(-1, -2) if is_symmetric(x) else t for t, x in pairs]
        found = self.estimate(tangents)
        if down := self._too_long(found):
            tangents, length = [t * down for t in tangents], length * down
            found = self.estimate(tangents)
        kinks = [e.kink for e in found]
        self.directions.append(_Direction(tangents, found, argument, length or 1.0, kinks, [], {}))
        if not self.gaps:
            gaps = [e.high - e.low + abs(e.high) + abs(e.low) for e in found]
            self.gaps = [
                self.numpy.where(e.kink, 3 * gap, 0.0) for e, gap in zip(found, gaps, strict=True)
            ]

    def _too_long(self, found: Sequence[Any]) -> float:
        """Return a power of two by which a direction is scaled down, since tangents of results overflow along it; 0 for no need.

        Differences are in double precision then, and steps that are shorter still lose nothing.
        """
        if not self.point.is_wide:
            return 0.0
        over = (
            largest_of(abs(e.value)) / self.numeric.longest(y)
            for e, y in zip(found, self.base, strict=True)
        )
        most = max((x for x in over if x < math.inf), default=0.0)
        return 2.0 ** -math.ceil(math.log2(most)) if most > 1 else 0.0

    def forward(self, direction: _Direction) -> None:
        """Compare the tangents of the results along a direction with the differences."""
        direction.pushed.extend(map(self.numeric.wide, self.tangents_of_results(direction)))
        for k, (t, e) in enumerate(zip(direction.pushed, direction.found, strict=True)):
            direction.kinks[k] = self.compare(k, t, e, direction)

    def reverse(self, direction: _Direction) -> None:
        """Compare the cotangents of the arguments with the differences along a direction, and with the tangents."""
        if self.small:
            for k, y in enumerate(self.base):
                for flat in range(math.prod(y.shape)):
                    self.row(k, flat, direction)
        else:
            for seed in range(2):
                self.pull(seed, direction)

    def estimate(self, tangents: list[Any]) -> Sequence[Any]:
        """Estimate the derivatives of the results along a direction: by complex steps as long as these agree with differences."""
        point = self.point
        f, given, steps = (lambda points: [*map(point.results, points)]), point.given, point.steps
        if point.is_wide:
            f, given = point.wide_results, [*map(self.numeric.wide, given)]
            steps = self.numeric.steps_for(52, point.how.step, finer=4)
        found = self.numeric.estimate(f, given, tangents, steps, point.rough)
        if point.complex and point.form("complex", in_complex) is None:
            point.complex = False  # an operation takes no complex numbers
        if not point.complex:
            return found
        try:
            better = self.numeric.by_complex_step(
                point.complex_results, given, tangents, found, steps
            )
        except _NO_COMPLEX:
            better = None
        if better is None:
            point.complex = False
        return better or found

    def tangents_of_results(self, direction: _Direction) -> list[Any]:
        """Return the tangents of the results along a direction."""
        point = self.point
        outs = eval_jaxpr(self.made, self.with_tangents(direction))
        self.check_values(outs)
        return point.counted(outs[len(point.flags) :])

    def with_tangents(self, direction: _Direction) -> list[Any]:
        """Return the arguments, and their tangents along a direction."""
        return [*self.point.args, *_typed(direction.tangents, self.point.given)]

    def with_cotangents(self, cotangents: list[Any]) -> list[Any]:
        """Return the arguments, and cotangents of the results."""
        return [*self.point.args, *_typed(self.point.counted(cotangents), self.base)]

    def pulled(self, cotangents: list[Any]) -> list[Any]:
        """Return the cotangents of the arguments."""
        point = self.point
        outs = eval_jaxpr(self.made, self.with_cotangents(cotangents))
        self.check_values(outs)
        return outs[len(point.flags) :]

    def check_values(self, outs: Sequence[Any]) -> None:
        """Compare the results that the derivative computes along with it with those of the program."""
        if self.value.wrong:
            return
        outs = self.point.counted([*compress(outs, self.point.flags)])
        for k, (y, base) in enumerate(zip(outs, self.base, strict=False)):
            got, wanted = self.numeric.wide(y), self.numeric.wide(base)
            size = abs(wanted)
            room = self.point.rtol * size + 64 * self.point.steps.epsilon * largest_of(size)
            wrong = ~(abs(got - wanted) <= room) & (size < math.inf)
            self.note(self.value, k, got, wanted, room, wrong, None)

    def compare(self, k: int, t: Any, e: Any, direction: _Direction) -> Any:
        """Compare the tangent of a result with its estimate; return where the result has a kink."""
        check, point = self.checks["fwd"], self.point
        own = point.rtol * abs(e.value) + self.absolute(e.value) * direction.length + point.floor
        unknown = ~(e.error < math.inf)
        off = ~(abs(t - e.value) <= own + 3 * e.error) & ~unknown
        kink = off & (e.kink | (self.gaps[k] > 0)) & self.between(k, t, e)
        if (off & ~kink).any() and self.bends():
            kink = off & (e.kink | (self.gaps[k] > 0)) & self.between(k, t, e)
        doubtful = (e.error > 0.1 * abs(e.value) + own + _NEGLIGIBLE * e.size) | unknown
        check.compared += int(t.size)
        agreeing = e.firm & ~off
        check.uneven += int((off & e.kink & ~kink).sum())
        kink |= agreeing
        check.kinks += int(kink.sum())
        check.doubted += int(agreeing.sum())
        check.unsure += int((doubtful & ~off & ~kink).sum())
        known = ~doubtful & ~kink
        check.largest(
            abs(t - e.value)[known] / direction.length, abs(e.value)[known] / direction.length
        )
        wrong = off & ~kink
        # what is near enough to the differences may not be so to reverse mode, whose tolerance is a tenth
        far = known & ~(abs(t - e.value) <= 0.1 * own) & ("rev" in self.checks)
        if (wrong.any() or far.any()) and not check.wrong:
            excused = self.rounding.explains(
                self.with_tangents(direction),
                lambda outs: self.numeric.wide(point.counted(outs[len(point.flags) :])[k]),
                lambda x: abs(x - e.value) <= own + 3 * e.error,
            )
            direction.noisy[k] = bool(((wrong | far) & excused).any())
            check.unsure += self.rounding.guessed and bool((wrong & excused).any())
            wrong &= ~excused
        self.note(check, k, t, e.value, own + 3 * e.error, wrong, direction)
        return kink

    def between(self, k: int, t: Any, e: Any) -> Any:
        """Whether a real tangent is between the slopes on both sides, or not far from them.

        Where several elements tie, the derivative may be that of any. Any finite tangent of a complex result counts.
        """
        if t.dtype.kind == "c":
            return abs(t) < math.inf
        gap = numpy_namespace().maximum(e.high - e.low, self.gaps[k])
        room = gap + self.point.rtol * (abs(e.low) + abs(e.high)) + 3 * self.point.steps.epsilon
        return (t >= e.low - room) & (t <= e.high + room)

    def bends(self) -> bool:
        """Find where derivatives are not linear in the direction; return whether that is news for any of them."""
        if self.bent or not self.point.given:
            return False
        self.bent, smallest = True, self.point.steps.sizes[-1]
        seed = 1000 * self.point.how.seed + 500
        sizes = bends_of(
            self.estimate,
            lambda k: self.numeric.directions(self.point.given, seed + k, smallest),
        )
        pairs = [*zip(self.gaps, sizes, strict=True)]
        self.gaps = [self.numpy.maximum(gap, 3 * size) for gap, size in pairs]
        for direction in self.directions:
            direction.kinks[:] = [x | (y > 0) for x, y in zip(direction.kinks, sizes, strict=True)]
        return any(bool(((size > 0) & (gap == 0)).any()) for gap, size in pairs)

    def absolute(self, values: Any) -> float:
        """Return the size that is small against the other elements of a derivative."""
        if self.point.atol is not None:
            return self.point.atol
        return 0.01 * self.point.rtol * largest_of(abs(values)) + 1e-300

    def note(
        self,
        check: Check,
        k: int,
        got: Any,
        wanted: Any,
        room: Any,
        wrong: Any,
        direction: _Direction | None,
    ) -> None:
        """Record the worst of the elements of a result that are wrong."""
        if not wrong.any():
            return
        excess = abs(got - wanted) / (room + 1e-300)
        excess = self.numpy.where(excess == excess, excess, math.inf)
        flat = int(self.numpy.where(wrong, excess, -1.0).argmax())
        length = 1.0 if direction is None else direction.length
        numbers = [x.reshape(-1)[flat].item() / length for x in (got, wanted, room)]
        index = unravel(flat, got.shape)
        argument = None if direction is None else direction.argument
        check.wrong.append(Mismatch(check.mode, self.point.outputs[k], index, argument, *numbers))

    def row(self, k: int, flat: int, direction: _Direction) -> None:
        """Compare the derivative of one element of a result with its estimate and its tangent."""
        e = direction.found[k]
        wanted, error, size = (x.reshape(-1)[flat].item() for x in (e.value, e.error, e.size))
        kinks = (direction.kinks[k], self.directions[0].kinks[k])
        if not error < math.inf or any(x.reshape(-1)[flat] for x in kinks):
            self.checks["rev"].unsure += 1
            return
        unit = [self.numeric.wide(x) * 0 for x in self.base]
        unit[k] = self.numpy.where(_is_element(unit[k], flat), 1.0, 0.0)
        back = self.rows.get((k, flat))
        if back is None:
            back = self.rows[k, flat] = self.pulled(unit)
        got, among = self.numeric.dot(back, direction.tangents)
        where = self.point.outputs[k], unravel(flat, e.value.shape)
        own = (
            self.point.rtol * (abs(wanted) + 0.05 * among)
            + (self.point.atol or 0) * direction.length
            + self.point.floor
        )
        wanted = complex(wanted).real
        if not abs(got - wanted) <= own + 3 * error and self.bends():
            return self.row(k, flat, direction)  # it may be one that bends
        excuse = self.excuse(unit, direction, wanted, own + 3 * error)
        self.scalar("rev", got, wanted, own, 3 * error, size, where, direction, excuse)
        if direction.pushed:
            t = complex(direction.pushed[k].reshape(-1)[flat].item()).real
            rounding = 16 * self.point.steps.epsilon * largest_of(e.size)
            own = 0.1 * self.point.rtol * (abs(t) + among) + rounding + self.point.floor
            if math.isfinite(t) and got == got:
                excuse = excuse.unless_off(t, own, noisy=direction.noisy.get(k, False))
                self.scalar("fwd=rev", t, got, own, 0.0, 0.0, where, direction, excuse)

    def excuse(
        self, cotangents: list[Any], direction: _Direction, wanted: float, room: float
    ) -> Excuse:
        """Return the `Excuse` for a number of reverse mode."""

        def number(outs: Sequence[Any]) -> Any:
            back = [*map(self.numeric.wide, outs[len(self.point.flags) :])]
            return self.numeric.dot(back, direction.tangents)[0]

        return Excuse(self.rounding, self.with_cotangents(cotangents), number, wanted, room)

    def pull(self, seed: int, direction: _Direction) -> None:
        """Compare the derivative of a random sum of the results with the sum of the estimates and of the tangents."""
        numeric, point, found = self.numeric, self.point, direction.found
        good = [(e.error < math.inf) & ~x for e, x in zip(found, direction.kinks, strict=True)]
        if not any(g.any() for g in good):
            self.checks["rev"].unsure += 1
            return
        like = [x * 0 + 1 for x in self.base]
        cts = numeric.directions(like, 77 + 2 * seed, 2.0**-4)
        cts = _typed(
            [self.numpy.where(g, ct, 0) for g, ct in zip(good, cts, strict=True)], self.base
        )

        def total(values: Sequence[Any], weights: Sequence[Any] = cts) -> tuple[float, float]:
            known = [self.numpy.where(g, x, 0) for g, x in zip(good, values, strict=True)]
            return numeric.dot(known, weights)

        back = [*map(numeric.wide, self.pulled(cts))]
        if any((b != b).any() for b in back) and not all(g.all() for g in good):
            # NaN from 0 times the infinite derivative of a result that is left out
            known = [abs(b) < math.inf for b in back]
            back = [self.numpy.where(k, b, 0) for k, b in zip(known, back, strict=True)]
            kept = zip(known, direction.tangents, strict=True)
            tangents = [self.numpy.where(k, t, 0) for k, t in kept]
            direction = direction._replace(tangents=tangents, pushed=[])
            found = self.estimate(tangents)
        got, size = numeric.dot(back, direction.tangents)
        wanted, among = total([e.value for e in found])
        weights = [abs(numeric.wide(ct)) for ct in cts]
        error, _ = total([e.error for e in found], weights)
        values, _ = total([e.size for e in found], weights)
        floor = point.floor * (_size(point.given) + _size(self.base))
        own = point.rtol * (abs(wanted) + 0.05 * (size + among)) + (point.atol or 0.0) + floor
        if not abs(got - wanted) <= own + 3 * error and self.bends():
            return self.pull(seed, direction)  # without the elements that bend
        excuse = self.excuse(cts, direction, wanted, own + 3 * error)
        self.scalar("rev", got, wanted, own, 3 * error, values, None, direction, excuse)
        if direction.pushed:
            forward, among = total(direction.pushed)
            own = 0.1 * point.rtol * (abs(forward) + size + among) + floor
            if math.isfinite(forward) and got == got:
                excuse = excuse.unless_off(forward, own, noisy=any(direction.noisy.values()))
                self.scalar("fwd=rev", forward, got, own, 0.0, 0.0, None, direction, excuse)

    def scalar(
        self,
        mode: str,
        got: float,
        wanted: float,
        own: float,
        error: float,
        size: float,
        result: tuple[int, tuple[int, ...]] | None,
        direction: _Direction,
        excuse: Excuse,
    ) -> None:
        """Compare two numbers, and record the result."""
        check = self.both if mode == "fwd=rev" else self.checks[mode]
        check.compared += 1
        difference, length = abs(got - wanted), direction.length
        if got != got and not self.finite:
            check.unsure += 1
            return
        if not difference <= own + error and (check.wrong or not excuse.holds()):
            output, index = result or (None, None)
            numbers = [x / length for x in (got, wanted, own + error)]
            check.wrong.append(Mismatch(mode, output, index, direction.argument, *numbers))
        elif (not difference <= own + error and excuse.rounding.guessed) or error > 0.3 * abs(
            wanted
        ) + own + 3 * _NEGLIGIBLE * size:
            check.unsure += 1
            return
        both = numpy_namespace().array([difference, abs(wanted)]) / length
        check.largest(both[:1], both[1:])


def is_symmetric(x: Any) -> bool:
    """Whether an array consists of square matrices, of more than one element, that are their own conjugate transposes."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
        return False
    return bool((x == x.conj().swapaxes(-1, -2)).all())


def _typed(values: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Convert values to the types of arrays."""
    return [v.astype(x.dtype) for v, x in zip(values, like, strict=True)]


def _size(xs: Sequence[Any]) -> int:
    return sum(math.prod(x.shape) for x in xs)


def _is_element(x: Any, flat: int) -> Any:
    """Return a boolean array of the shape of x that is true at one flat index."""
    xp = numpy_namespace()
    return xp.arange(math.prod(x.shape)).reshape(x.shape) == flat
