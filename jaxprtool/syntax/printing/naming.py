"""Choose names for variables, and which jaxprs are printed as shared definitions, both as JAX does."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from operator import attrgetter
from typing import Any

from jaxprtool.core.stack import run_nested
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.syntax.elided_params import params_order
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.spellings import LONG
from jaxprtool.syntax.sharing import printed_jaxprs, unique_name
from jaxprtool.syntax.tokens import DEFINED

__all__ = [
    "base26",
    "has_definitions",
    "jaxprs_in",
    "name_variables",
    "shared_jaxprs",
    "written_out",
]


def base26(n: int) -> str:
    """Return the n-th name: a .. z, ba .. bz, ca ..; `a` is the digit 0, so there is no `aa`."""
    name = ""
    while not name or n:
        n, digit = divmod(n, 26)
        name = chr(97 + digit) + name
    return name


def jaxprs_in(eqn: JaxprEqn, lossless: bool) -> list[ClosedJaxpr]:
    """Return the jaxprs that are printed as such: params, and elements of tuples; not those inside other values.

    Without `lossless` also those that JAX counts, though it writes them out: fields of named
    tuples.
    """
    params, unprinted = eqn.params, () if lossless else eqn.primitive.unprinted
    for first in eqn.primitive.met_first:
        if first in params:
            params = {first: params[first], **params}
    found: list[ClosedJaxpr] = []
    value: ParamValue
    for key, value in params.items():
        if key in unprinted:
            continue
        if type(value) is ClosedJaxpr:
            found.append(value)
        elif lossless:
            found += printed_jaxprs(value)
        elif type(value) is tuple:
            found += [v for v in value if type(v) is ClosedJaxpr]
        elif isinstance(value, Record) and value.name.endswith("Tuple"):  # a named tuple
            found += [v for v in value.fields.values() if type(v) is ClosedJaxpr]
    return found


class Nested:
    """A table of the jaxprs of a program (and of unused definitions), made once.

    Jaxprs of `outer` have a name already; they are not searched.

    Attributes:
      calls: for each jaxpr, its equations that hold jaxprs, each with these.
      closed: for each jaxpr, the `ClosedJaxpr` in which it was first met.
    """

    def __init__(
        self,
        program: ClosedJaxpr,
        lossless: bool,
        definitions: Iterable[ClosedJaxpr] = (),
        outer: Collection[Jaxpr] = (),
    ):
        self.calls: dict[Jaxpr, list[tuple[JaxprEqn, list[ClosedJaxpr]]]] = {}
        self.closed: dict[Jaxpr, ClosedJaxpr] = {program.jaxpr: program}
        todo = deque([program])
        for closed in definitions:
            self.closed[closed.jaxpr] = closed
            todo.append(closed)
        plain: set[int] = set()  # params without jaxprs, which many equations may share
        while todo:
            jaxpr = todo.popleft().jaxpr
            calls = self.calls[jaxpr] = []
            for eqn in jaxpr.eqns:
                params = eqn.params
                if not params or id(params) in plain:
                    continue
                if not eqn.primitive.holds_jaxprs and not _strays(params):
                    plain.add(id(params))
                    continue
                if not (inner := jaxprs_in(eqn, lossless)):
                    continue
                calls.append((eqn, inner))
                for closed in inner:
                    if closed.jaxpr not in self.closed and closed.jaxpr not in outer:
                        self.closed[closed.jaxpr] = closed
                        todo.append(closed)


def _strays(params: Mapping[str, ParamValue]) -> bool:
    """Whether a param that is not declared to hold jaxprs holds one: the checker refuses it, but
    the printer has to print it.
    """
    for v in params.values():
        if type(v) is ClosedJaxpr or (type(v) is tuple and v and type(v[0]) is ClosedJaxpr):
            return True
    return False


_DEFINED = pattern(DEFINED)
_ELSEWHERE = pattern(
    r"(?<![^\s}\[=,;])#|[{}='\"]"
)  # characters that begin a comment, a jaxpr, a value or a string


def _can_be_defined(name: str) -> bool:
    """Whether a definition of this name, and references to it, can be read again."""
    stands = name == name.strip() and bool(_DEFINED.fullmatch(f"let {name} = "))
    return stands and not _ELSEWHERE.search(name)


def shared_jaxprs(
    nested: Nested,
    root: Jaxpr,
    named: dict[Jaxpr, str] | None = None,
    taken: Collection[str] | None = None,
    longest: int | None = None,
) -> dict[Jaxpr, str]:
    """Return the jaxprs that are printed first, by name: `let NAME = ... in`.

    They are those that occur more than once (also through a caller that does), and those with more
    than ten equations, in breadth-first order.

    Args:
      nested: the jaxprs of the program.
      root: the program.
      named: jaxprs that must have a name, since values refer to them by it, with the name that
        equations call them, or "".
      taken: names that cannot be used; None for JAX's names, even where two are the same.
      longest: the most equations of a jaxpr that occurs once and is not defined; ten where None.
    """
    order, named = list(nested.closed), named or {}
    longest = LONG if longest is None else longest
    uses = {j: 2 * (j in named) for j in order}
    names = {j: name.strip("<>") for j, name in named.items() if name}
    uses[root] = 1
    used = set(taken or ())
    for calls in nested.calls.values():
        for eqn, inner in calls:
            declared = eqn.primitive.params.get("name")
            named_after = declared is None or declared.names_jaxprs
            name = eqn.params.get("name") if named_after else None
            for closed in inner:
                if closed.jaxpr not in uses:
                    continue
                uses[closed.jaxpr] += 1
                if isinstance(name, str) and _can_be_defined(name.strip("<>")):
                    names.setdefault(closed.jaxpr, name.strip("<>"))
    _spread(nested, uses)
    counts: dict[str, int] = {}
    shared: dict[Jaxpr, str] = {}
    for jaxpr in order:
        if uses[jaxpr] == 1 and (jaxpr is root or len(jaxpr.eqns) <= longest):
            continue
        name = names.get(jaxpr, "jaxpr")
        count = counts.get(name, 0)
        counts[name] = count + 1
        if count:
            name += str(count)
            counts[name] = counts.get(name, 0) + 1
        if taken is not None and (name in used or jaxpr in named):
            name = unique_name(name, used)
        used.add(name)
        shared[jaxpr] = name
    return shared


def written_out(nested: Nested, shared: Iterable[Jaxpr]) -> int:
    """Return the number of equations in definitions if no inner jaxpr were named: each level of calls may double it.

    Args:
      nested: the jaxprs of the program.
      shared: the jaxprs that are definitions.
    """
    sizes: dict[Jaxpr, int] = {}
    todo = [*shared]
    while todo:
        jaxpr = todo[-1]
        inner = [c.jaxpr for _, several in nested.calls.get(jaxpr, ()) for c in several]
        if below := [j for j in dict.fromkeys(inner) if j not in sizes]:
            todo += below
        else:
            sizes[todo.pop()] = len(jaxpr.eqns) + sum([sizes[j] for j in inner])
    return sum([sizes[j] for j in shared])


def _spread(nested: Nested, uses: dict[Jaxpr, int]) -> None:
    """Count a jaxpr twice where a jaxpr that occurs twice calls it."""
    todo = [j for j, n in uses.items() if n > 1]
    while todo:
        for _, inner in nested.calls[todo.pop()]:
            for closed in inner:
                if uses.get(closed.jaxpr) == 1:
                    uses[closed.jaxpr] = 2
                    todo.append(closed.jaxpr)


def name_variables(
    nested: Nested,
    root: Jaxpr,
    shared: dict[Jaxpr, str],
    renamed: bool = False,
    lossless: bool = False,
    outer: dict[Jaxpr, str] | None = None,
    inner_drops: bool = False,
    name_drops: bool = False,
    later: bool = False,
    as_dropped: bool = False,
    name_read: bool = False,
    follows: bool = True,
    apart: bool = False,
) -> tuple[dict[Var, str], set[Var]]:
    """Return a name for every variable: those of the source if all have one (and not `renamed`), else JAX's.

    JAX names a result in a jit's body `_` where the result of the call is not read, even if the
    body reads it, and such a text cannot be read back; a lossless text has no such names.

    Args:
      outer: jaxprs that are named elsewhere.
      inner_drops: whether unread results are `_` in all jaxprs, or only in the outermost one.
      name_drops: whether also results that were `_` in the source get names in inner jaxprs.
      later: whether a jaxpr of `shared` is written out in those before it.
      as_dropped: whether exactly the results that the program drops are `_`, read or not.
      name_read: whether results that are `_` in the source, and are read, get names.
      follows: whether arguments of jit get the names of the call's operands.
      apart: whether names begin at `a` in each jaxpr.

    Returns:
      The names, and the variables that are `_` because the program drops them, not because nothing
        reads them: those to which JAX gives no name.
    """
    names = None if renamed else _source_names(nested)
    if names is not None:
        if name_read:
            _name_read(names, {*names.values(), *shared.values(), *(outer or {}).values()})
        return names, set()
    # an unread variable of the jaxpr may have a name elsewhere
    inside = lossless and outer is not None
    drops = {} if inside or as_dropped else _dropped(nested, root, inner_drops)
    if apart:
        return _named_apart(nested, drops), set()
    namer = _Namer(nested, root, shared, lossless, outer or {}, drops, name_drops, later, follows)
    outermost = {v for eqn in root.eqns for v in eqn.out_binders} if namer.unnamed else set[Var]()
    return namer.names, namer.unnamed - outermost


def same_variables(
    nested: Nested,
    root: Jaxpr,
    shared: dict[Jaxpr, str],
    inner_drops: bool,
    later: bool,
    follows: bool,
) -> dict[Var, Var]:
    """Return which variables of a program that was read are one variable in the program that was printed.

    JAX may take a jaxpr from another one (for partial evaluation, or without dead code), with the
    same variables. In the text two jaxprs then have a name in common that neither the calls around
    them nor the order of names explains. The arguments are as for `name_variables`.

    Returns:
      Each such variable with the one that was named first; empty where not all names are JAX's.
    """
    if _source_names(nested) is None:
        return {}
    # JAX names unused results too: those of a jaxpr without dead code, where what read them was.
    drops = {v: "_" for v in _dropped(nested, root, inner_drops) if v.name == "_"}
    again = _NamedAgain(nested, root, shared, False, {}, drops, False, later, follows)
    return {} if again.strange else again.same


def _dropped(nested: Nested, root: Jaxpr, inner_drops: bool) -> dict[Var, str]:
    drops = _unused_results(root)
    for jaxpr in nested.closed if inner_drops else ():
        drops |= _unused_results(jaxpr)
    return drops


def has_definitions(closed: ClosedJaxpr) -> bool:
    """Whether a jaxpr was read with definitions of its own.

    They are printed back with the names of the source.

    Releases before 0.10 write out a definition that stands further below, with the names that it
    has there.
    """
    return closed.jaxpr.written is not None and bool(closed.jaxpr.written.definitions)


_binders_of, _name_of = attrgetter("out_binders"), attrgetter("name")


def _source_names(nested: Nested) -> dict[Var, str] | None:
    """Return the names in the source; None if one is missing, or bound twice in a jaxpr."""
    names: dict[Var, str] = {}
    for jaxpr in nested.calls:
        bound = [*jaxpr.all_binders, *chain.from_iterable(map(_binders_of, jaxpr.eqns))]
        given = [*map(_name_of, bound)]
        seen = {*given}
        drops = given.count("_") if "_" in seen else 0
        if None in seen or len(seen) + drops - (drops > 0) != len(bound):
            return None
        names.update(zip(bound, given, strict=True))  # type: ignore[arg-type]  # none is None
    return names


def _named_apart(nested: Nested, drops: dict[Var, str]) -> dict[Var, str]:
    """Return names that begin at `a` in each jaxpr."""
    names = drops
    for jaxpr in nested.calls:
        numbers = count()
        for v in chain(jaxpr.all_binders, *map(_binders_of, jaxpr.eqns)):
            if type(v) is DropVar:
                names[v] = "_"
            elif v not in names:
                names[v] = base26(next(numbers))
    return names


def _name_read(names: dict[Var, str], taken: set[str]) -> None:
    """Give new names to the variables named `_` that are read."""
    new = (name for name in map(base26, count()) if name not in taken)
    for v, name in names.items():
        if name == "_" and type(v) is not DropVar:
            names[v] = next(new)


def _named_by_call(eqn: JaxprEqn) -> bool:
    """Whether the jaxpr of an equation takes the names of the equation's operands and results."""
    return any(p.named_by_call for p in eqn.primitive.params.values())


