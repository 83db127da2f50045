"""Infer the types of literals that have none in the text, as in the releases before 0.6.1 (`mul c 3.0`).

The type rules of the primitives decide which types fit. Of the types that a literal may have, the
first is taken for which the results of the equation have the types of its binders. The rules are in
a layer above, which hands them in (`set_type_rule`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeGuard, cast

from jaxprtool.core.gateways import gateways
from jaxprtool.ir.avals import RefType, ShapedArray
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
from jaxprtool.ir.walk import jaxprs_in, sub_jaxprs
from jaxprtool.syntax.types import UNTYPED, as_scalar, read_scalar, untyped_scalar

__all__ = [
    "FAULTS",
    "ResultTypes",
    "UntypedLit",
    "UntypedWarning",
    "taken_types",
    "typed_operands",
    "fits",
    "infer_literals",
    "inner_jaxprs",
    "is_untyped",
    "likeliest",
    "operand_choices",
    "reachable",
    "result_types",
    "set_type_rule",
    "untyped_literal",
]

TypeRule = Callable[[Primitive, Sequence[Any], dict[str, Any]], Sequence[Any]]
_rule: list[TypeRule] = []

# What a function of a row raises for operands and params that do not fit.
FAULTS = (TypeError, ValueError, KeyError, AttributeError, IndexError)

_MOST_TRIES = 60  # combinations of types to try for one equation
_USUAL_OPERANDS = 20  # an equation with more has fewer tries
_LARGEST = 3.4028236e38  # no type of 32 bits or fewer holds more
_EMPTY = "(b'',)"  # the value of a float0
_NARROW = (BOOL, INT32, FLOAT32, COMPLEX64, UINT32, INT64, UINT64, FLOAT64, COMPLEX128)
_WIDE = (BOOL, INT64, FLOAT64, COMPLEX128, INT32, UINT64, UINT32, FLOAT32, COMPLEX64)
# element types that a literal of that Python type may have
_KINDS = {bool: "b", int: "iu", float: "f", complex: "c"}


class UntypedWarning(UserWarning):
    """The text does not determine the type of a literal, and results depend on it."""


def set_type_rule(rule: TypeRule) -> None:
    """Install the function that returns the result types of an operation, given its operands' types and its params."""
    _rule[:] = [rule]


class UntypedLit:
    """A literal without a type in the text.

    It exists until the program is read: then it gets a type, or an open one.
    """

    __slots__ = ("kinds", "text")
    aval = None

    def __init__(self, text: str, kinds: str):
        self.text, self.kinds = text, kinds

    @classmethod
    def of(cls, lit: Lit) -> UntypedLit:
        """Return the untyped literal from which `opened` made a literal."""
        return cls(str(lit.val), _KINDS[type(lit.val)])

    def opened(self) -> Lit:
        """Return a literal of the same value whose type is open."""
        if self.kinds == "0":
            return self.typed(FLOAT0)
        return Lit(untyped_scalar(self.text), UNTYPED)

    def typed(self, dtype: DType) -> Lit:
        """Return the literal in an element type.

        Raises ValueError when that cannot represent it.
        """
        return Lit(read_scalar(self.text, dtype), ShapedArray((), dtype))

    def types(self, wanted: Iterable[Any], wide: bool) -> tuple[DType, ...]:
        """Return the element types that can represent it, the likeliest first.

        Args:
          wanted: types or element types to prefer, in this order.
          wide: whether the default is 64 bits.
        """
        found = dict.fromkeys(filter(None, map(_dtype, wanted)))
        return _types_of(self.text, self.kinds, tuple(found), wide)


@functools.lru_cache(maxsize=1024)  # a program has few literals that differ
def _types_of(text: str, kinds: str, wanted: tuple[DType, ...], wide: bool) -> tuple[DType, ...]:
    if kinds == "0":
        return (FLOAT0,)
    value = untyped_scalar(text)
    found = dict.fromkeys((*wanted, *(_WIDE if wide else _NARROW)))
    fitting = [d for d in found if _holds(d, value)]
    return tuple(sorted(fitting, key=lambda d: d.kind not in kinds))


def _holds(dtype: DType, value: Any) -> bool:
    """Whether a number in a text may have an element type."""
    if as_scalar(value, dtype) is None:
        return False
    narrow = dtype.kind == "f" and dtype.bits < 64 and isinstance(value, float)
    return not narrow or not math.isfinite(value) or abs(value) <= _LARGEST


