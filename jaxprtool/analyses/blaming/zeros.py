"""Zeros: from which values a 0 in an operand of a product has come, as far as these are still known when the product is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.identity.products import (
    floats_of,
    is_bilinear,
    is_linear_in,
    is_mixing,
    reaches,
    read_by,
)
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.columns.flow import steering_facts
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Jaxpr, Lit, Var
from jaxprtool.ir.memo import MemoTable

__all__ = ["Zero", "Zeros", "chosen_in", "zeros_of"]

_MOST = 200  # values that are looked at before one
_MOST_BYTES = 64 << 20  # of an operand of a product that is looked at


class Zero(NamedTuple):
    """An operand of a product that is 0 where the product is bad.

    Attributes:
      operand: its position.
      nonzero: variables before it that are not 0 where it is: no 0 has come from there.
      mixed: variables before it whose 0s a product of matrices, or the like, has handed on: they have come from there.
      passed: variables before it that a choice has given, of values that are 0 by themselves: the choice has put none there.
      alone: whether the product is bad only where that is so.
    """

    operand: int
    nonzero: frozenset[Var] = frozenset()
    mixed: frozenset[Var] = frozenset()
    passed: frozenset[Var] = frozenset()
    alone: bool = True


Zeros = Sequence[Zero]


def chosen_in(log: Log) -> set[Any]:
    """The variables of a jaxpr that runs which are computed from what a choice gives: in it, in one inside, or in one around it."""
    inside = log.above is not None
    return _CHOSEN.of(log.jaxpr, inside, lambda: _chosen(log.jaxpr, inside=inside))


def _chosen(jaxpr: Jaxpr, *, inside: bool) -> set[Any]:
    found: set[Any] = set(jaxpr.in_binders if inside else ())
    for eqn in jaxpr.eqns:
        chooses = eqn.primitive.holds_jaxprs or steering_facts[eqn.primitive] == "operand 0"
        if chooses or not found.isdisjoint(eqn.inputs):
            found.update(eqn.out_binders)
    return found


_CHOSEN = MemoTable[set[Any]]("which variables are computed from a choice")


def zeros_of(log: Log, i: int, bad: Any, sought: Sought) -> Zeros:
    """The operands that are 0 where a result of a product is bad because of it, with what is known of where the 0s come from.

    Args:
      log: of the jaxpr that holds the equation; i: its position there.
      bad: which elements of the result are bad.
      sought: what a bad value is.
    """
    eqn, ins = log.jaxpr.eqns[i], log.ins(i)
    if is_elementwise(eqn.primitive):
        met = {k: (_narrow(bad, x) & (x == 0), bad & (x == 0)) for k, x in enumerate(ins)}
    else:
        met = _met_in_sums(log, i, bad, sought)
    found: list[Zero] = []
    for k, (mask, there) in met.items():
        if mask.any():
            alone = not (bad & ~there).any()
            found.append(Zero(k, *_before(log, eqn.inputs[k], mask), alone))
    return found


def _met_in_sums(log: Log, i: int, bad: Any, sought: Sought) -> dict[int, tuple[Any, Any]]:
    """Of each operand the 0s by which an operation multiplies bad values, and the elements of the result that are bad for no other reason.

    A sum of products is NaN where one of them is 0 times infinity. Of a solve the whole right side is 0.
    """
    eqn, ins = log.jaxpr.eqns[i], log.ins(i)
    floats = floats_of(eqn)
    if max(ins[k].nbytes for k in floats) > _MOST_BYTES or not is_mixing(eqn, log.jaxpr):
        return {}
    worse, zero = ({k: of(ins[k]) for k in floats} for of in (sought.where, lambda x: x == 0))
    if not is_bilinear(eqn):
        whole = [k for k in floats if zero[k].all() and is_linear_in(eqn, k)]
        return {k: (zero[k], bad) for k in whole if any(worse[j].any() for j in floats if j != k)}
    found: dict[int, tuple[Any, Any]] = {}
    for j, k in (floats, floats[::-1]):
        if not (zero[j].any() and worse[k].any()):
            continue
        meet = reaches(eqn, _with(ins, {j: zero[j], k: worse[k]})) & bad
        otherwise = reaches(eqn, _with(ins, {j: ~zero[j], k: worse[k]}))
        otherwise |= reaches(
            eqn, _with(ins, {j: worse[j], k: numpy_namespace().ones_like(worse[k])})
        )
        there = meet & ~otherwise
        read = read_by(eqn, j, _with(ins, {k: worse[k]}), there)
        if read is not None:
            found[j] = read & zero[j], there
    return found


def _with(ins: Sequence[Any], masks: Mapping[int, Any]) -> list[Any]:
    return [masks.get(k, x) for k, x in enumerate(ins)]


def _narrow(mask: Any, x: Any) -> Any:
    """Which elements of an operand stretch to elements of the result that a mask marks."""
    xp, shape = numpy_namespace(), numpy_namespace().shape(x)
    if not shape:
        return xp.asarray(mask.any())
    axes = tuple([d for d, n in enumerate(shape) if n != mask.shape[d]])
    return mask.any(axis=axes, keepdims=True) if axes else mask


def _before(log: Log, x: Any, mask: Any) -> tuple[frozenset[Var], frozenset[Var], frozenset[Var]]:
    """What a `Zero` says of the variables before it: `nonzero`, `mixed` and `passed`.

    Args:
      log: of the jaxpr of x.
      x: an operand; mask: elements of it that are 0.
    """
    seen, zero, mixed = set[Var](), set[Var](), set[Var]()
    passed, put = set[Var](), set[Var]()
    queue = [_Step(log, x, mask)]
    for step in queue:
        where, v, marked = step.log, step.v, step.marked
        if isinstance(v, Lit) or len(queue) > _MOST:
            continue
        value = _value(where, v)
        if value is None or numpy_namespace().shape(value) != marked.shape:
            continue
        seen.add(v)
        marked = marked & (value == 0)
        if not marked.any():
            continue
        zero.add(v)
        step = step._replace(marked=marked)
        cases = _cases(where, v, marked)
        if cases is not None:
            is_put = _is_put(step, cases)
            (put if is_put else passed).add(v)
            made = () if is_put else cases
        else:
            made = _makers(where, v, value, marked)
        for log, x, mask in made:
            if cases is None and log is where and _mixes(where, v):
                mixed.add(x)
            queue.append(_Step(log, x, mask, step))
    return frozenset(seen - zero), frozenset(mixed), frozenset(passed - put)


class _Step(NamedTuple):
    """A variable from which the 0s of an operand may come.

    Attributes:
      log: of its jaxpr.
      v: the variable, or a literal.
      marked: elements of it.
      after: the step whose marked elements are computed from these; None for the operand itself.
    """

    log: Log
    v: Any
    marked: Any
    after: _Step | None = None


def _is_put(step: _Step, cases: Sequence[tuple[Log, Any, Any]]) -> bool:
    """Whether a choice puts 0s in the place of values: of an element of the operand, all that is computed from the choice.

    A sum that adds 0s which are put to others that are not has a 0 from these: each element of `r` is on the diagonal of `diag(r)`.
    """
    own = step.marked & False
    for _, _, some in cases:
        own = own | some
    if not own.any():
        return True
    put = step.marked & ~own
    while put.any() and step.after is not None:
        after = step.after
        put, own = (_carried(step, after, x) for x in (put, own))
        if put is None or own is None:
            return True
        put, step = put & ~own, after
    return bool(put.any())


def _carried(step: _Step, after: _Step, mask: Any) -> Any | None:
    """Which marked elements of what comes after a step are computed from these; None where nobody knows."""
    xp, shape = numpy_namespace(), after.marked.shape
    made = after.log.layout.made.get(after.v)
    eqn = None if made is None else after.log.jaxpr.eqns[made[0]]
    if step.log is not after.log or eqn is None or eqn.primitive.holds_jaxprs:
        return mask & after.marked  # an argument, or a result of a jaxpr
    if is_elementwise(eqn.primitive) or steering_facts[eqn.primitive] == "operand 0":
        return xp.broadcast_to(mask, shape) & after.marked
    assert made is not None
    k = next(k for k, x in enumerate(eqn.inputs) if x is step.v)
    masks = {i: x != 0 for i, x in enumerate(after.log.ins(made[0])) if i in floats_of(eqn)}
    if is_linear_in(eqn, k) and (is_bilinear(eqn) or not is_mixing(eqn, after.log.jaxpr)):
        masks = {i: x if i != k else mask for i, x in masks.items()}
        return reaches(eqn, _with(after.log.ins(made[0]), masks)) & after.marked
    return None


def _cases(log: Log, v: Var, marked: Any) -> list[tuple[Log, Any, Any]] | None:
    """Of a choice the cases that give its marked elements, which are 0 by themselves, with these; None where v is none.

    Where one of the cases is a constant, as what a transpose chooses is, that one puts its 0s, as does one that is 0 everywhere
    where none of all is known to be constant. No cases where nobody knows.
    """
    made = log.layout.made.get(v)
    eqn = None if made is None else log.jaxpr.eqns[made[0]]
    if eqn is None or steering_facts[eqn.primitive] != "operand 0" or eqn.primitive.holds_jaxprs:
        return None
    predicate, cases = _value(log, eqn.inputs[0]), list[tuple[Log, Any, Any]]()
    constant = {x for x in eqn.inputs[1:] if _is_constant(log, x)}
    for k, x in enumerate(eqn.inputs[1:]):
        value = _value(log, x)
        if predicate is None or value is None:
            return []
        some = marked & (predicate == k)
        if some.any() and (x not in constant if constant else value.any()):
            cases.append((log, x, some))
    return cases


def _is_constant(log: Log, x: Any) -> bool:
    """Whether a value is the same in every run: a literal, or made of literals."""
    made = None if isinstance(x, Lit) else log.layout.made.get(x)
    if made is None:
        return isinstance(x, Lit)
    return all(isinstance(y, Lit) for y in log.jaxpr.eqns[made[0]].inputs)


def _mixes(log: Log, v: Var) -> bool:
    made = log.layout.made.get(v)
    return made is not None and is_mixing(log.jaxpr.eqns[made[0]], log.jaxpr)


def _value(log: Log, v: Any) -> Any:
    """The value of a variable; None where it is not known any more, or is no number."""
    made = log.layout.made.get(v)
    if made is not None and (made[0] >= len(log.results) or log.results[made[0]] is None):
        return None
    xp = numpy_namespace()
    value = log.value(v)
    return value if isinstance(value, (xp.ndarray, xp.generic, int, float, complex)) else None


def _makers(log: Log, v: Any, value: Any, marked: Any) -> Iterable[tuple[Log, Any, Any]]:
    """What marked elements, which are 0, are computed from, with the elements of it; or the operand that an argument is.

    Nothing before a choice.
    """
    made = log.layout.made.get(v)
    if made is None:
        outer = log.above
        if outer is None or log.eqn is None:
            return ()
        operands = (x for x in log.eqn.inputs if type(x) is not Lit)
        return [(outer, x, marked) for x in operands if _value(outer, x) is value]
    eqn = log.jaxpr.eqns[made[0]]
    if steering_facts[eqn.primitive] == "operand 0":
        return ()
    if eqn.primitive.holds_jaxprs:
        inner = [x for i, logs in log.inside if i == made[0] for x in logs if x.outs is not None]
        pairs = [(x, y) for x in inner for y in x.jaxpr.outs if type(y) is not Lit]
        return [(x, y, marked) for x, y in pairs if _value(x, y) is value]
    values = [(x, _value(log, x)) for x in eqn.inputs if not isinstance(x, Lit)]
    if is_elementwise(eqn.primitive):
        return [(log, x, _narrow(marked, a)) for x, a in values if a is not None]
    if len(eqn.out_binders) != 1 or any(a is None for _, a in values):
        return ()
    return [(log, eqn.inputs[k], m) for k, m in _read(log, made[0], marked)]


def _read(log: Log, i: int, marked: Any) -> Iterable[tuple[int, Any]]:
    """Of operands of a linear operation that is not elementwise which elements marked ones of the result are computed from."""
    eqn, ins = log.jaxpr.eqns[i], log.ins(i)
    floats = floats_of(eqn)
    if not floats or sum(ins[k].nbytes for k in floats) > _MOST_BYTES:
        return
    if not is_mixing(eqn, log.jaxpr):
        for k in floats:
            read = read_by(eqn, k, ins, marked)
            if read is not None and read.any():
                yield k, read
        return
    zero, factors = ({k: of(ins[k]) for k in floats} for of in (lambda x: x == 0, lambda x: x != 0))
    if not is_bilinear(eqn):
        for k in floats:
            read = read_by(eqn, k, ins, marked) if is_linear_in(eqn, k) else None
            if read is not None and read.any() and not (read & factors[k]).any():
                yield k, read
        return
    left = marked
    for i, k in (floats, floats[::-1]):
        left = left & ~reaches(eqn, _with(ins, {i: zero[i], k: factors[k]}))
    both = {k: factors[k] | True for k in floats}  # of 0 times 0 either has given the 0
    for k in floats:
        for others, some in ((factors, marked), (both, left)):
            read = read_by(eqn, k, _with(ins, others), some) if some.any() else None
            if read is not None and (read & zero[k]).any():
                yield k, read & zero[k]
