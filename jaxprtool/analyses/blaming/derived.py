"""From which equation of a program an equation of its derivative was made.

The derivative of an equation is made alone, and the equation is looked for in it: what it reads has to be made as it is there, from
the operands and the results of the original. One place in Python may have many equations: all of what a library jits has that of
the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxprtool.analyses.identity.products import is_linear_in
from jaxprtool.analyses.levels import Level, all_levels, definitions, level_of, resolved_at
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.jvp import jvp_jaxpr
from jaxprtool.interpreters.linearize import vjp_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.origin import Frame
from jaxprtool.ir.walk import all_eqns

__all__ = [
    "derivative_of",
    "frame_of",
    "has_names",
    "is_derived",
    "is_named",
    "is_transposed",
    "original_of",
]

_NONE, _LIKE, _SAME = 0, 1, 2  # how sure it is that an equation is a part of a derivative
_MOST_READ = 6  # equations that make what one reads, which are looked at
_MOST = 400  # equations that are gone through from one value to what it is computed from


def original_of(place: Place, program: ClosedJaxpr) -> Place | None:
    """The equation of the original from which an equation of a derivative was made: one of the same place in Python.

    It is one of whose derivative, or the transpose of that, the equation is a part, on the same values: in `sin(x) / x`, `sin` and
    `div` have the same place, and the `div` is no derivative of the `sin`. What reads such a part is one as well, by a rule that is
    not ours. Of several it is the last one of which that is surest.

    Where no place in Python is known, or none there has such a derivative and a cotangent goes into the equation (that of a
    backward rule of a user's own is the place of the call), it may be any equation before.

    None where the equation belongs to no derivative, or is the original's itself. Where no names say whether it belongs to one
    (`is_named`), it may, if it is a part of a derivative that no cotangent goes into.
    """
    if is_named(place) and not is_derived(place.eqn, place.path):
        return None
    search = _Search(place, program)
    if search.frame is None:
        return search.best(anywhere=True)
    found = search.best()
    if found is None and search.linear:
        return search.best(anywhere=True) or search.best_of_copies()
    return found


class _Search:
    """The search for the original of an equation of a derivative.

    Attributes:
      eqn, level: the equation, and the jaxpr that it is in.
      frame: its place in Python, or that of what is around it.
      linear: whether it is a part of the transpose, and a cotangent goes into it.
      wild: whether tangents or cotangents may be among what it reads.
      loose: whether what it reads may be made in another way than by our rules.
    """

    def __init__(self, place: Place, program: ClosedJaxpr):
        self.eqn, self.program, self.level = place.eqn, program, level_of(program, place.path)
        self.frame = frame_of(self.eqn, self.level)
        named, transposed = is_named(place), is_transposed(self.eqn, self.level)
        floats = range(len(self.eqn.inputs))
        self.linear = transposed and any(is_linear_in(self.eqn, i) for i in floats)
        forward = named and not any(map(is_transposed, all_eqns(program.jaxpr)))
        self.wild = self.linear or forward
        self.loose = named or self.frame is not None
        self.parts: dict[JaxprEqn, _Parts] = {}  # of the equations that were looked at

    def best_of_copies(self) -> Place | None:
        """The same where the transpose computes again what a checkpoint has not kept: what its copy is derived from is."""
        copy = self.best(copies=True)
        if copy is None:
            return None
        alike = [
            [x for x in self._before(transposed=again) if self._is_alike(*x, copy.eqn)]
            for again in (False, True)
        ]
        originals, copies = ([Place(e, where.path()) for e, where in found] for found in alike)
        i = [x.eqn for x in copies].index(copy.eqn)
        return originals[i] if i < len(originals) else None

    def _is_alike(self, eqn: JaxprEqn, level: Level, other: JaxprEqn) -> bool:
        """Whether an equation is written as another one that has the place in Python."""
        same = eqn.primitive is other.primitive and _same_params(eqn, other)
        return same and self._is_here(eqn, level)

    def best(self, *, anywhere: bool = False, copies: bool = False) -> Place | None:
        """The last equation of which it is surest, among those of the same place in Python, or all; copies: in the transpose."""
        near = self._read_by(self.eqn, self.level, anywhere=anywhere)
        before = self._before(anywhere=anywhere, transposed=copies)
        before = [x for x in before if not near.isdisjoint(_values(*x))]
        queue = [(self.eqn, self.level)]
        for eqn, level in queue:
            best, at = _NONE, None
            for found, where in before:
                if found not in self.parts:
                    self.parts[found] = _Parts(found, where, self)
                how = self.parts[found].has(eqn, level)
                if how and how >= best and (self.loose or how == _SAME):
                    best, at = how, Place(found, where.path())
            if at is not None and (eqn is self.eqn or not is_elementwise(at.eqn.primitive)):
                return at
            if anywhere or self.linear or len(queue) > _MOST_READ:
                continue
            makers = [_maker(level, x) for x in eqn.inputs]
            queue += [m for m in makers if m and m not in queue and self._is_here(*m)]
        return None

    def _is_here(self, eqn: JaxprEqn, level: Level) -> bool:
        """Whether an equation has the same place in Python."""
        return frame_of(eqn, level) == self.frame

    def _before(
        self, *, anywhere: bool = False, transposed: bool = False
    ) -> Iterator[tuple[JaxprEqn, Level]]:
        """The equations from which it may be derived, in order."""
        for found, where in all_levels(self.program):
            if found is self.eqn:
                return
            if found.primitive.holds_jaxprs or is_transposed(found, where) != transposed:
                continue
            if anywhere or self._is_here(found, where):
                yield found, where

    def _read_by(self, eqn: JaxprEqn, level: Level, *, anywhere: bool) -> set[Any]:
        """The values that an equation is computed from, by equations of the same place in Python (or any)."""
        found, queue = set[Any](), [(level, x) for x in eqn.inputs]
        for at, x in queue:
            at, x = resolved_at(at, x)
            if isinstance(x, Lit) or x in found:
                continue
            found.add(x)
            made = definitions(at.jaxpr).get(x)
            if made is not None and len(queue) < _MOST and (anywhere or self._is_here(made[0], at)):
                queue += [(at, y) for y in made[0].inputs]
        return found


class _Parts:
    """The equations of the derivative of an equation, or of the transpose of that, besides its own.

    Attributes:
      search: what for.
      parts: the equations.
      known: its operands and results, by what is them there; `own` are those, resolved.
      tangents: what is computed from tangents or cotangents.
    """

    def __init__(self, eqn: JaxprEqn, level: Level, search: _Search):
        self.search = search
        self.parts, known, free = derivative_of(eqn, transposed=search.linear)
        self.known = {x: resolved_at(level, y)[1] for x, y in known.items()}
        self.own, self.tangents = set(self.known.values()), set(free)
        for e in self.parts:
            if not self.tangents.isdisjoint(x for x in e.inputs if isinstance(x, Var)):
                self.tangents.update(e.out_binders)
        self.makers = {v: (e, k) for e in self.parts for k, v in enumerate(e.out_binders)}
        self._compared: dict[tuple[Any, Any], tuple[int, bool]] = {}

    def has(self, eqn: JaxprEqn, level: Level) -> int:
        """How sure it is that an equation is one of them."""
        return max((self._is(e, eqn, level) for e in self.parts), default=_NONE)

    def _is(self, part: JaxprEqn, eqn: JaxprEqn, level: Level) -> int:
        """How sure it is that a part is an equation: that reads the same values, one of the original's at least."""
        if part.primitive is not eqn.primitive or len(part.inputs) != len(eqn.inputs):
            return _NONE
        how, meets = self._reads_alike(part, eqn, level)
        return how if meets or not any(isinstance(x, Var) for x in part.inputs) else _NONE

    def _reads_alike(self, part: JaxprEqn, eqn: JaxprEqn, level: Level) -> tuple[int, bool]:
        """How sure it is that a part and an equation of one primitive read the same; whether one of the original's values is among it."""
        how, meets = _SAME if _same_params(part, eqn) else _LIKE, False
        for x, y in zip(part.inputs, eqn.inputs, strict=True):
            found, hit = self._value(x, *resolved_at(level, y))
            how, meets = min(how, found), meets or hit
            if not how:
                return _NONE, False
        return how, meets

    def _value(self, x: Any, level: Level, y: Any) -> tuple[int, bool]:
        """The same of a value of the derivative and one of the program, which is resolved."""
        if isinstance(x, Lit) or isinstance(y, Lit):
            both = isinstance(x, Lit) and isinstance(y, Lit)
            return (_SAME if both and x.val == y.val else _NONE), False
        if x in self.known:
            return (_SAME, True) if self.known[x] is y else (_NONE, False)
        if y in self.own:
            return _NONE, False
        found = self._compared.get((x, y))
        if found is None:  # what many equations read is compared once
            found = self._compared[x, y] = self._made_alike(x, level, y)
        return found

    def _made_alike(self, x: Any, level: Level, y: Any) -> tuple[int, bool]:
        """The same of two values that are no operands or results of the original."""
        made, part = definitions(level.jaxpr).get(y), self.makers.get(x)
        if x in self.tangents and (part is None or made is None or not self.search.wild):
            return (_SAME if self.search.wild else _NONE), False
        if part is not None and made is not None and part[1] == made[1]:
            one, other = part[0], made[0]
            if one.primitive is other.primitive and len(one.inputs) == len(other.inputs):
                found = self._reads_alike(one, other, level)
                if found[0]:
                    return found
        if x in self.tangents:
            return _SAME, False  # cotangents come together on other ways
        return self._comes_from_own(level, y)

    def _comes_from_own(self, level: Level, y: Any) -> tuple[int, bool]:
        """Whether a value is computed from those of the original and literals alone, by equations of the same place in Python."""
        queue, seen, meets = [(level, y)], set[Any](), False
        for at, v in queue:
            at, v = resolved_at(at, v)
            if isinstance(v, Lit) or v in seen:
                continue
            seen.add(v)
            if v in self.own:
                meets = True
                continue
            made = definitions(at.jaxpr).get(v)
            if made is None or len(queue) > _MOST or frame_of(made[0], at) != self.search.frame:
                return _NONE, False
            queue += [(at, z) for z in made[0].inputs]
        return _LIKE, meets


def _values(eqn: JaxprEqn, level: Level) -> Iterator[Any]:
    """The operands and results of an equation, resolved."""
    atoms = (*eqn.inputs, *eqn.out_binders)
    return (resolved_at(level, x)[1] for x in atoms if isinstance(x, Var))


def _maker(level: Level, x: Any) -> tuple[JaxprEqn, Level] | None:
    """The equation that makes a value, and the jaxpr that it is in."""
    level, x = resolved_at(level, x)
    made = None if isinstance(x, Lit) else definitions(level.jaxpr).get(x)
    return None if made is None else (made[0], level)


def _same_params(a: JaxprEqn, b: JaxprEqn) -> bool:
    return all(b.params.get(key) == value for key, value in a.params.items())


def derivative_of(
    eqn: JaxprEqn, *, transposed: bool = False
) -> tuple[Sequence[JaxprEqn], dict[Var, Any], Sequence[Var]]:
    """The equations of the derivative of an equation, or of its transpose, besides its own.

    Beside them there is which of their variables are its operands and results, and those of its tangents or cotangents. No
    equations where it has no derivative.
    """
    operands = [x for x in dict.fromkeys(eqn.inputs) if isinstance(x, Var)]
    outs = [Var(v.aval) for v in eqn.out_binders]
    alone = ClosedJaxpr(Jaxpr(operands, [eqn.replace(out_binders=outs)], outs, []), [])
    try:
        made = vjp_jaxpr(alone) if transposed else jvp_jaxpr(alone)[0]
    except JaxprToolError:
        return (), {}, ()
    binders = made.jaxpr.in_binders
    known: dict[Var, Any] = dict(zip(binders, operands, strict=False))  # the tangents follow
    own = next((i for i, e in enumerate(made.eqns) if e.primitive is eqn.primitive), None)
    if own is not None:
        results = made.eqns[own].out_binders
        if len(results) == len(eqn.out_binders):  # that of a call or a loop gives tangents as well
            known.update(zip(results, eqn.out_binders, strict=True))
    parts = [e for i, e in enumerate(made.eqns) if i != own]
    return parts, known, binders[len(operands) :]


def frame_of(eqn: JaxprEqn, level: Level) -> Frame | None:
    """The place in Python of an equation, or of the innermost one around it that has one."""
    eqns = (eqn, *(step.eqn for step in reversed(level.path())))
    return next((e.origin.frame for e in eqns if e.origin and e.origin.frame), None)


def is_named(place: Place) -> bool:
    """Whether the names of an equation, or of one around it, are known: they say whether it belongs to a derivative."""
    return any(map(has_names, (place.eqn, *(step.eqn for step in place.path))))


def has_names(eqn: JaxprEqn) -> bool:
    """Whether the names around an equation are known."""
    return eqn.origin is not None and eqn.origin.has_names


def _names(eqn: JaxprEqn) -> Sequence[str]:
    return () if eqn.origin is None else eqn.origin.names or ()


def is_transposed(eqn: JaxprEqn, level: Level | None = None) -> bool:
    """Whether the names of an equation, or of those that hold it, say that it was made by transposing."""
    eqns = [eqn] if level is None else [eqn, *(step.eqn for step in level.path())]
    return any("transpose(" in name for e in eqns for name in _names(e))


def is_derived(eqn: JaxprEqn, path: Sequence[Step]) -> bool:
    """Whether the names of an equation, or of those around it, say that it belongs to a derivative."""
    names = [n for e in (*(step.eqn for step in path), eqn) for n in _names(e)]
    return any("transpose(" in name or "jvp(" in name for name in names)