def is_untyped(x: Any) -> TypeGuard[UntypedLit]:
    """Whether an atom is a literal that has no type yet."""
    return type(x) is UntypedLit


def untyped_literal(word: str) -> UntypedLit | None:
    """Return the literal without a type that a word spells, or None."""
    if word == _EMPTY:
        return UntypedLit(word, "0")
    value = untyped_scalar(word)
    return None if value is None else UntypedLit(word, _KINDS[type(value)])


def _dtype(wanted: Any) -> DType | None:
    """Return the element type of a type, or of the contents of a reference."""
    if isinstance(wanted, RefType):
        wanted = wanted.inner
    return wanted if isinstance(wanted, DType) else getattr(wanted, "dtype", None)


def inner_jaxprs(eqn: JaxprEqn) -> Sequence[ClosedJaxpr]:
    """Return the jaxprs in the params of an equation.

    This includes jaxprs in params that are not declared to hold any, which only the checker
    refuses.
    """
    return (sub_jaxprs(eqn) or list(jaxprs_in(eqn.params))) if eqn.params else ()


def infer_literals(programs: Iterable[ClosedJaxpr], wide: bool) -> None:
    """Give a type to every `UntypedLit` in the equations and the results of programs, in place.

    A literal that fits nowhere gets the likeliest type, and the checker says what is wrong.

    Args:
      programs: the outermost jaxprs, and definitions.
      wide: whether a literal that nothing determines has 64 bits.
    """
    outermost = [closed.jaxpr for closed in programs]
    order = list(reachable(outermost))
    for jaxpr in order:  # types of the results of called jaxprs, from the binders of the call
        for eqn in jaxpr.eqns:
            for closed in inner_jaxprs(eqn):
                _type_results(closed.jaxpr, eqn.out_binders, wide)
    rules = ResultTypes(result_types)
    for jaxpr in order:
        _type_results(jaxpr, (), wide)
        for eqn in jaxpr.eqns:
            if any(map(is_untyped, eqn.inputs)):
                amend(eqn, inputs=typed_operands(eqn, wide, rules))


def reachable(jaxprs: Sequence[Jaxpr]) -> Iterator[Jaxpr]:
    """Yield jaxprs and all inside of them, each once; jaxprs in undeclared params too."""
    seen: set[Jaxpr] = set()
    pending = list(reversed(jaxprs))
    while pending:
        jaxpr = pending.pop()
        if jaxpr in seen:
            continue
        seen.add(jaxpr)
        yield jaxpr
        pending += [closed.jaxpr for eqn in jaxpr.eqns for closed in jaxprs_in(eqn.params)]


def _type_results(jaxpr: Jaxpr, binders: Sequence[Var], wide: bool) -> None:
    """Give types to literals among the results; `binders` are those of the call's results, () where
    they are not known.
    """
    outs = jaxpr.outs
    if any(map(is_untyped, outs)):
        around = [(v.aval,) for v in binders] if len(binders) == len(outs) else [()] * len(outs)
        amend(jaxpr, outs=tuple(likeliest(x, wide, a) for x, a in zip(outs, around, strict=True)))


def likeliest(x: Any, wide: bool, around: Sequence[Any] = ()) -> Any:
    """Return a literal with its likeliest type; any other atom as it is."""
    return x.typed(x.types(around, wide)[0]) if is_untyped(x) else x


def typed_operands(eqn: JaxprEqn, wide: bool, rules: ResultTypes) -> tuple[Any, ...]:
    """Return the operands of an equation with a type for each literal, such that the equation fits."""
    first: tuple[Any, ...] = ()
    for operands in operand_choices(eqn, wide):
        first = first or operands
        if fits(eqn, rules.of(eqn, operands)):
            return operands
    return first


