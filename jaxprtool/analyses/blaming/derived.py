"""Find the equation of a program from which an equation of its derivative was made.

To see whether an equation is part of another one's derivative, that derivative is made alone
(`derivative_of`), and the equation is looked for in it: it has to read values that are computed in
the same way from the operands and results of the original (`_Parts`). The place in Python narrows
the search (`_Search`), but is not enough: everything inside a jitted function of a library has the
place of the call.
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

_NONE, _LIKE, _SAME = 0, 1, 2  # how sure it is that an equation is part of a derivative
_MOST_READ = 6  # equations back from the given one whose originals are looked for in its stead
_MOST = 400  # values that a walk back from one value visits


def original_of(place: Place, program: ClosedJaxpr) -> Place | None:
    """Return the place of the original equation from which an equation of a derivative was made; None where it has none.

    An original has the same place in Python, and the equation is part of its derivative, or of the
    transpose of that, on the same values: in `sin(x) / x`, `sin` and `div` have the same place, and
    the `div` is no part of the derivative of the `sin`. An equation that reads such a part counts
    as well, as a user's own rule may have made it. Of several originals the surest counts, and of
    these the last.

    Where no place in Python is known, or no equation there has such a derivative and the equation
    reads a cotangent (a user's backward rule has the place of the call), any earlier equation may
    be the original.

    None where the equation belongs to no derivative, or is one of the original program. Where no
    names say whether it belongs to a derivative (`is_named`), it may, if it is part of one and
    reads no cotangent.
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
      eqn: the equation.
      program: the program.
      level: the jaxpr that holds the equation.
      frame: its place in Python, or that of the innermost equation around it that has one.
      linear: whether it is part of a transpose, and reads a cotangent.
      wild: whether its operands may include tangents or cotangents.
      loose: whether its operands may be computed in another way than by the rules here.
      parts: the derivatives of the equations that were looked at.
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
        self.parts: dict[JaxprEqn, _Parts] = {}  # by equations that were looked at

    def best_of_copies(self) -> Place | None:
        """Return the original of a copy of it that the transpose computes again because a checkpoint has not kept it."""
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
        """Whether an equation has the primitive and the params of another one, and the place in Python that is searched."""
        same = eqn.primitive is other.primitive and _same_params(eqn, other)
        return same and self._is_here(eqn, level)

    def best(self, *, anywhere: bool = False, copies: bool = False) -> Place | None:
        """Return the place of the last one of the surest originals, or None.

        Args:
          anywhere: whether originals may have any place in Python.
          copies: whether to look among equations of the transpose, for copies of originals.
        """
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
        """Whether an equation has the place in Python that is searched."""
        return frame_of(eqn, level) == self.frame

    def _before(
        self, *, anywhere: bool = False, transposed: bool = False
    ) -> Iterator[tuple[JaxprEqn, Level]]:
        """Yield the equations from which it may be derived, in order."""
        for found, where in all_levels(self.program):
            if found is self.eqn:
                return
            if found.primitive.holds_jaxprs or is_transposed(found, where) != transposed:
                continue
            if anywhere or self._is_here(found, where):
                yield found, where

    def _read_by(self, eqn: JaxprEqn, level: Level, *, anywhere: bool) -> set[Any]:
        """Return the values that an equation is computed from, through equations of the same place in Python (or any)."""
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
    """The equations of the derivative of an equation, or of the transpose of that, without the equation itself.

    Attributes:
      search: the search that they are for.
      parts: the equations.
      known: for variables of the derivative that are operands or results of the equation, these,
        resolved.
      own: all of these operands and results.
      tangents: the variables of the derivative that are computed from tangents or cotangents.
      makers: for each variable that `parts` bind, the part and the position of the result.
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
        """Return how sure it is that an equation is one of the parts."""
        return max((self._is(e, eqn, level) for e in self.parts), default=_NONE)

    def _is(self, part: JaxprEqn, eqn: JaxprEqn, level: Level) -> int:
        """Return how sure it is that an equation is this part: that it reads the same values, at least one of the original's among them."""
        if part.primitive is not eqn.primitive or len(part.inputs) != len(eqn.inputs):
            return _NONE
        how, meets = self._reads_alike(part, eqn, level)
        return how if meets or not any(isinstance(x, Var) for x in part.inputs) else _NONE

    def _reads_alike(self, part: JaxprEqn, eqn: JaxprEqn, level: Level) -> tuple[int, bool]:
        """Return how sure it is that a part and an equation of one primitive read the same values, and whether one of the original's is among them."""
        how, meets = _SAME if _same_params(part, eqn) else _LIKE, False
        for x, y in zip(part.inputs, eqn.inputs, strict=True):
            found, hit = self._value(x, *resolved_at(level, y))
            how, meets = min(how, found), meets or hit
            if not how:
                return _NONE, False
        return how, meets

    def _value(self, x: Any, level: Level, y: Any) -> tuple[int, bool]:
        """Return how sure it is that a value of the derivative is one of the program (resolved), and whether it is one of the original's."""
        if isinstance(x, Lit) or isinstance(y, Lit):
            both = isinstance(x, Lit) and isinstance(y, Lit)
            return (_SAME if both and x.val == y.val else _NONE), False
        if x in self.known:
            return (_SAME, True) if self.known[x] is y else (_NONE, False)
        if y in self.own:
            return _NONE, False
        found = self._compared.get((x, y))
        if found is None:  # a value that many equations read is compared once
            found = self._compared[x, y] = self._made_alike(x, level, y)
        return found

    def _made_alike(self, x: Any, level: Level, y: Any) -> tuple[int, bool]:
        """As `_value`, for two values that are no operands or results of the original."""
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
            return _SAME, False  # cotangents may be added up in another order
        return self._comes_from_own(level, y)

    def _comes_from_own(self, level: Level, y: Any) -> tuple[int, bool]:
        """As `_value`, for a value that may be computed in another way: from the original's values and literals alone, by equations of the place."""
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
    """Yield the operands and results of an equation, resolved."""
    atoms = (*eqn.inputs, *eqn.out_binders)
    return (resolved_at(level, x)[1] for x in atoms if isinstance(x, Var))


def _maker(level: Level, x: Any) -> tuple[JaxprEqn, Level] | None:
    """Return the equation that computes a value, and the level that it is in; None for arguments and literals."""
    level, x = resolved_at(level, x)
    made = None if isinstance(x, Lit) else definitions(level.jaxpr).get(x)
    return None if made is None else (made[0], level)


def _same_params(a: JaxprEqn, b: JaxprEqn) -> bool:
    return all(b.params.get(key) == value for key, value in a.params.items())


def derivative_of(
    eqn: JaxprEqn, *, transposed: bool = False
) -> tuple[Sequence[JaxprEqn], dict[Var, Any], Sequence[Var]]:
    """Return the equations of an equation's derivative, or of the transpose of that, without the equation itself.

    Returns:
      The equations; for those of their variables that are operands or results of the equation,
      these; and the variables of the tangents or cotangents. All are empty where the equation has
      no derivative.
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
        if len(results) == len(eqn.out_binders):  # that of a call or a loop also has tangents
            known.update(zip(results, eqn.out_binders, strict=True))
    parts = [e for i, e in enumerate(made.eqns) if i != own]
    return parts, known, binders[len(operands) :]


def frame_of(eqn: JaxprEqn, level: Level) -> Frame | None:
    """Return the place in Python of an equation, or of the innermost one around it that has one."""
    eqns = (eqn, *(step.eqn for step in reversed(level.path())))
    return next((e.origin.frame for e in eqns if e.origin and e.origin.frame), None)


def is_named(place: Place) -> bool:
    """Whether the names around an equation are known, which say whether it belongs to a derivative."""
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
