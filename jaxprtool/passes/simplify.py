"""simplify: remove operations that change nothing, and replace two by one; exact to the bit, unless `fast_math` is given."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.identity import identity_rules
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import holds_all
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ops.arrays.shaping import SHAPING
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.rules import Match, Rule, apply_rules

__all__ = ["handed_on", "simplify"]

_EXACT: dict[str, list[Rule]] = {}
_FAST: dict[str, list[Rule]] = {}


@define_pass("simplify", "bits types no-more-equations linear-time")
def simplify(program: ClosedJaxpr, *, fast_math: bool = False) -> ClosedJaxpr:
    """Leave out operations that change nothing (x * 1, x + 0 where exact), and put one for two (transpositions, converts, reshapes).

    Exact to the bit as IEEE arithmetic goes, unless fast_math is given, which takes x * 0 for 0, x - x for 0, x / c for
    x * (1 / c) and x + 0 for x. A conversion to a narrower type rounds, and stays.
    """
    rules = {name: [*own] for name, own in _EXACT.items()}
    for name, own in _FAST.items() if fast_math else ():
        rules.setdefault(name, []).extend(own)
    return apply_rules(program, rules, first=_identity)


def handed_on(eqn: JaxprEqn) -> Var | None:
    """Return the operand that `simplify` would replace an equation's only result by; None where it would not."""
    binders = [*dict.fromkeys(x for x in eqn.inputs if isinstance(x, Var))]
    if len(eqn.out_binders) != 1 or not binders or eqn.primitive.holds_jaxprs:
        return None
    made = simplify(ClosedJaxpr(Jaxpr(binders, [eqn], [*eqn.out_binders]), [])).jaxpr
    found = dict(zip(made.in_binders, binders, strict=True))
    return found.get(made.outs[0]) if not made.eqns else None  # type: ignore[arg-type]


