"""Types of literals and of binders that have none in the text.

Releases before 0.6.1 print literals without types (`mul c 3.0`), `print_shapes=False` leaves out those of binders.

The type rules of the primitives say which types fit: of the types that a literal may have, the first is taken with which
the equation has the results that its binders announce. The rules live in a layer above, which hands them in.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeGuard, cast

from jaxprtool.core.bind import state
from jaxprtool.core.declared import check_declared
from jaxprtool.core.inner import inner_arguments
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError
from jaxprtool.ir.dtypes import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT0,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    UINT64,
    DType,
)
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Primitive, Var
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.ops.parallel import inner_axes
from jaxprtool.syntax.types import UNTYPED, read_scalar, untyped_scalar

__all__ = [
    "UntypedLit",
    "UntypedWarning",
    "infer_binders",
    "infer_literals",
    "set_type_rule",
    "untyped_literal",
]

TypeRule = Callable[[Primitive, Sequence[Any], dict[str, Any]], Sequence[Any]]
_rule: list[TypeRule] = []

_MOST_TRIES = 60  # combinations of types that are tried for one equation
_USUAL_OPERANDS = 20  # an equation with more has fewer tries
_LARGEST = 3.4028236e38  # no type of 32 bits or fewer holds more
_EMPTY = "(b'',)"  # the value of a float0
_NARROW = (BOOL, INT32, FLOAT32, COMPLEX64, INT64, UINT32, UINT64, FLOAT64, COMPLEX128)
_WIDE = (BOOL, INT64, FLOAT64, COMPLEX128, INT32, UINT64, UINT32, FLOAT32, COMPLEX64)
_KINDS = {bool: "b", int: "iu", float: "f", complex: "c"}  # of element types that print so


class UntypedWarning(UserWarning):
    """Nothing in a text tells the type of a literal, and results depend on it."""


def set_type_rule(rule: TypeRule) -> None:
    """Say what gives the result types of an operation, from its operands' types and its params."""
    _rule[:] = [rule]


class UntypedLit:
    """A literal that has no type in the text; none is left once a program is read."""

    __slots__ = ("kinds", "text")
    aval = None

    def __init__(self, text: str, kinds: str):
        self.text, self.kinds = text, kinds

    def typed(self, dtype: DType) -> Lit:
        """The literal in an element type. Raises ValueError when that cannot hold it."""
        return Lit(read_scalar(self.text, dtype), ShapedArray((), dtype))

    def types(self, wanted: Iterable[Any], wide: bool) -> list[DType]:
        """The element types that can hold it, the likeliest first.

        Args:
          wanted: types or element types to prefer, in this order.
          wide: whether the default is 64 bits.
        """
        found = dict.fromkeys(filter(None, map(_dtype, wanted)))
        found.update(dict.fromkeys(_WIDE if wide else _NARROW))
        if self.kinds == "0":
            return [FLOAT0]
        usual = [d for d in found if d.kind in self.kinds and self._fits(d)]
        return usual + [d for d in found if d.kind not in self.kinds and self._fits(d)]

    def _fits(self, dtype: DType) -> bool:
        try:
            value = read_scalar(self.text, dtype)
        except ValueError:
            return False
        if (
            dtype.kind == "f"
            and isinstance(value, float)
            and dtype.bits < 64
            and math.isfinite(value)
        ):
            return abs(value) <= _LARGEST
        return dtype.kind != "0"


def _is_untyped(x: Any) -> TypeGuard[UntypedLit]:
    return type(x) is UntypedLit


def untyped_literal(word: str) -> UntypedLit | None:
    """The literal without a type that a word spells, or None."""
    if word == _EMPTY:
        return UntypedLit(word, "0")
    value = untyped_scalar(word)
    return None if value is None else UntypedLit(word, _KINDS[type(value)])


def _dtype(wanted: Any) -> DType | None:
    """The element type of a type, or of what a reference holds."""
    if isinstance(wanted, RefType):
        wanted = wanted.inner
    return wanted if isinstance(wanted, DType) else getattr(wanted, "dtype", None)


def infer_literals(programs: Iterable[ClosedJaxpr], wide: bool) -> None:
    """Give a type to every `UntypedLit` in the equations and the results of programs, in place.

    A literal that fits nowhere gets the likeliest type, and the checker says what is wrong.

    Args:
      programs: the outermost jaxprs, and definitions.
      wide: whether a literal that nothing determines has 64 bits.
    """
    outermost = [closed.jaxpr for closed in programs]
    order = list(_reachable(outermost))
    for jaxpr in order:  # results of what is called, which the binders of the call tell
        for eqn in jaxpr.eqns:
            for closed in sub_jaxprs(eqn):
                _type_results(closed.jaxpr, eqn.out_binders, wide)
    for jaxpr in order:
        _type_results(jaxpr, (), wide)
        for eqn in jaxpr.eqns:
            if any(map(_is_untyped, eqn.inputs)):
                amend(eqn, inputs=_typed_operands(eqn, wide))


