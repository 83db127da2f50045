"""From which values the 0s in an operand of a product have come, as far as these are still known when the product has run.

A product may be bad because one operand is 0 where the other is infinite or NaN. `zeros_of` finds
such operands and walks back from their 0s, through the values in the logs, with a boolean mask of
the elements that matter at each variable. What it finds (`Zero`) tells whether a choice, as the
transpose of a `where`, has put the 0s there: see `double_where`.
"""

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

_MOST = 200  # variables that the walk back from one operand visits
_MOST_BYTES = 64 << 20  # of the operands of a sum of products: larger ones are not looked at


class Zero(NamedTuple):
    """An operand of a product that is 0 where the product is bad.

    The variables are those that the operand is computed from.

    Attributes:
      operand: the operand's position.
      nonzero: variables that are not 0 where they matter: the 0s have not come from these.
      mixed: variables that a product of matrices, or the like, has read, and whose 0s it has handed
        on.
      passed: results of choices that have picked values which are 0 themselves: the choice has put
        no 0 there.
      alone: whether the product is bad only where the operand is 0.
    """

    operand: int
    nonzero: frozenset[Var] = frozenset()
    mixed: frozenset[Var] = frozenset()
    passed: frozenset[Var] = frozenset()
    alone: bool = True


Zeros = Sequence[Zero]


def chosen_in(log: Log) -> set[Any]:
    """Return the variables of a running jaxpr that may be computed from the result of a choice, made in it, inside or around it."""
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
    """Find the operands that are 0 where a result of a product is bad because of that, and from where their 0s come.

    Args:
      log: the log of the jaxpr that holds the equation.
      i: the index of the equation.
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
    """Find the 0s by which a sum of products multiplies bad values.

    A sum of products is NaN where one of them is 0 times infinity. For a solve, the whole right
    side has to be 0.

    Returns:
      For each such operand, by position, a mask of these 0s, and one of the elements of the result
      that are bad for no other reason.
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
    """Return which elements of an operand broadcast to elements of the result that a mask marks."""
    xp, shape = numpy_namespace(), numpy_namespace().shape(x)
    if not shape:
        return xp.asarray(mask.any())
    axes = tuple([d for d, n in enumerate(shape) if n != mask.shape[d]])
    return mask.any(axis=axes, keepdims=True) if axes else mask


def _before(log: Log, x: Any, mask: Any) -> tuple[frozenset[Var], frozenset[Var], frozenset[Var]]:
    """Walk back from the 0s of an operand, and return what a `Zero` has as `nonzero`, `mixed` and `passed`.

    Args:
      log: the log of the jaxpr.
      x: the operand.
      mask: the elements of it that are 0 and matter.
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
    """A variable in the walk back from the 0s of an operand.

    Attributes:
      log: the log of its jaxpr.
      v: the variable, or a literal.
      marked: a mask of its elements that matter.
      after: the step whose marked elements are computed from these; None for the operand itself.
    """

    log: Log
    v: Any
    marked: Any
    after: _Step | None = None


def _is_put(step: _Step, cases: Sequence[tuple[Log, Any, Any]]) -> bool:
    """Whether a choice puts 0s in the place of other values: some element of the operand comes from such 0s alone.

    A sum that adds 0s which are put to 0s which are not has a 0 from the latter: each element of
    `r` is on the diagonal of `diag(r)`.

    Args:
      step: the result of the choice.
      cases: the cases that are 0 themselves, with the elements that they give (see `_cases`).
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
    """Return which marked elements of the step `after` are computed from those of `step` that a mask marks; None where nobody knows."""
    xp, shape = numpy_namespace(), after.marked.shape
    made = after.log.layout.made.get(after.v)
    eqn = None if made is None else after.log.jaxpr.eqns[made[0]]
    if step.log is not after.log or eqn is None or eqn.primitive.holds_jaxprs:
        return mask & after.marked  # the same value, as an argument or a result of a jaxpr
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
    """Return the cases of a choice that give its marked elements and are 0 themselves, with these elements.

    Where one of the cases is a constant, as in the transpose of a choice, that case counts as one
    that puts 0s. Where none is, a case that is 0 everywhere does. An empty list where nobody knows;
    None where v is not the result of a choice.
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
    """Whether a value is the same in every run: a literal, or computed from literals."""
    made = None if isinstance(x, Lit) else log.layout.made.get(x)
    if made is None:
        return isinstance(x, Lit)
    return all(isinstance(y, Lit) for y in log.jaxpr.eqns[made[0]].inputs)


def _mixes(log: Log, v: Var) -> bool:
    made = log.layout.made.get(v)
    return made is not None and is_mixing(log.jaxpr.eqns[made[0]], log.jaxpr)


def _value(log: Log, v: Any) -> Any:
    """Return the value of a variable; None where the log has dropped it, or it is no number."""
    made = log.layout.made.get(v)
    if made is not None and (made[0] >= len(log.results) or log.results[made[0]] is None):
        return None
    xp = numpy_namespace()
    value = log.value(v)
    return value if isinstance(value, (xp.ndarray, xp.generic, int, float, complex)) else None


def _makers(log: Log, v: Any, value: Any, marked: Any) -> Iterable[tuple[Log, Any, Any]]:
    """Return the variables from which marked elements, which are 0, are computed, with their logs and their own marked elements.

    For an argument it is the operand outside that it is, for a result of a jaxpr inside that
    result; nothing for a choice.
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
    """Yield the operands, by position, of an operation that is not elementwise, with the elements from which marked 0s are computed."""
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
    both = {k: factors[k] | True for k in floats}  # in 0 times 0 either operand has given the 0
    for k in floats:
        for others, some in ((factors, marked), (both, left)):
            read = read_by(eqn, k, _with(ins, others), some) if some.any() else None
            if read is not None and (read & zero[k]).any():
                yield k, read & zero[k]
