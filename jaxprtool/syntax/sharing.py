"""Decide which jaxprs inside other values (records, tuples, dicts) a lossless text writes by name.

JAX writes such a jaxpr out wherever it occurs, as a text of its own: names start again, with
definitions of its own before it. A lossless text does so too for a jaxpr that occurs once. One that
occurs several times would be several jaxprs when it is read; so it becomes a definition of the
whole text, and values contain its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.params import ParamValue, Record, Word
from jaxprtool.ir.walk import jaxprs_in
from jaxprtool.syntax.patterns import pattern

__all__ = [
    "inside_values",
    "named_inside",
    "names_around",
    "printed_jaxprs",
    "unique_name",
    "words_read_as_names",
]

_DEEPEST = 8  # levels of jaxprs inside values; deeper ones are written by name
_WORD = pattern(r"[^\W\d]\w*")


def printed_jaxprs(value: ParamValue) -> list[ClosedJaxpr]:
    """Return the jaxprs that are printed as such: a param, or the elements of a tuple of jaxprs."""
    if type(value) is ClosedJaxpr:
        return [value]
    if type(value) is tuple and all(type(v) is ClosedJaxpr for v in value):
        return list(value)
    return []


# Most params are of these types, or tuples of them, and are passed over quickly.
_PLAIN = frozenset({int, float, bool, str, type(None), DType, Word})


def _values(eqn: JaxprEqn) -> list[ParamValue]:
    """Return the params that may hold jaxprs."""
    found: list[ParamValue] = [v for v in eqn.params.values() if type(v) not in _PLAIN]
    return [v for v in found if not isinstance(v, tuple) or not _PLAIN.issuperset(map(type, v))]


def inside_values(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    """Return the jaxprs inside other values, which JAX prints by `str`."""
    found: list[ClosedJaxpr] = []
    for value in _values(eqn):
        if isinstance(value, (tuple, list, dict, Record)) and not printed_jaxprs(value):
            found += jaxprs_in(value)
    return found


class _Uses:
    """The jaxprs that a program reaches, in an order in which each follows all that use it.

    Attributes:
      order: the jaxprs.
      below: for each jaxpr, those that it prints, and those inside its values.
      closed: for each jaxpr, the `ClosedJaxpr` in which it was first met.
      names: the name that equations call each jaxpr.
    """

    def __init__(self, roots: list[Jaxpr]):
        self.below: dict[Jaxpr, tuple[list[Jaxpr], list[Jaxpr]]] = {}
        self.closed: dict[Jaxpr, ClosedJaxpr] = {}
        self.names: dict[Jaxpr, str] = {}
        self.any_inside = False
        done: list[Jaxpr] = []
        stack = [(j, False) for j in reversed(roots)]
        while stack:
            jaxpr, ready = stack.pop()
            if ready:
                done.append(jaxpr)
            elif jaxpr not in self.below:
                printed, inside = self._look(jaxpr)
                self.any_inside |= bool(inside)
                stack.append((jaxpr, True))
                stack += [(j, False) for j in (*printed, *inside) if j not in self.below]
        self.order = done[::-1]

    def _look(self, jaxpr: Jaxpr) -> tuple[list[Jaxpr], list[Jaxpr]]:
        printed: list[ClosedJaxpr] = []
        inside: list[ClosedJaxpr] = []
        for eqn in jaxpr.eqns:
            if not eqn.primitive.holds_jaxprs:
                continue
            here = [c for v in _values(eqn) for c in printed_jaxprs(v)]
            name = eqn.params.get("name") if here else None
            if isinstance(name, str):
                for closed in here:
                    self.names.setdefault(closed.jaxpr, name)
            printed += here
            inside += inside_values(eqn)
        for closed in (*printed, *inside):
            self.closed.setdefault(closed.jaxpr, closed)
        self.below[jaxpr] = found = [c.jaxpr for c in printed], [c.jaxpr for c in inside]
        return found


def named_inside(roots: list[Jaxpr]) -> dict[Jaxpr, tuple[ClosedJaxpr, str]]:
    """Return the jaxprs that must be definitions of the whole text: reached through a value and from elsewhere too.

    Each jaxpr belongs to a text: the whole text, or that of one jaxpr inside a value. A jaxpr that
    is used from two of these texts, or twice inside values, belongs to the whole text, and so do
    all that it prints.

    Args:
      roots: the program and its definitions.

    Returns:
      For each jaxpr the `ClosedJaxpr` in which it was first met, and the name that equations call
        it, or "".
    """
    uses = _Uses(roots)
    if not uses.any_inside:
        return {}
    whole = roots[0]
    place: dict[Jaxpr, Jaxpr] = dict.fromkeys(roots, whole)
    depth = {whole: 0}
    named: dict[Jaxpr, None] = {}
    for jaxpr in uses.order:
        here = place[jaxpr]
        if here is jaxpr and jaxpr is not whole and depth[jaxpr] > _DEEPEST:
            named[jaxpr] = None
        if jaxpr in named:
            here = place[jaxpr] = whole
        printed, inside = uses.below[jaxpr]
        for below in printed:
            if place.setdefault(below, here) is not here:
                named[below] = None
        for below in inside:
            if below in place:
                named[below] = None
            place.setdefault(below, below)
            depth[below] = depth[here] + 1
    return {jaxpr: (uses.closed[jaxpr], uses.names.get(jaxpr, "")) for jaxpr in named}


def names_around(root: Jaxpr, outer: Mapping[Jaxpr, str]) -> set[str]:
    """Return the names of the outer definitions to which a text inside a value refers, directly or in its own values.

    Definitions of that text must not have these names. Any other outer name is free: a definition
    of the text hides it.

    Args:
      root: the jaxpr of the text.
      outer: the definitions around it, with their names.
    """
    found: set[str] = set()
    seen, todo = {root}, [root] if outer else []
    while todo:
        for eqn in todo.pop().eqns:
            if not eqn.primitive.holds_jaxprs:
                continue
            printed = (closed for value in _values(eqn) for closed in printed_jaxprs(value))
            for closed in (*printed, *inside_values(eqn)):
                if closed.jaxpr in outer:
                    found.add(outer[closed.jaxpr])
                elif closed.jaxpr not in seen:
                    seen.add(closed.jaxpr)
                    todo.append(closed.jaxpr)
    return found


def words_read_as_names(root: Jaxpr, given: Mapping[Jaxpr, str]) -> set[str]:
    """Return the words in params of undeclared primitives that a reader would take for the names of definitions.

    The words come from a jaxpr, from definitions, and from all jaxprs inside of these, also in
    values. The name of a definition that contains the equation is read as a word, and is no
    problem.

    Args:
      root: the jaxpr.
      given: the definitions that it was read with, and their names.
    """
    unknown = [*_of_unknown([root, *given])]
    words = {w for eqn in unknown for w in _words([*eqn.params.values()])}
    if words.isdisjoint(given.values()):
        return words
    held = {c.jaxpr for eqn in unknown for c in jaxprs_in({**eqn.params})}
    for jaxpr, name in given.items():
        if name in words and jaxpr not in held:
            inside = [[*eqn.params.values()] for eqn in _of_unknown([jaxpr])]
            words -= {name}.intersection(_words(inside))
    return words


def _of_unknown(roots: Iterable[Jaxpr]) -> Iterator[JaxprEqn]:
    """Yield the equations of undeclared primitives, at any depth, inside of values too."""
    seen, todo = set(roots), [*roots]
    while todo:
        for eqn in todo.pop().eqns:
            if not eqn.primitive.holds_jaxprs:
                continue
            if not eqn.primitive.known:
                yield eqn
            printed = (closed for value in _values(eqn) for closed in printed_jaxprs(value))
            for closed in (*printed, *inside_values(eqn)):
                if closed.jaxpr not in seen:
                    seen.add(closed.jaxpr)
                    todo.append(closed.jaxpr)


def _words(value: ParamValue) -> Iterator[str]:
    """Yield the words in a value, without those of jaxprs in it."""
    if isinstance(value, (tuple, list)):
        parts: Iterable[Any] = value
    elif isinstance(value, dict):
        parts = chain(value, value.values())
    elif isinstance(value, Record):
        parts = chain([value.name], value.args, value.fields, value.fields.values())
    else:
        if not isinstance(value, ClosedJaxpr):
            yield from _WORD.findall(str(value))
        return
    for part in parts:
        yield from _words(part)


def unique_name(name: Any, taken: set[str]) -> str:
    """Return a name for a definition that can be read inside values, and add it to `taken`."""
    stem = name if isinstance(name, str) and _WORD.fullmatch(name) else "jaxpr"
    found, count = stem, 0
    while found in taken:
        count += 1
        found = f"{stem}{count}"
    taken.add(found)
    return found
