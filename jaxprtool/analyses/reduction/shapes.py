"""Edits of shapes: an axis size is replaced everywhere, and all types are inferred again from those of the arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from jaxprtool.analyses.reduction.candidate import Candidate, Edit
from jaxprtool.analyses.reduction.record import Values
from jaxprtool.analyses.reduction.rounds import Rounds, State
from jaxprtool.core.bind import state as binding
from jaxprtool.core.kinds.dimension_numbers import DimensionNumbers
from jaxprtool.core.kinds.numbers import AXES, AXIS, PERMUTATION, STRIDES
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.declaration import Param
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.walk import all_eqns, map_jaxprs
from jaxprtool.ops.parallel import inner_axes

__all__ = ["shrunk"]

_NO_SIZES = (AXES, AXIS, PERMUTATION, STRIDES)


def shrunk(state: State, values: Values) -> Rounds:
    """Make axes shorter, first axes of arguments first, then the longest ones: to 1, to 2, to half."""
    done: set[int] = set()
    while True:
        size = next((n for n in _sizes(state.current) if n not in done), None)
        if size is None:
            return
        done.add(size)
        while size > 1:
            before = state.current
            half = size - size // 2
            yield [
                _resize(size, new, multiples, last, infer)
                for new in dict.fromkeys([1, 2, half])
                if new < size
                for last in (False, True)
                for multiples in (False, True)
                for infer in ((True,) if before.args is not None else (True, False))
            ]
            if state.current is before or size == 2:
                break
            new = set(_sizes(state.current))
            size = half if half in new and size not in new else 0


def _sizes(c: Candidate) -> list[int]:
    """Return the axis sizes over 1: those of first axes of arguments, then the others, the longest first in both."""
    first: Counter[int] = Counter()
    others: Counter[int] = Counter()
    for v in c.jaxpr.in_binders:
        shape = getattr(v.aval, "shape", ())
        first.update(shape[:1])
        others.update(shape[1:])
    for eqn in all_eqns(c.jaxpr):
        for v in eqn.out_binders:
            others.update(getattr(v.aval, "shape", ()))
        for name, value in eqn.params.items():
            param = eqn.primitive.params.get(name)
            if type(value) is int and param is not None and _may_hold_sizes(param):
                others[value] += 1
    found = [*sorted(first, key=_order), *sorted(others, key=_order)]
    return [n for n in dict.fromkeys(found) if isinstance(n, int) and n > 1]


def _order(n: Any) -> int:
    return -n if isinstance(n, int) else 0


def _resize(size: int, new: int, multiples: bool, last: bool, infer: bool) -> Edit:
    """Return the edit that replaces one size by another.

    Args:
      size: the size.
      new: the size that replaces it.
      multiples: whether multiples of the size become multiples of the new one.
      last: whether arrays keep their last elements; else the first ones.
      infer: whether types are inferred from those of operands; else the sizes in them are replaced
        too (in ill-typed programs).
    """

    def edit(c: Candidate) -> Candidate | None:
        changed = False

        def resized(n: Any) -> Any:
            nonlocal changed
            if type(n) is not int or n < size or (n > size and not (multiples and n % size == 0)):
                return n
            changed = True
            return new * (n // size)

        if multiples and not any(n > size and n % size == 0 for n in _sizes(c)):
            return None
        try:
            jaxpr = _Resizing(resized, last, infer).jaxpr(c.jaxpr)
        except (JaxprToolError, ValueError, TypeError, IndexError):
            return None
        if not changed:  # the size may only be a sum of others
            return None
        if c.args is None:
            return Candidate(jaxpr, None)
        pairs = zip(c.args, jaxpr.in_binders, strict=True)
        return Candidate(jaxpr, [part_of(x, v.aval, last) for x, v in pairs])

    return edit


def part_of(x: Value, aval: Aval, last: bool) -> Value:
    """Return the first or the last elements of an array along each axis, as many as a type has."""
    shape: tuple[int, ...] = getattr(x, "shape", ())
    if not isinstance(aval, ShapedArray) or shape == aval.shape:
        return x
    pairs = zip(shape, aval.shape, strict=True)
    return x[tuple(slice(n - m, n) if last else slice(0, m) for n, m in pairs)]


def _may_hold_sizes(param: Param) -> bool:
    """Whether integers in a param may be numbers of elements; those of axes are not."""
    return not any(
        kind in _NO_SIZES or isinstance(kind, DimensionNumbers) for kind in param.kind.parts
    )


class _Resizing:
    """Rewrites a program with other axis sizes.

    Attributes:
      resized: returns the new size for a size.
      last, infer: see `_resize`.
      done: the nested jaxprs that are rewritten.
    """

    def __init__(self, resized: Callable[[Any], Any], last: bool, infer: bool):
        self.resized, self.last, self.infer = resized, last, infer
        self.done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    def aval(self, aval: Aval) -> Aval:
        if isinstance(aval, RefType):
            return RefType(self.aval(aval.inner))
        if not isinstance(aval, ShapedArray):
            return aval
        shape = tuple(map(self.resized, aval.shape))
        return aval if shape == aval.shape else aval.update(shape=shape)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        """Return the jaxpr with new types. Raises JaxprToolError where an operation does not fit them."""
        new: dict[Any, Any] = {v: self.var(v, self.aval(v.aval)) for v in jaxpr.all_binders}

        def atom(x: Any) -> Any:
            return self.literal(x) if type(x) is Lit else new[x]

        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            ins = [*map(atom, eqn.inputs)]
            params = self.params(eqn)
            if self.infer and eqn.primitive.known:
                outs = abstract_eval(eqn.primitive, [x.aval.strong for x in ins], params)
            else:
                outs = [self.aval(v.aval) for v in eqn.out_binders]
            binders = [self.var(v, a) for v, a in zip(eqn.out_binders, outs, strict=True)]
            new.update(zip(eqn.out_binders, binders, strict=True))
            eqns.append(eqn.replace(inputs=ins, params=params, out_binders=binders))
        return jaxpr.replace(
            const_binders=[new[v] for v in jaxpr.const_binders],
            in_binders=[new[v] for v in jaxpr.in_binders],
            eqns=eqns,
            outs=[*map(atom, jaxpr.outs)],
        )

    @staticmethod
    def var(v: Var, aval: Aval) -> Var:
        return type(v)(aval if aval.strong != v.aval.strong else v.aval, v.name, v.span)

    def literal(self, x: Lit) -> Lit:
        aval = self.aval(x.aval)
        if aval is x.aval or x.val is None:
            return x
        return Lit(part_of(x.val, aval, self.last), aval, x.span)

    def params(self, eqn: JaxprEqn) -> dict[str, ParamValue]:
        outer = binding.axes
        try:
            binding.axes = inner_axes(eqn) or outer
            return {
                k: self.value(map_jaxprs(v, self.closed), eqn.primitive.params.get(k))
                for k, v in eqn.params.items()
            }
        finally:
            binding.axes = outer

    def value(self, value: ParamValue, param: Param | None) -> Any:
        if param is not None and not _may_hold_sizes(param):
            return value
        if type(value) is tuple:
            return tuple([self.value(x, param) for x in value])
        if isinstance(value, (ShapedArray, RefType)):
            return self.aval(value)
        return self.resized(value)

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        found = self.done.get(closed)
        if found is None:
            jaxpr = self.jaxpr(closed.jaxpr)
            pairs = zip(closed.consts, jaxpr.const_binders, strict=True)
            consts = [x if x is None else part_of(x, v.aval, self.last) for x, v in pairs]
            found = self.done[closed] = ClosedJaxpr(jaxpr, consts)
        return found