def _reachable(jaxprs: Sequence[Jaxpr]) -> Iterator[Jaxpr]:
    """Jaxprs and all inside of them, each once."""
    seen: set[Jaxpr] = set()
    pending = list(reversed(jaxprs))
    while pending:
        jaxpr = pending.pop()
        if jaxpr in seen:
            continue
        seen.add(jaxpr)
        yield jaxpr
        pending += [closed.jaxpr for eqn in jaxpr.eqns for closed in sub_jaxprs(eqn)]


def _type_results(jaxpr: Jaxpr, binders: Sequence[Var], wide: bool) -> None:
    """Give types to literals among the results; `binders` are bound to them, or none."""
    outs = jaxpr.outs
    if any(map(_is_untyped, outs)):
        around = [(v.aval,) for v in binders] if len(binders) == len(outs) else [()] * len(outs)
        amend(jaxpr, outs=tuple(_likeliest(x, wide, a) for x, a in zip(outs, around, strict=True)))


def _likeliest(x: Any, wide: bool, around: Sequence[Any] = ()) -> Any:
    """A literal with its likeliest type; any other atom as it is."""
    return x.typed(x.types(around, wide)[0]) if _is_untyped(x) else x


def _typed_operands(eqn: JaxprEqn, wide: bool) -> tuple[Any, ...]:
    """The operands of an equation with a type for each literal, such that the equation fits."""
    inputs = cast("tuple[Any, ...]", eqn.inputs)  # some are `UntypedLit` so far
    places = [i for i, x in enumerate(inputs) if _is_untyped(x)]
    around = list(dict.fromkeys(map(_dtype, _avals_around(eqn))))
    formals = _formals(eqn, list(sub_jaxprs(eqn)))
    choices = [inputs[i].types([*formals.get(i, ()), *around], wide) for i in places]
    tries = min(_MOST_TRIES, 1 + _MOST_TRIES * _USUAL_OPERANDS // len(inputs))
    first: list[Any] = []
    for dtypes in itertools.islice(_combinations(choices), tries):
        operands = list(inputs)
        for i, dtype in zip(places, dtypes, strict=True):
            operands[i] = inputs[i].typed(dtype)
        first = first or operands
        if not _rule or _fits(eqn, operands):
            return tuple(operands)
    return tuple(first)


def _combinations(choices: list[list[DType]]) -> Iterator[tuple[DType, ...]]:
    """One type for each literal: the likeliest ones, then one type for all, then any."""
    yield tuple(c[0] for c in choices)
    if len(choices) > 1:
        for dtype in dict.fromkeys(itertools.chain(*choices)):
            if all(dtype in c for c in choices):
                yield (dtype,) * len(choices)
    yield from itertools.product(*choices)


def _avals_around(eqn: JaxprEqn) -> list[Any]:
    return [x.aval for x in eqn.inputs] + [v.aval for v in eqn.out_binders]


def _formals(eqn: JaxprEqn, inner: Sequence[ClosedJaxpr]) -> dict[int, list[Any]]:
    """Types that operands may have by what takes them, for each operand.

    The arguments of a jaxpr are the last operands (all of a call's; all but the index of a cond's; what follows the other
    jaxpr's constants in a loop), or, where it has constants of its own in a loop, the first of them.
    """
    count = len(eqn.inputs)
    found: dict[int, list[Any]] = {i: [INT32] for i in range(eqn.primitive.index_from, count)}
    for last in (True, False):
        for closed in inner:
            avals = closed.jaxpr.in_avals
            for i, aval in enumerate(avals, count - len(avals) if last else 0):
                found.setdefault(i, []).append(aval)
    return found


def _fits(eqn: JaxprEqn, operands: Sequence[Any]) -> bool:
    """Whether an equation with these operands has results of the types of its binders."""
    try:
        found = _rule[0](eqn.primitive, [x.aval.strong for x in operands], eqn.params)
        return len(found) == len(eqn.out_binders) and all(
            v.aval is UNTYPED or _key(a) == _key(v.aval)
            for a, v in zip(found, eqn.out_binders, strict=True)
        )
    except Exception:  # a rule may trip over operands and params that do not fit
        return False


def _key(aval: Any) -> Any:
    return (aval.shape, aval.dtype) if isinstance(aval, ShapedArray) else aval


# -- binders -----------------------------------------------------------------------------------

_UNTOLD = ("misfit", "missing-param")  # faults that a type which is not in the text brings about
_HELP = "write it after a colon (a:f32[3]), or print the jaxpr without print_shapes=False"


def infer_binders(
    program: ClosedJaxpr, definitions: Iterable[ClosedJaxpr], wide: bool, sound: bool
) -> list[Diagnostic]:
    """Give a type to every result of an equation that has none, in place, and to arguments of jaxprs inside.

    Args:
      program: the outermost jaxpr; its arguments need types in the text.
      definitions: jaxprs that it may use.
      wide: as for `infer_literals`.
      sound: whether nothing else was wrong with the text, which would explain why a type is not known.

    Returns:
      What cannot be told: the arguments without a type, equations that their types do not fit.
    """
    errors = _without_type(program.jaxpr)
    if errors or not _rule:
        return errors
    inference = _Inference(wide)
    outer = state.axes
    stack = [inference.jaxpr(program.jaxpr, outer)]
    try:
        while stack:  # jaxprs may be nested deeper than Python's stack
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(inner)
    finally:
        state.axes = outer
    if sound and not inference.errors:  # used by nobody, or in a way that says nothing of types
        for jaxpr in _reachable([program.jaxpr, *(c.jaxpr for c in definitions)]):
            inference.errors += _without_type(jaxpr)
            for eqn in jaxpr.eqns:
                if any(v.aval is UNTYPED for v in eqn.out_binders):
                    inference.errors.append(_unknown(eqn))
    return inference.errors


def _without_type(jaxpr: Jaxpr) -> list[Diagnostic]:
    return [
        Diagnostic(f"the type of the argument {v.name} cannot be told", "no-type", v.span, _HELP)
        for v in jaxpr.all_binders
        if v.aval is UNTYPED
    ]


def _unknown(eqn: JaxprEqn) -> Diagnostic:
    names = ", ".join(v.name or "_" for v in eqn.out_binders)
    return Diagnostic(f"the type of {names} cannot be told", "no-type", eqn.span, _HELP)


def _warn_of_guesses(eqn: JaxprEqn, before: Sequence[Any]) -> None:
    """Warn of a literal with a type that nothing in the text tells, and that a result has for it.

    Args:
      before: the operands as they were, without the types of literals.
    """
    told = {_dtype(x.aval) for x in before}
    results = {_dtype(v.aval) for v in eqn.out_binders}
    for old, new in zip(before, eqn.inputs, strict=True):
        if _is_untyped(old) and new.aval.dtype in results - told:
            place = f"{eqn.span}: " if eqn.span else ""
            message = (
                f"{place}the type of {old.text} is not in the text, and is taken to be {new.aval}"
            )
            warnings.warn(message, UntypedWarning, stacklevel=2)
            return


class _Inference:
    """The walk over a program and the jaxprs inside, in the order of evaluation."""

    def __init__(self, wide: bool):
        self.wide = wide
        self.errors: list[Diagnostic] = []
        self.seen: set[Jaxpr] = set()

    def jaxpr(self, jaxpr: Jaxpr, axes: Any) -> Iterator[Any]:
        """Give types to the results of the equations, with named axes in scope; yields the walks of jaxprs inside."""
        for eqn in jaxpr.eqns:
            before = eqn.inputs
            if any(map(_is_untyped, before)):
                amend(eqn, inputs=_typed_operands(eqn, self.wide))
            if any(x.aval is UNTYPED for x in eqn.inputs):
                continue  # what that comes from is reported
            state.axes = axes
            yield from self.inside(eqn)
            state.axes = axes
            inner = (x for closed in sub_jaxprs(eqn) for x in closed.jaxpr.outs)
            if any(x.aval is UNTYPED for x in inner):
                continue
            if any(v.aval is UNTYPED for v in eqn.out_binders):
                self.results(eqn)
                _warn_of_guesses(eqn, before)
        if any(map(_is_untyped, jaxpr.outs)):
            amend(jaxpr, outs=tuple(_likeliest(x, self.wide) for x in jaxpr.outs))

    def inside(self, eqn: JaxprEqn) -> Iterator[Any]:
        """The walks of the jaxprs of an equation, whose arguments get types from its operands."""
        avals = [x.aval for x in eqn.inputs]
        axes = state.axes
        try:
            axes = inner_axes(eqn) or axes
            found = inner_arguments(eqn.primitive, avals, eqn.params)
        except (TypeError, ValueError, KeyError, AttributeError):  # params that do not fit
            found = []
        for closed, types in found:
            for v, aval in zip(closed.jaxpr.in_binders, types, strict=False):
                if v.aval is UNTYPED:
                    amend(v, aval=aval.strong)
        for closed in sub_jaxprs(eqn):
            jaxpr = closed.jaxpr
            if jaxpr in self.seen:
                continue
            self.seen.add(jaxpr)
            self.errors += _without_type(jaxpr)
            yield self.jaxpr(jaxpr, axes)

    def results(self, eqn: JaxprEqn) -> None:
        try:
            if eqn.primitive.known:
                check_declared(eqn)
            avals = [x.aval.strong for x in eqn.inputs]
            found = _rule[0](eqn.primitive, avals, eqn.params)
        except JaxprToolError as e:
            found = [Diagnostic(d.message, d.code, eqn.span, d.help) for d in e.diagnostics]
            self.errors += [_unknown(eqn) if d.code in _UNTOLD else d for d in found]
            return
        except Exception:  # a rule may trip over operands and params that do not fit
            self.errors.append(_unknown(eqn))
            return
        if len(found) != len(eqn.out_binders):
            self.errors.append(_unknown(eqn))
            return
        for v, aval in zip(eqn.out_binders, found, strict=True):
            if v.aval is UNTYPED:
                amend(v, aval=aval)
