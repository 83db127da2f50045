"""Walks over jaxprs: the jaxprs inside params, counts, substitution of sub-jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.ir.primitive import ReadParams

__all__ = [
    "all_eqns",
    "count_eqns",
    "jaxprs_in",
    "map_jaxprs",
    "pair_jaxprs",
    "map_programs",
    "nesting",
    "shared_size",
    "sub_jaxprs",
    "with_eqns",
    "with_jaxprs",
    "with_read_jaxprs",
]


def jaxprs_in(value: ParamValue) -> Iterator[ClosedJaxpr]:
    """Iterate over the jaxprs in a param's value, or in all params of an equation."""
    if isinstance(value, ClosedJaxpr):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for v in value.values() if isinstance(value, dict) else value:
            if v.__class__ not in _SIMPLE:
                yield from jaxprs_in(v)
    elif isinstance(value, Record):
        yield from jaxprs_in(value.args)
        yield from jaxprs_in(value.fields)


_SIMPLE: frozenset[type[Any]] = frozenset([str, int, bool, float, type(None)])  # hold no jaxprs


def sub_jaxprs(eqn: JaxprEqn) -> Sequence[ClosedJaxpr]:
    """Return the jaxprs in the params of an equation, in the order of the params."""
    if not eqn.primitive.holds_jaxprs:
        return ()
    found: list[ClosedJaxpr] = []
    for value in eqn.params.values():
        kind = value.__class__
        if kind is ClosedJaxpr:
            found.append(value)
        elif kind not in _SIMPLE and not (kind is tuple and _SIMPLE.issuperset(map(type, value))):
            found += jaxprs_in(value)
    return found


def _inner(jaxpr: Jaxpr) -> list[Jaxpr]:
    """Return the jaxprs in the params of the equations of a jaxpr."""
    holders = [e for e in jaxpr.eqns if e.primitive.holds_jaxprs]
    return [c.jaxpr for eqn in holders for c in sub_jaxprs(eqn)]