class _Namer:
    """Gives names in the order in which JAX prints.

    With `follows`, the arguments of jit get the names of the call's operands.
    """

    def __init__(
        self,
        nested: Nested,
        root: Jaxpr,
        shared: dict[Jaxpr, str],
        lossless: bool,
        outer: dict[Jaxpr, str],
        drops: dict[Var, str],
        name_drops: bool,
        later: bool,
        follows: bool,
    ):
        self.shared, self.lossless = {**outer, **({} if later else shared)}, lossless
        self.taken = set(self.shared.values())
        self.calls = {id(eqn): inner for calls in nested.calls.values() for eqn, inner in calls}
        self.names, self.name_drops, self.follows = drops, name_drops, follows
        self.count = 0
        self.unnamed: set[Var] = set()
        for jaxpr in (*shared, *(() if root in shared else (root,))):
            run_nested(self._name_jaxpr(jaxpr))
            if later and jaxpr in shared:
                self.shared[jaxpr] = shared[jaxpr]
                self.taken.add(shared[jaxpr])
        if lossless:
            self._part(nested)

    def _part(self, nested: Nested) -> None:
        """Give a new name to a variable whose name another variable of its jaxpr has too.

        It was named after a result of the call around it, and that result is a variable of the
        jaxpr as well.
        """
        names = self.names
        for jaxpr in nested.calls:
            bound = [*jaxpr.all_binders]
            for eqn in jaxpr.eqns:
                bound += eqn.out_binders
            if len({names.get(v) for v in bound}) == len(bound):
                continue
            seen: set[str] = set()
            for v in bound:
                if names.get(v, "_") in seen:
                    names[v] = self._next()
                seen |= {names.get(v, "_")} - {"_"}

    def _name_jaxpr(self, jaxpr: Jaxpr) -> Iterator[Any]:
        """Name the variables that a jaxpr prints; yield the namers of inner jaxprs where they are printed."""
        self._name(jaxpr.const_binders)
        self._name(jaxpr.in_binders)
        for eqn in jaxpr.eqns:
            inner = self.calls.get(id(eqn))
            follows = inner and self.follows and _named_by_call(eqn)
            if inner and follows and inner[0].jaxpr not in self.shared:
                self._follow(inner[0].jaxpr.in_binders, eqn.inputs)
                self._follow(inner[0].jaxpr.outs, eqn.out_binders)
            self._name(eqn.out_binders)
            if inner:
                yield from map(self._name_jaxpr, self._printed(eqn))
            self._name(eqn.inputs)
        self._name(jaxpr.outs)

    def _printed(self, eqn: JaxprEqn) -> Iterator[Jaxpr]:
        """Yield the jaxprs of an equation in the order of printing, without the shared ones."""
        printed = {id(closed) for closed in self.calls[id(eqn)]}
        for key in params_order(eqn.primitive, eqn.params):
            for closed in printed_jaxprs(eqn.params[key]):
                if id(closed) in printed and closed.jaxpr not in self.shared:
                    yield closed.jaxpr

    def _name(self, atoms: Sequence[Any]) -> None:
        names = self.names
        for v in atoms:
            if v in names or type(v) is Lit:
                continue
            if type(v) is DropVar and not self.name_drops:
                names[v] = "_"
                self.unnamed.add(v)
            else:
                names[v] = self._next()

    def _next(self) -> str:
        while True:
            name = base26(self.count)
            self.count += 1
            if name not in self.taken:
                return name

    def _follow(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        """Give inner variables the names of outer ones, where that is unambiguous."""
        if len(inner) != len(outer):
            return
        used: set[Any] = set()
        for v, like in zip(inner, outer, strict=True):
            if type(v) is Lit or type(like) is Lit or like in used or v in self.names:
                continue
            used.add(like)
            self._name([like])
            if not (self.lossless and self.names[like] == "_"):
                self.names[v] = self.names[like]


class _NamedAgain(_Namer):
    """Repeats the naming with the names that variables have in the source, to compare them with JAX's choices.

    Attributes:
      same: variable -> the variable of another jaxpr that had the same name before.
      strange: whether JAX would have given another name.
    """

    def __init__(self, *args: Any):
        self.first: dict[str | None, Var] = {}
        self.same: dict[Var, Var] = {}
        self.strange = False
        super().__init__(*args)

    def _name(self, atoms: Sequence[Any]) -> None:
        for v in atoms:
            if v in self.names or type(v) is Lit:
                continue
            self.names[v] = v.name or "_"
            first = None if v.name == "_" else self.first.get(v.name)
            if first is not None:
                self.same[v] = first
                self.strange |= first.aval != v.aval
            elif type(v) is not DropVar or v.name != "_":
                self.strange |= self._next() != v.name
                self.first[v.name] = v

    def _before(self, v: Any, like: Any) -> bool:
        """Whether an inner variable has the name of a variable of another jaxpr, not of the outer
        variable in its place.
        """
        return Lit not in (type(v), type(like)) and v.name in self.first and v.name != like.name

    def _follow(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        if len(inner) == len(outer):
            # What was named before, in another jaxpr, does not name what is around it.
            self._name([v for v, x in zip(inner, outer, strict=True) if self._before(v, x)])
        new = [v for v in inner if type(v) is not Lit and v not in self.names]
        super()._follow(inner, outer)
        for v in new:
            if self.names.get(v, v.name) != v.name:
                del self.names[v]
                self._name([v])


def _unused_results(jaxpr: Jaxpr) -> dict[Var, str]:
    """Return the results in a jaxpr that nothing reads, named `_`."""
    used = {x for x in jaxpr.outs if type(x) is not Lit}
    names: dict[Var, str] = {}
    for eqn in reversed(jaxpr.eqns):
        for v in eqn.out_binders:
            if v not in used:
                names[v] = "_"
        used.update(x for x in eqn.inputs if type(x) is not Lit)
    return names
