"""Infer the types of binders that have none in the text, from the types of the arguments, equation by equation.

The releases to 0.2.21 print no types at all; `print_shapes=False` leaves out those of binders.
Where an equation has operands whose shapes are open, the shapes are inferred from it backwards
(`OpenShapes`). A literal without a type gets a guessed type, which a later equation may change.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Container, Generator, Iterator, Sequence
from itertools import chain
from typing import Any

from jaxprtool.core.bind import state
from jaxprtool.core.declared import check_declared
from jaxprtool.core.inner import inner_arguments
from jaxprtool.core.stack import run_nested
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import BOOL, DType
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Params
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from jaxprtool.ops.parallel import inner_axes
from jaxprtool.syntax.infer import (
    FAULTS,
    ResultTypes,
    UntypedWarning,
    inner_jaxprs,
    is_untyped,
    likeliest,
    operand_choices,
    result_types,
    taken_types,
    typed_operands,
)
from jaxprtool.syntax.inference.backwards import decided_shape, open_operands
from jaxprtool.syntax.inference.open_shapes import OpenShapes
from jaxprtool.syntax.releases.earlier import OLDER, from_older
from jaxprtool.syntax.types import UNTYPED

__all__ = ["propagate_types"]

# passes over equations whose operands have no types; a bound keeps the time linear
_MOST_PASSES = 20
_MOST_LOOKS = 100  # walks of jaxprs for shapes that equations inside decide
_MOST_GUESSED = 50  # equations that depend on one guess
_MOST_RETRIES = 200  # types of literals that are tried in one program, beyond the likeliest


def propagate_types(program: ClosedJaxpr, wide: bool, warn: bool = False) -> None:
    """Give a type to every result of an equation that has none, in place, and to arguments of inner jaxprs.

    A type that cannot be inferred stays open: the checker reports where.

    Args:
      program: the outermost jaxpr; its arguments have types.
      wide: whether a literal that nothing determines has 64 bits.
      warn: whether to warn of literals whose types are guesses, where results depend on them.
    """
    propagation = _Propagation(wide, warn)
    outer = state.axes
    try:
        run_nested(propagation.jaxpr(program.jaxpr, outer, None))
    finally:
        state.axes = outer
    propagation.warn_of_guesses()


def _open_among(atoms: Sequence[Any]) -> bool:
    """Whether one of some atoms has no type yet."""
    for x in atoms:  # no `any`: it is asked four times of each equation  # noqa: SIM110
        if x.aval is UNTYPED:
            return True
    return False


class _Guess:
    """Values that share a guessed type: results of equations whose operands are only literals, or each other.

    Attributes:
      made: the equations, in order, each with its operands before the literals got types.
    """

    __slots__ = ("made",)

    def __init__(self, made: dict[JaxprEqn, tuple[Any, ...]]) -> None:
        self.made = made


class _Propagation:
    """The walk over a program and the jaxprs inside, in the order of evaluation.

    Attributes:
      failures: the number of equations that do not fit the types of their operands.
      constants: constants of inner jaxprs that have no types; only their uses determine these.
      shapes: the values whose shapes their uses decide.
      noted: by equation and position, literals whose types are guesses, with their text.
      guesses: the guess to which each value of a guessed type belongs; the first equation that uses
        one together with other values decides it.
      trail: the changes so far, for `undo`: an object and its former fields.
    """

    def __init__(self, wide: bool, warn: bool):
        self.wide, self.warn = wide, warn
        self.failures, self.retries = 0, _MOST_RETRIES
        self.trail: list[tuple[Any, dict[str, Any]]] = []
        self.seen: set[Jaxpr] = set()
        self.guesses: dict[Any, _Guess] = {}
        self.constants: set[Any] = set()
        self.noted: dict[tuple[JaxprEqn, int], tuple[Lit, str]] = {}
        self.shapes, self.looks = OpenShapes(self.change), _MOST_LOOKS
        self.rules = ResultTypes(_result_types)

    def change(self, x: Any, **fields: Any) -> None:
        self.trail.append((x, {k: getattr(x, k) for k in fields}))
        amend(x, **fields)

    def undo(self, length: int) -> None:
        """Undo the changes since the trail had a length."""
        while len(self.trail) > length:
            x, fields = self.trail.pop()
            if fields:
                amend(x, **fields)
            else:
                self.seen.discard(x)

    def jaxpr(self, jaxpr: Jaxpr, axes: Any, call: JaxprEqn | None) -> Iterator[Any]:
        """Give types to the results of the equations, with named axes in scope; yield the walks of inner jaxprs."""
        left: Sequence[JaxprEqn] = jaxpr.eqns
        self.shapes.count_uses(jaxpr)
        if call is not None:
            self.constants.update(v for v in jaxpr.const_binders if v.aval is UNTYPED)
        for _ in range(_MOST_PASSES):  # again, as long as a use decides a shape
            decided, count = self.shapes.decided, len(left)
            left = yield from self.pass_over(left, axes)
            stuck = len(left) == count and self.shapes.decided == decided
            if (stuck or not left) and not self.shapes.presume(jaxpr, left, axes):
                break
        if call is None and any(map(is_untyped, jaxpr.outs)):
            self.change(jaxpr, outs=tuple([likeliest(x, self.wide) for x in jaxpr.outs]))

    def pass_over(self, eqns: Sequence[JaxprEqn], axes: Any) -> Generator[Any, None, list[Any]]:
        """Give types to the results of some equations; return those whose operands have no types yet."""
        left: list[JaxprEqn] = []
        for eqn in eqns:
            if eqn.primitive.name in OLDER:
                self.translate(eqn)
            if _open_among(eqn.inputs):
                yield from self.backwards(eqn, axes)
                if _open_among(eqn.inputs):
                    self.shapes.await_result(eqn)
                    left.append(eqn)
                    continue  # the cause of the missing type is reported
            before, told = eqn.inputs, not _open_among(eqn.out_binders)
            formal = taken_types(eqn, inner_jaxprs(eqn)) if self.warn and not told else {}
            inside = {i for i, avals in formal.items() if any(a is not UNTYPED for a in avals)}
            if any(map(is_untyped, before)):
                yield from self.with_literals(eqn, axes)
            else:
                yield from self.equation(eqn, axes)
            if not told:
                self.remember(eqn, before)
            state.axes = axes
            self.shapes.await_result(eqn)
            if self.warn and not told:
                self.note_guess(eqn, before, inside)
        return left

    def backwards(self, eqn: JaxprEqn, axes: Any) -> Iterator[Any]:
        """Give types to operands whose shapes are decided by the equation, or by its inner jaxprs."""
        open_ = open_operands(eqn)
        if len(open_) == 1 and open_[0] in self.constants:
            self.decide_constant(eqn, open_[0], axes)
            return
        if not all(x in self.shapes.awaited for x in open_):
            return
        if inner_jaxprs(eqn):
            yield from self.backwards_inside(eqn, axes)
        elif eqn.primitive.known and not any(map(is_untyped, eqn.inputs)):
            state.axes = axes
            self.shapes.decide_operands(eqn, open_)

    def decide_constant(self, eqn: JaxprEqn, x: Any, axes: Any) -> None:
        """Give a constant of an inner jaxpr the only type with which an equation fits, apart from axes of size 1."""
        if not eqn.primitive.known or inner_jaxprs(eqn) or any(map(is_untyped, eqn.inputs)):
            return
        state.axes = axes
        others = dict.fromkeys(getattr(y.aval, "dtype", None) for y in eqn.inputs if y is not x)
        for dtype in (*others, BOOL):
            if dtype is None:
                continue
            found = decided_shape(eqn, {x: dtype})
            if found is not None:
                self.change(x, aval=ShapedArray(found.shape, dtype))
                self.shapes.decided += 1
                return

    def backwards_inside(self, eqn: JaxprEqn, axes: Any) -> Iterator[Any]:
        """Yield the walks of the inner jaxprs of an equation, some of whose arguments have open shapes."""
        found = self.shapes.enter(eqn)
        state.axes = axes
        inside = axes
        with contextlib.suppress(*FAULTS):
            inside = inner_axes(eqn) or axes
        for closed, _ in found:
            if self.looks:  # limited, since inner jaxprs are walked with each walk of an outer one
                self.looks -= 1
                yield self.jaxpr(closed.jaxpr, inside, eqn)
        self.shapes.unite(eqn)
        state.axes = axes

    def translate(self, eqn: JaxprEqn) -> None:
        """Convert an equation of an earlier release to the current spelling, where that depends on
        the types of the operands.
        """
        primitive, inputs, params = from_older(eqn.primitive, [*eqn.inputs], eqn.params)
        if primitive is not eqn.primitive or params is not eqn.params:
            params = {**primitive.defaults, **params}
            self.change(eqn, primitive=primitive, inputs=tuple(inputs), params=Params(params))

    def with_literals(self, eqn: JaxprEqn, axes: Any) -> Iterator[Any]:
        """Give types to the results of an equation with untyped literals: try types for these until it fits.

        Where none fit, the likeliest ones are taken.
        """
        if not inner_jaxprs(eqn) and not _open_among(eqn.out_binders):
            state.axes = axes
            self.change(eqn, inputs=typed_operands(eqn, self.wide, self.rules))
            return
        length, failures = len(self.trail), self.failures
        first: tuple[Any, ...] = ()
        for operands in self.choices(eqn):
            first = first or operands
            self.change(eqn, inputs=operands)
            yield from self.equation(eqn, axes)
            if self.failures == failures or self.retries <= 0:
                return
            self.retries -= bool(sub_jaxprs(eqn))
            self.undo(length)
            self.failures = failures
        if first:
            self.change(eqn, inputs=first)
            yield from self.equation(eqn, axes)

    def choices(self, eqn: JaxprEqn) -> Iterator[tuple[Any, ...]]:
        """Yield the operands of an equation with types for literals, last those types that its
        inner jaxprs mention.
        """
        tried: set[Any] = set()
        for operands in operand_choices(eqn, self.wide):
            tried.add(tuple([x.aval for x in operands]))
            yield operands
        found = [e.params for c in inner_jaxprs(eqn) for e in all_eqns(c.jaxpr)]
        last = dict.fromkeys(v for params in found for v in params.values() if type(v) is DType)
        for operands in operand_choices(eqn, self.wide, [*last]) if last else ():
            if tuple([x.aval for x in operands]) not in tried:
                yield operands

    def equation(self, eqn: JaxprEqn, axes: Any) -> Iterator[Any]:
        """Give types to the results of an equation, and inside it; where that fails, try other
        types for guessed operands.
        """
        length, failures = len(self.trail), self.failures
        yield from self.as_it_is(eqn, axes)
        if self.failures == failures or not inner_jaxprs(eqn):
            return
        tried = False
        for guess, dtype in self.other_types(eqn):
            if self.retries <= 0:
                break
            self.retries, tried = self.retries - 1, True
            self.undo(length)
            self.failures, state.axes = failures, axes
            if self.retype(guess, dtype):
                yield from self.as_it_is(eqn, axes)
                if self.failures == failures:
                    return
        if tried:
            self.undo(length)
            self.failures = failures
            yield from self.as_it_is(eqn, axes)

    def as_it_is(self, eqn: JaxprEqn, axes: Any) -> Iterator[Any]:
        """Give types to the results of an equation, and inside it, by the current types of its operands."""
        inner = inner_jaxprs(eqn)
        state.axes = axes
        if inner:
            yield from self.inside(eqn, inner)
            state.axes = axes
            if any(_open_among(closed.jaxpr.outs) for closed in inner):
                return
        if _open_among(eqn.out_binders) and eqn.primitive.known:
            self.results(eqn)

    def inside(self, eqn: JaxprEqn, inner: Sequence[ClosedJaxpr]) -> Iterator[Any]:
        """Yield the walks of the inner jaxprs of an equation, whose arguments get types from its operands."""
        avals = [x.aval for x in eqn.inputs]
        axes = state.axes
        try:
            axes = inner_axes(eqn) or axes
            found = inner_arguments(eqn.primitive, avals, eqn.params)
        except FAULTS:  # params that do not fit
            found = []
        for closed, types in found:
            for v, aval in zip(closed.jaxpr.in_binders, types, strict=False):
                if v.aval is UNTYPED:
                    self.change(v, aval=aval.strong)
        for closed in inner:
            if closed.jaxpr not in self.seen:
                self.seen.add(closed.jaxpr)
                self.trail.append((closed.jaxpr, {}))
                yield self.jaxpr(closed.jaxpr, axes, eqn)
        for closed in inner:
            self.constant_results(closed, inner)
            self.literal_results(closed, inner)
        self.shapes.unite(eqn)

    def constant_results(self, closed: ClosedJaxpr, inner: Sequence[ClosedJaxpr]) -> None:
        """Give types to constants among the results of a jaxpr: the types of the results of other branches."""
        outs = closed.jaxpr.outs
        if self.constants.isdisjoint(outs):
            return
        beside = [c.jaxpr.outs for c in inner if len(c.jaxpr.outs) == len(outs)]
        for i, x in enumerate(outs):
            told = [o[i].aval for o in beside if isinstance(o[i].aval, ShapedArray)]
            if (
                x in self.constants
                and x.aval is UNTYPED
                and told
                and not any(map(is_untyped, [o[i] for o in beside]))
            ):
                self.change(x, aval=told[0].strong)

    def literal_results(self, closed: ClosedJaxpr, inner: Sequence[ClosedJaxpr]) -> None:
        """Give types to literals among the results of a jaxpr: those of the other branches, or of its arguments."""
        outs = closed.jaxpr.outs
        if not any(map(is_untyped, outs)):
            return
        beside = [c.jaxpr.outs for c in inner if len(c.jaxpr.outs) == len(outs)]
        taken = closed.jaxpr.in_avals  # a loop returns some of them
        typed = [
            likeliest(x, self.wide, [*[o[i].aval for o in beside], *taken])
            for i, x in enumerate(outs)
        ]
        self.change(closed.jaxpr, outs=tuple(typed))

    def results(self, eqn: JaxprEqn) -> None:
        found = self.result_types(eqn)
        if found is None and self.guesses and not inner_jaxprs(eqn):
            found = self.guessed_again(eqn)
        if found is None:
            self.failures += 1
            return
        for v, aval in zip(eqn.out_binders, found, strict=True):
            if v.aval is UNTYPED:
                self.change(v, aval=aval)

    def result_types(self, eqn: JaxprEqn) -> Sequence[Any] | None:
        return self.rules.of(eqn, eqn.inputs, state.axes and state.axes.key)

    def remember(self, eqn: JaxprEqn, before: tuple[Any, ...]) -> None:
        """Record which results of an equation have guessed types; `before` are its operands with literals untyped."""
        if not self.guesses and not any(map(is_untyped, before)):
            return
        found = dict.fromkeys(self.guesses.get(x) for x in before if not is_untyped(x))
        behind = [g for g in found if g is not None]
        made = {e: inputs for g in behind for e, inputs in g.made.items()}
        outs = eqn.out_binders
        is_new = len(outs) == 1 and outs[0].aval is not UNTYPED and not inner_jaxprs(eqn)
        if before and is_new and len(behind) == len(found) and len(made) < _MOST_GUESSED:
            guess = behind[0] if len(behind) == 1 else _Guess(made)
            guess.made[eqn] = before
            self.guesses.update((e.out_binders[0], guess) for e in (*made, eqn))
        else:
            for e in made:  # the type is decided by that equation, not guessed
                self.guesses.pop(e.out_binders[0], None)

    def guessed_again(self, eqn: JaxprEqn) -> Sequence[Any] | None:
        """Retry an equation with another type for a guessed operand; return its result types, None where none fits."""
        for guess, dtype in self.other_types(eqn):
            length = len(self.trail)
            if self.retype(guess, dtype):
                found = self.result_types(eqn)
                if found is not None:
                    return found
            self.undo(length)
        return None

    def other_types(self, eqn: JaxprEqn) -> list[tuple[_Guess, DType]]:
        """Return the guesses among the operands of an equation, each with the element types of the other operands."""
        dtypes = dict.fromkeys(getattr(x.aval, "dtype", None) for x in eqn.inputs)
        own = {self.guesses[x]: x.aval for x in eqn.inputs if x in self.guesses}
        return [
            (guess, d)
            for guess, aval in own.items()
            for d in dtypes
            if d is not None and d != getattr(aval, "dtype", None)
        ]

    def note_guess(self, eqn: JaxprEqn, before: Sequence[Any], inside: Container[int]) -> None:
        """Note a literal whose type is a guess that a result depends on.

        Args:
          eqn: the equation.
          before: its operands before the literals got types.
          inside: the positions of operands that an inner jaxpr takes by a binder with a type.
        """
        told = {getattr(x.aval, "dtype", None) for x in before}
        results = {getattr(v.aval, "dtype", None) for v in eqn.out_binders}
        for i, (old, new) in enumerate(zip(before, eqn.inputs, strict=False)):
            if i in inside:
                continue
            if is_untyped(old) and type(new) is Lit and new.aval.dtype in results - told:
                self.noted[eqn, i] = new, old.text
                return

    def warn_of_guesses(self) -> None:
        """Warn of the noted literals, except where a later equation determined another type."""
        for (eqn, i), (lit, text) in self.noted.items():
            if eqn.inputs[i] is lit:
                place = f"{eqn.span}: " if eqn.span else ""
                what = f"the type of {text} is not in the text, and is taken to be {lit.aval}"
                warnings.warn(f"{place}{what}", UntypedWarning, stacklevel=3)

    def retype(self, guess: _Guess, dtype: DType) -> bool:
        """Give the literals of a guess another element type, and the values made of them; return
        False where that does not fit.
        """
        literals = filter(is_untyped, chain.from_iterable(guess.made.values()))
        if any(dtype not in x.types([dtype], self.wide) for x in literals):
            return False
        for eqn, before in guess.made.items():
            pairs = zip(before, eqn.inputs, strict=True)
            inputs = tuple([x.typed(dtype) if is_untyped(x) else y for x, y in pairs])
            self.change(eqn, inputs=inputs)
            found = self.result_types(eqn)
            if found is None:
                return False
            self.change(eqn.out_binders[0], aval=found[0])
        return True


def _result_types(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Return the types of an equation's results; None where its operands or params do not fit."""
    try:
        check_declared(eqn)
    except JaxprToolError:
        return None
    return result_types(eqn, operands)