def operand_choices(
    eqn: JaxprEqn, wide: bool, last: Sequence[DType] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the operands of an equation with a type for each literal, the likeliest types first, those in `last` last.

    The number of choices is limited.
    """
    inputs = cast("tuple[Any, ...]", eqn.inputs)  # some may still be `UntypedLit`
    places = [i for i, x in enumerate(inputs) if is_untyped(x)]
    around = list(dict.fromkeys(map(_dtype, _avals_around(eqn))))
    formals = taken_types(eqn, list(sub_jaxprs(eqn)))
    choices = [inputs[i].types([*formals.get(i, ()), *around], wide) for i in places]
    for n, i in enumerate(places) if last else ():
        choices[n] += tuple(
            [d for d in last if d not in choices[n] and d in inputs[i].types([d], wide)]
        )
    tries = min(_MOST_TRIES, 1 + _MOST_TRIES * _USUAL_OPERANDS // len(inputs))
    for dtypes in itertools.islice(_combinations(choices), tries):
        operands = list(inputs)
        for i, dtype in zip(places, dtypes, strict=True):
            operands[i] = inputs[i].typed(dtype)
        yield tuple(operands)


def _combinations(choices: list[tuple[DType, ...]]) -> Iterator[tuple[DType, ...]]:
    """Yield one type for each literal: the likeliest ones, then one type for all, then all combinations."""
    yield tuple(c[0] for c in choices)
    if len(choices) > 1:
        for dtype in dict.fromkeys(itertools.chain(*choices)):
            if all(dtype in c for c in choices):
                yield (dtype,) * len(choices)
    yield from itertools.product(*choices)


def _avals_around(eqn: JaxprEqn) -> list[Any]:
    return [x.aval for x in eqn.inputs] + [v.aval for v in eqn.out_binders]


def taken_types(eqn: JaxprEqn, inner: Sequence[ClosedJaxpr]) -> dict[int, list[Any]]:
    """Return for each operand the types of the arguments of inner jaxprs that may take it.

    The arguments of a jaxpr are taken to be the last operands (all of a call's; all but the index
    of a cond's; those after the other jaxpr's constants in a loop), and the first operands, as in a
    loop whose jaxpr has constants of its own.
    """
    count = len(eqn.inputs)
    found: dict[int, list[Any]] = {i: [INT32] for i in range(eqn.primitive.index_from, count)}
    for last in (True, False):
        for closed in inner:
            avals = closed.jaxpr.in_avals
            for i, aval in enumerate(avals, count - len(avals) if last else 0):
                found.setdefault(i, []).append(aval)
    return found


class ResultTypes:
    """A cache of result types by operation, params and types of the operands."""

    def __init__(self, rule: Callable[[JaxprEqn, Sequence[Any]], Sequence[Any] | None]):
        self.rule = rule
        self.found: dict[Any, tuple[Any, Sequence[Any] | None]] = {}

    def of(self, eqn: JaxprEqn, operands: Sequence[Any], scope: Any = None) -> Sequence[Any] | None:
        """Return the types of an equation's results for some operands; None where the equation does not fit them.

        Args:
          eqn: the equation.
          operands: as many atoms as it has operands; each has a type.
          scope: what else the types depend on: the axis names that are bound.
        """
        primitive, params = eqn.primitive, eqn.params
        if primitive.holds_jaxprs or not primitive.known:
            # not memoised, since the types inside may change meanwhile
            return self.rule(eqn, operands)
        avals = [x.aval for x in operands]
        key = (primitive, id(params), len(eqn.out_binders), scope, *avals)
        known = self.found.get(key)
        if known is None:
            # the params are kept alive, since their id is in the key
            known = self.found[key] = params, self.rule(eqn, operands)
        return known[1]


def result_types(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Return the types of an equation's results for some operands; None where the equation does not fit them."""
    if not _rule:  # no checker is loaded, as in `fmt`
        gateways.load_type_rule()
    try:
        params = _without_rules(eqn)
        found = _rule[0](eqn.primitive, [x.aval.strong for x in operands], params)
    except Exception:  # a rule may trip over operands and params that do not fit
        return None
    return found if len(found) == len(eqn.out_binders) else None


def _without_rules(eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params without the jaxprs that JAX does not print (derivative rules): no type of a
    result depends on them.
    """
    unprinted = eqn.primitive.unprinted
    return {
        k: None if k in unprinted and isinstance(v, ClosedJaxpr) else v
        for k, v in eqn.params.items()
    }


def fits(eqn: JaxprEqn, found: Sequence[Any] | None) -> bool:
    """Whether the result types that the type rule gives an equation are those of its binders."""
    return found is not None and all(
        v.aval is UNTYPED or a is v.aval or _key(a) == _key(v.aval)
        for a, v in zip(found, eqn.out_binders, strict=True)
    )


def _key(aval: Any) -> Any:
    return (aval.shape, aval.dtype) if isinstance(aval, ShapedArray) else aval