def _of(*names: str, fast: bool = False) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule for equations of these primitives."""

    def add(rule: Rule) -> Rule:
        for name in names:
            (_FAST if fast else _EXACT).setdefault(name, []).append(rule)
        return rule

    return add


def _identity(m: Match) -> Any:
    same = identity_rules.find(m.eqn.primitive)
    return m.inputs[0] if same is not None and same(m.params) else None


@_of("mul")
def _times_one(m: Match) -> Any:
    """x * 1 and 1 * x."""
    for i in (0, 1):
        if _is_one(m.value(i)):
            return m.inputs[1 - i]
    return None


@_of("div")
def _over_one(m: Match) -> Any:
    return m.inputs[0] if _is_one(m.value(1)) else None


def _is_one(value: Any) -> bool:
    return value == 1 and not isinstance(value, (bool, complex))


@_of("integer_pow")
def _to_the_first(m: Match) -> Any:
    return m.inputs[0] if m.params["y"] == 1 else None


@_of("add", "add_any")
def _plus_zero(m: Match) -> Any:
    """x + -0.0 is x for every x; x + 0.0 is not for -0.0. Integers have one zero."""
    for i in (0, 1):
        if m.is_zero(i, negative=True):
            return m.inputs[1 - i]
    return None


@_of("sub")
def _minus_zero(m: Match) -> Any:
    return m.inputs[0] if m.is_zero(1, negative=False) else None


@_of("neg", "not", "conj")
def _twice(m: Match) -> Any:
    """An operation that is its own inverse, applied twice."""
    inner = m.made(0, m.eqn.primitive.name)
    return inner.inputs[0] if inner is not None and m.out.dtype.has_zero else None


@_of("rev")
def _reversed_twice(m: Match) -> Any:
    inner = m.made(0, "rev")
    same = inner is not None and set(inner.params["dimensions"]) == set(m.params["dimensions"])
    return inner.inputs[0] if inner is not None and same else None


@_of("max", "min", "and", "or")
def _of_equals(m: Match) -> Any:
    return m.inputs[0] if m.inputs[0] is m.inputs[1] else None


@_of("abs")
def _abs_of_abs(m: Match) -> Any:
    inner = m.made(0, "abs")
    return inner and inner.out_binders[0]


@_of("real")
def _real_of_complex(m: Match) -> Any:
    inner = m.made(0, "complex")
    return inner and inner.inputs[0]


@_of("imag")
def _imag_of_complex(m: Match) -> Any:
    inner = m.made(0, "complex")
    return inner and inner.inputs[1]


@_of("select_n")
def _of_equal_cases(m: Match) -> Any:
    """Equal cases, or a predicate that is known."""
    cases = m.inputs[1:]
    if len(cases) == 1 or all(x is cases[0] for x in cases):
        return cases[0]
    value = m.value(0)
    return cases[int(value)] if isinstance(value, (bool, int)) and 0 <= value < len(cases) else None


@_of("transpose")
def _transposed_twice(m: Match) -> Any:
    order = m.params["permutation"]
    if tuple(order) == tuple(range(len(order))):
        return m.inputs[0]
    inner = m.made(0, "transpose")
    if inner is None:
        return None
    both = tuple([inner.params["permutation"][i] for i in order])
    x = inner.inputs[0]
    if both == tuple(range(len(both))):
        return x
    return m.new(lambda x: lax.transpose(x, permutation=both), x)


@_of("reshape")
def _reshaped_twice(m: Match) -> Any:
    if m.params.get("dimensions") is not None:
        return None
    if m.inputs[0].aval == m.out:
        return m.inputs[0]
    inner = m.made(0, "reshape", "squeeze", "expand_dims")
    if (
        inner is None
        or inner.params.get("dimensions" if inner.primitive.name == "reshape" else "") is not None
    ):
        return None
    if inner.inputs[0].aval == m.out:
        return inner.inputs[0]
    rest = {k: v for k, v in m.params.items() if k != "dimensions"}
    return m.new(lambda x: lax.reshape(x, **rest), inner.inputs[0])


@_of("squeeze", "expand_dims")
def _of_no_axes(m: Match) -> Any:
    if not m.params["dimensions"]:
        return m.inputs[0]
    inner = m.made(0, "expand_dims" if m.eqn.primitive.name == "squeeze" else "squeeze")
    return inner.inputs[0] if inner is not None and inner.inputs[0].aval == m.out else None


@_of("broadcast_in_dim")
def _broadcast_twice(m: Match) -> Any:
    inner = m.made(0, "broadcast_in_dim")
    if inner is None or len(inner.inputs) != 1 or len(m.inputs) != 1:
        return None
    if m.params.get("sharding") is not None or inner.params.get("sharding") is not None:
        return None
    outer = m.params["broadcast_dimensions"]
    both = tuple([outer[i] for i in inner.params["broadcast_dimensions"]])
    shape = m.params["shape"]
    return m.new(
        lambda x: lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=both), inner.inputs[0]
    )


@_of("convert_element_type")
def _converted_twice(m: Match) -> Any:
    """Two conversions, the first of which lost nothing: there and back is nothing, and else the second one is enough.

    From floats, integers out of range are clamped to the nearest; between integers the low bits are
    kept.
    """
    inner = m.made(0, "convert_element_type")
    if inner is None or not _holds(inner.inputs[0].aval, m.inputs[0].aval):
        return None
    x = inner.inputs[0]
    if x.aval == m.out:
        return x
    whole = x.aval.dtype.is_integer and m.out.dtype.is_integer
    if whole and m.inputs[0].aval.dtype.is_inexact and not _holds(x.aval, m.out):
        return None
    params = m.params
    return m.new(lambda x: lax.convert_element_type(x, **params), x)


@_of("convert_element_type")
def _moved_in_between(m: Match) -> Any:
    """Undo a conversion to a wider type after which elements were only moved, and converted back: move them as they were.

    Where there are several moves, each has to be there for this conversion alone, so that all of
    them go with it.
    """
    moves, once = _moves_before(m)
    wide = m.maker(moves[0].inputs[0]) if moves and (once or len(moves) == 1) else None
    if wide is None or wide.primitive is not m.eqn.primitive:
        return None
    x = wide.inputs[0]
    if not _holds(x.aval, wide.out_binders[0].aval) or x.aval.dtype is not m.out.dtype:
        return None
    if x.aval.dtype.bits < 16 and any(move.primitive.name == "gather" for move in moves):
        return None

    def moved(x: Any, *others: Any) -> Any:
        rest = iter(others)
        for move in moves:
            (x,) = bind_eqn(move, [x, *islice(rest, len(move.inputs) - 1)])
        return x

    gone = [] if not once else [wide, *moves] if m.read_once(wide.out_binders[0]) else moves
    others = [y for move in moves for y in move.inputs[1:]]
    return m.new(moved, x, *others, instead_of=gone)


def converts_back_for_nothing(m: Match) -> bool:
    """Whether the rules above replace a conversion."""
    return _converted_twice(m) is not None or _moved_in_between(m) is not None


def _moves_before(m: Match) -> tuple[list[JaxprEqn], bool]:
    """Return the operations before an equation that only move elements, in order, and whether each is there for it alone."""
    moves: list[JaxprEqn] = []
    x, once = m.inputs[0], True
    while once:
        eqn = m.maker(x)
        if eqn is None or not _only_moves(eqn):
            break
        moves.append(eqn)
        x, once = eqn.inputs[0], m.read_once(x)
    return moves[::-1], once


def _only_moves(eqn: JaxprEqn) -> bool:
    """Whether the result of an operation has elements of its first operand, the same ones in each type of at least 16 bits."""
    if eqn.primitive.name != "gather":
        return eqn.primitive.name in _MOVES
    # it fills elements out of bounds with NaN; in integer types with a number that depends on the type
    dtype = eqn.out_binders[0].aval.dtype
    return dtype.is_inexact and eqn.params.get("fill_value") is None


_MOVES = (
    "broadcast_in_dim",
    "copy",
    "dynamic_slice",
    "expand_dims",
    "reshape",
    "rev",
    "slice",
    "squeeze",
    "transpose",
)


def _holds(narrow: Any, wide: Any) -> bool:
    """Whether a wider type has every number of a narrower one."""
    arrays = isinstance(narrow, ShapedArray) and isinstance(wide, ShapedArray)
    return arrays and holds_all(narrow.dtype, wide.dtype)


@_of("mul", fast=True)
def _times_zero(m: Match) -> Any:
    for i in (0, 1):
        if m.value(i) == 0:
            return m.new(SHAPING["zeros_like"], m.inputs[1 - i])
    return None


@_of("add", "add_any", fast=True)
def _plus_any_zero(m: Match) -> Any:
    for i in (0, 1):
        if m.value(i) == 0:
            return m.inputs[1 - i]
    return None


@_of("sub", fast=True)
def _minus_itself(m: Match) -> Any:
    same = m.inputs[0] is m.inputs[1]
    return m.new(SHAPING["zeros_like"], m.inputs[0]) if same else None


@_of("div", fast=True)
def _over_constant(m: Match) -> Any:
    value = m.value(1)
    if not isinstance(value, float) or value == 0:
        return None
    return m.new(lambda x: x * (1 / value), m.inputs[0])
