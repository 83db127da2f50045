"""Replace data inside a program, which constants of nested jaxprs and floating literals hold, by values that hold none.

A place is the position of a constant or a literal in the order of the program; jaxprs that are
shared come once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.analyses.reduction.generated import (
    drawn,
    generated,
    holds_data,
    is_generated,
    powers_near,
    uniform,
)
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Lit, Var
from jaxprtool.ir.walk import map_jaxprs

__all__ = ["data_inside", "without_data_inside"]

_PLAIN = (0.0, 0.5, 1.0, 2.0)  # absolute values of literals that hold no data
_SHORT = (1.0, 0.5, 2.0, 0.0)  # what is tried in the place of others, before powers of ten
_FORMS = len(_SHORT) + 4  # values tried for one place; the last one again where there are fewer
_TESTS = 100


class _Found(NamedTuple):
    place: int
    name: str
    holds_data: bool


def without_data_inside(c: Candidate, keeps: Callable[[Candidate], bool]) -> Candidate:
    """Return the candidate with neutral constants and literals, as many as `keeps` allows: all at once, else half by half."""
    left = _TESTS
    groups = [[f.place for f in _data(c.jaxpr)]]
    while groups and left:
        group = groups.pop()
        if not group:
            continue
        forms = range(_FORMS if len(group) == 1 else 1)
        tried = (Candidate(_Neutral(group, form).jaxpr(c.jaxpr), c.args) for form in forms)
        left -= 1
        made = next(filter(keeps, tried), None)
        if made is not None:
            c = made
        elif len(group) > 1:
            middle = len(group) // 2
            groups += [group[middle:], group[:middle]]
    return c


def data_inside(jaxpr: Jaxpr) -> list[str]:
    """Return what still holds data: the names of constants, as a text of the program has them, and literals."""
    return [*dict.fromkeys(f.name for f in _data(jaxpr) if f.holds_data)]


def _data(jaxpr: Jaxpr) -> list[_Found]:
    looking = _Neutral(())
    looking.jaxpr(jaxpr)
    return looking.found


def _forms(v: Var, x: Any) -> list[Any]:
    """Return the values that are tried in the place of a constant."""
    return [drawn(v), *generated(v), *uniform(v, numpy_namespace().value(x, v.aval))]


def _short(x: float | complex) -> list[float]:
    """Return the values that are tried in the place of a literal."""
    if isinstance(x, complex):
        return [*_SHORT]
    return [*_SHORT, *(signed for size in powers_near(abs(x)) for signed in (size, -size))]


class _Neutral:
    """A walk through a program that replaces the data at some places.

    Attributes:
      chosen: the places.
      form: which of the replacements is taken (see `_forms` and `_short`).
      found: what holds data, whether it is replaced or not.
    """

    def __init__(self, chosen: Collection[int], form: int = 0):
        self.chosen, self.form = {*chosen}, form
        self.found: list[_Found] = []
        self._place = 0
        self._done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        eqns = []
        for e in jaxpr.eqns:
            params = {k: map_jaxprs(v, self.closed) for k, v in e.params.items()}
            inputs = [*map(self.atom, e.inputs)]
            same = all(params[k] is v for k, v in e.params.items())
            same = same and all(a is b for a, b in zip(inputs, e.inputs, strict=True))
            eqns.append(e if same else e.replace(inputs=inputs, params=params))
        outs = [*map(self.atom, jaxpr.outs)]
        pairs = (*zip(eqns, jaxpr.eqns, strict=True), *zip(outs, jaxpr.outs, strict=True))
        return jaxpr if all(a is b for a, b in pairs) else jaxpr.replace(eqns=eqns, outs=outs)

    def closed(self, c: ClosedJaxpr) -> ClosedJaxpr:
        found = self._done.get(c)
        if found is None:
            consts = [*self.consts(c)]
            jaxpr = self.jaxpr(c.jaxpr)
            same = jaxpr is c.jaxpr and all(a is b for a, b in zip(consts, c.consts, strict=True))
            found = self._done[c] = c if same else ClosedJaxpr(jaxpr, consts)
        return found

    def consts(self, c: ClosedJaxpr) -> Iterator[Any]:
        for v, x in zip(c.jaxpr.const_binders, c.consts, strict=True):
            is_chosen = self.is_chosen(v.name or "_", *_is_data(v, x))
            yield self.form_of(_forms(v, x)) if is_chosen else x

    def atom(self, x: Any) -> Any:
        if type(x) is not Lit or not isinstance(x.val, (float, complex)):
            return x
        chosen = self.is_chosen(str(x), _says_something(x.val), not _is_power(x.val))
        return Lit(self.form_of(_short(x.val)), x.aval) if chosen else x

    def form_of(self, forms: Sequence[Any]) -> Any:
        return forms[min(self.form, len(forms) - 1)]

    def is_chosen(self, name: str, is_replaced: bool, is_data: bool) -> bool:
        """Count the next place, and return whether its data is replaced.

        Args:
          name: what to call it.
          is_replaced: whether its value is one that replacement could change.
          is_data: whether it would still hold data.
        """
        place = self._place
        self._place += 1
        if is_replaced:
            self.found.append(_Found(place, name, is_data))
        return is_replaced and place in self.chosen


def _is_data(v: Var, x: Any) -> tuple[bool, bool]:
    """Whether a constant is to be replaced, and whether it holds data."""
    if x is None or not isinstance(v.aval, ShapedArray):
        return False, False
    value = numpy_namespace().value(x, v.aval)
    return not is_generated(v, value), holds_data(v, value)


def _is_power(x: float | complex) -> bool:
    """Whether a number is a power of ten."""
    return not isinstance(x, complex) and math.isfinite(x) and abs(x) in powers_near(abs(x))


def _says_something(x: float | complex) -> bool:
    return isinstance(x, complex) or (math.isfinite(x) and abs(x) not in _PLAIN)