def all_eqns(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Iterate over all equations; those of a nested jaxpr follow the first equation that holds the jaxpr.

    A jaxpr that is used several times is visited once. Not recursive.
    """
    seen = {jaxpr}
    stack = [iter(jaxpr.eqns)]
    while stack:
        for eqn in stack[-1]:
            yield eqn
            if not eqn.primitive.holds_jaxprs:
                continue
            new = [j for j in dict.fromkeys(c.jaxpr for c in sub_jaxprs(eqn)) if j not in seen]
            if new:
                seen.update(new)
                stack.extend(iter(j.eqns) for j in reversed(new))
                break
        else:
            stack.pop()


def count_eqns(jaxpr: Jaxpr) -> int:
    """Return the number of equations, calls included.

    Those of a nested jaxpr count once for each use.
    """
    found = _COUNT.find(jaxpr)
    return _count(jaxpr) if found is None else found


def nesting(jaxpr: Jaxpr) -> int:
    """Return the depth of nested jaxprs; a jaxpr without inner ones has depth 1. Not recursive."""
    stack = [jaxpr]
    while stack:
        current = stack[-1]
        if _NESTING.find(current) is not None:
            stack.pop()
            continue
        inner = _inner(current)
        new = [j for j in inner if _NESTING.find(j) is None]
        if new:
            stack += new
        else:
            _NESTING.keep(current, 1 + max((_NESTING.find(j) or 0 for j in inner), default=0))
    return _NESTING.find(jaxpr) or 0


_NESTING = Memo[int]("nesting")
_COUNT, _SHARED = Memo[int]("equations"), Memo[int]("shared size")
_LEAF = 16


def shared_size(jaxpr: Jaxpr) -> int:
    """Return the number of equations; a nested jaxpr that is not small counts once, however often it is used.

    The result is cached on each jaxpr; a chain of calls is counted in one pass. Not recursive.
    """
    chain: list[tuple[Jaxpr, int]] = []
    current = jaxpr
    while (total := _SHARED.find(current)) is None:
        size, inner = _own_size(current)
        if len(inner) != 1:
            total = _SHARED.keep(current, _walked_size(current))
            break
        chain.append((current, size))
        (current,) = inner
    for above, size in reversed(chain):
        total += size
        _SHARED.keep(above, total)
    return total


def _own_size(jaxpr: Jaxpr) -> tuple[int, list[Jaxpr]]:
    """Return the number of equations of a jaxpr and of the small jaxprs in it, and the other jaxprs, each once."""
    size = len(jaxpr.eqns)
    others: dict[Jaxpr, None] = {}
    for eqn in jaxpr.eqns:
        for closed in sub_jaxprs(eqn):
            n = count_eqns(closed.jaxpr)
            if n <= _LEAF:
                size += n
            else:
                others[closed.jaxpr] = None
    return size, list(others)


def _walked_size(root: Jaxpr) -> int:
    seen, pending, total = {root}, [root], 0
    while pending:
        size, inner = _own_size(pending.pop())
        total += size
        new = [j for j in inner if j not in seen]
        seen.update(new)
        pending += new
    return total


def _count(root: Jaxpr) -> int:
    """Count the equations of a jaxpr and of those inside it, each jaxpr once. Not recursive."""
    stack = [(root, False)]
    while stack:
        jaxpr, ready = stack.pop()
        if _COUNT.find(jaxpr) is not None:
            continue
        inner = _inner(jaxpr)
        if ready:
            _COUNT.keep(jaxpr, len(jaxpr.eqns) + sum(_COUNT.find(j) or 0 for j in inner))
        else:
            stack.append((jaxpr, True))
            stack += [(j, False) for j in inner if _COUNT.find(j) is None]
    return _COUNT.find(root) or 0


def map_jaxprs(value: ParamValue, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Any:
    """Return a param value with `f` applied to every jaxpr in it; the same object when nothing changed."""
    if isinstance(value, ClosedJaxpr):
        return f(value)
    if isinstance(value, (tuple, list)):
        new = [map_jaxprs(v, f) for v in value]
        changed = any(a is not b for a, b in zip(new, value, strict=True))
        return type(value)(new) if changed else value
    if isinstance(value, dict):
        mapped = {k: map_jaxprs(v, f) for k, v in value.items()}
        changed = any(mapped[k] is not v for k, v in value.items())
        return type(value)(mapped) if changed else value
    if isinstance(value, Record):
        args, fields = map_jaxprs(value.args, f), map_jaxprs(value.fields, f)
        same = args is value.args and fields is value.fields
        return value if same else Record(value.name, args, **fields)
    return value


def pair_jaxprs(
    eqn: JaxprEqn, other: JaxprEqn, f: Callable[[ClosedJaxpr, ClosedJaxpr], ClosedJaxpr]
) -> dict[str, Any]:
    """Return the params of an equation with `f` applied to every jaxpr in them and the one in its place in another equation.

    A jaxpr in whose place the other equation has none stays.
    """
    params: dict[str, Any] = {}
    for key, value in eqn.params.items():
        theirs = jaxprs_in(other.params.get(key))

        def paired(ours: ClosedJaxpr, theirs: Iterator[ClosedJaxpr] = theirs) -> ClosedJaxpr:
            found = next(theirs, None)
            return ours if found is None else f(ours, found)

        params[key] = map_jaxprs(value, paired)
    return params


def with_jaxprs(eqn: JaxprEqn, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> JaxprEqn:
    """Return an equation with `f` applied to every jaxpr in its params; the same object where nothing changed.

    Two kinds of jaxprs are left alone: those in a param that is not declared to hold jaxprs, and
    those of a primitive that `keeps_jaxprs`, since the rules of a library may ask for the identical
    object.
    """
    primitive = eqn.primitive
    if not primitive.holds_jaxprs or primitive.keeps_jaxprs:
        return eqn
    params = {
        k: map_jaxprs(v, f) if _is_rewritten(primitive, k) else v for k, v in eqn.params.items()
    }
    same = all(params[k] is v for k, v in eqn.params.items())
    return eqn if same else eqn.replace(params=params)


def _is_rewritten(primitive: Primitive, key: str) -> bool:
    param = primitive.params.get(key)
    return param is None or param.kind.holds_jaxprs


def map_programs(root: ClosedJaxpr, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> ClosedJaxpr:
    """Apply `f` to every jaxpr inside a program, innermost first and each once, and then to the program.

    Returns the same object where nothing changed; a jaxpr that occurs twice stays one object. Not
    recursive.
    """
    done: dict[ClosedJaxpr, ClosedJaxpr] = {}
    stack = [(root, False)]
    while stack:
        current, ready = stack.pop()
        if current in done:
            continue
        if ready:
            done[current] = f(_with_inner(current, done))
            continue
        stack.append((current, True))
        named = _definitions(current).values()  # some may not be called anywhere
        inner = (c for eqn in current.eqns for c in sub_jaxprs(eqn))
        stack += [(c, False) for c in (*inner, *named) if c not in done]
    return done[root]


def _with_inner(program: ClosedJaxpr, new: dict[ClosedJaxpr, ClosedJaxpr]) -> ClosedJaxpr:
    """Return the program with the new jaxprs in its equations and in the definitions of its text."""
    eqns: list[JaxprEqn] = []
    for eqn in program.eqns:
        eqns.append(with_read_jaxprs(eqn, new.__getitem__))
    named = _definitions(program)
    definitions = {name: new[c] for name, c in named.items()}
    before, after = (*program.eqns, *named.values()), (*eqns, *definitions.values())
    if all(a is b for a, b in zip(before, after, strict=True)):
        return program
    written = program.jaxpr.written
    if named and written is not None:
        written = written._replace(definitions=definitions)
    return program.replace(jaxpr=program.jaxpr.replace(eqns=eqns, written=written))


def with_read_jaxprs(eqn: JaxprEqn, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> JaxprEqn:
    """Return `with_jaxprs` of an equation, with the new jaxprs also in the params that its text has."""
    changed = with_jaxprs(eqn, f)
    return changed if changed is eqn else _as_read(eqn, changed)


def _as_read(eqn: JaxprEqn, changed: JaxprEqn) -> JaxprEqn:
    """Return an equation with other jaxprs, with these also in the params that its text has."""
    read = eqn.params
    if not isinstance(read, ReadParams):
        return changed
    new = {id(value): changed.params[key] for key, value in read.items()}
    params = {key: new.get(id(value), value) for key, value in read.was.params.items()}
    return changed.replace(params=ReadParams(changed.params, read.was._replace(params=params)))


def _definitions(program: ClosedJaxpr) -> Mapping[str, ClosedJaxpr]:
    written = program.jaxpr.written
    return {} if written is None else written.definitions


def with_eqns(program: ClosedJaxpr, eqns: Sequence[JaxprEqn]) -> ClosedJaxpr:
    """Return the program with equivalent equations in the place of its own; the layout of its text is kept."""
    return program.replace(jaxpr=program.jaxpr.replace(eqns=eqns, written=program.jaxpr.written))
