"""The function that replaces equations which occur in several places, and its calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.origin import Names, Origin
from jaxprtool.passes.repeats.repeated import Bodies, Repeat

__all__ = ["Function"]


class Function:
    """A function, and how its calls differ.

    Attributes:
      length: how many equations it has.
      args: for each argument the atoms that are passed, one for each place.
      outs: its results, as pairs of equation and position of the result.
      name: the name of its calls.
    """

    def __init__(self, bodies: Bodies, repeat: Repeat, taken: set[str]):
        """taken: the names of other functions; the name of this one is added."""
        self.length = repeat.length
        self._bodies, self._starts = bodies, repeat.starts
        self.args: dict[tuple[Atom, ...], int] = {}
        windows = [_window(bodies, s, repeat.length) for s in repeat.starts]
        self._operands = [self._sources(same) for same in zip(*windows, strict=True)]
        self.outs = [
            (j, r)
            for j, same in enumerate(zip(*windows, strict=True))
            for r, rows in enumerate(zip(*[e.out_binders for e in same], strict=True))
            if any(map(self._is_read, rows, repeat.starts))
        ]
        names = [[*map(_names_of, window)] for window in windows]
        self._scopes: list[Names] = [_common(some) for some in names]
        inner = [
            [n[len(scope) :] for n in some] for some, scope in zip(names, self._scopes, strict=True)
        ]
        self._inner = [
            n if all(x == n for x in column) else () for n, *column in zip(*inner, strict=True)
        ]
        self.name = _free_name(self._scope_name() or _function_of(windows), taken)
        self._jaxpr: ClosedJaxpr | None = None

    def _sources(self, same: Sequence[JaxprEqn]) -> list[Any]:
        """Return the operands of an equation: (equation, result), the number of an argument, or a literal."""
        found: list[Any] = []
        for atoms in zip(*[e.inputs for e in same], strict=True):
            inside = self._bodies.reference(atoms[0], self._starts[0])
            if inside is not None:
                found.append(inside)
            elif type(atoms[0]) is Lit and self._bodies.are_equal(atoms):
                found.append(atoms[0])
            else:
                found.append(self.args.setdefault(atoms, len(self.args)))
        return found

    def _is_read(self, v: Var, start: int) -> bool:
        """Whether a result is read after the window that begins at `start`."""
        return self._bodies.last_read.get(v, -1) >= start + self.length

    def call(self, k: int, eqns: Sequence[JaxprEqn]) -> JaxprEqn:
        """Return the call in place k, which replaces these equations."""
        if self._jaxpr is None:
            self._jaxpr = self._made(eqns)
        start, origin = self._starts[k], eqns[0].origin
        binders = [eqns[j].out_binders[r] for j, r in self.outs]
        outs = [v if self._is_read(v, start) else DropVar(v.aval) for v in binders]
        jit = lax.jit_call.primitive
        params = {**jit.defaults, "jaxpr": self._jaxpr, "name": self.name}
        if origin is not None:
            origin = Origin(origin.frame, self._scopes[k] or None, origin.shown)
        ins = [atoms[k] for atoms in self.args]
        return JaxprEqn(jit, ins, params, outs, eqns[0].span, None, origin)

    def _made(self, eqns: Sequence[JaxprEqn]) -> ClosedJaxpr:
        binders = [Var(atoms[0].aval.strong) for atoms in self.args]
        results = [[Var(v.aval, v.name) for v in e.out_binders] for e in eqns]
        made: list[JaxprEqn] = []
        for eqn, operands, outs, names in zip(
            eqns, self._operands, results, self._inner, strict=True
        ):
            ins = [
                x if type(x) is Lit else binders[x] if isinstance(x, int) else results[x[0]][x[1]]
                for x in operands
            ]
            origin = eqn.origin
            if origin is not None:
                origin = Origin(origin.frame, names or None, origin.shown)
            made.append(eqn.replace(inputs=ins, out_binders=outs, origin=origin))
        return ClosedJaxpr(Jaxpr(binders, made, [results[j][r] for j, r in self.outs]))

    def _scope_name(self) -> str:
        """Return the name of the innermost scope that holds the equations, if it is the same in all places but for a number; else ""."""
        names = {_identifier(scope[-1]) if scope else "" for scope in self._scopes}
        if len(names) > 1:
            names = {re.sub(r"_?\d+$", "", name) for name in names}
        return names.pop() if len(names) == 1 else ""


def _window(bodies: Bodies, start: int, length: int) -> list[JaxprEqn]:
    return [e for e in bodies.eqns[start : start + length] if e is not None]


def _names_of(eqn: JaxprEqn) -> Names:
    return eqn.origin.names or () if eqn.origin is not None else ()


def _common(stacks: Sequence[Names]) -> Names:
    """Return the scopes with which all of some stacks begin."""
    low, high = min(stacks), max(stacks)
    n = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[:n]


def _identifier(scope: str) -> str:
    """Return the name in `attn`, `jvp(attn)` or `transpose(jvp(attn))`; "" where it is none."""
    found = re.fullmatch(r"(?:\w+\()*([A-Za-z]\w*)\)*", scope)
    return found[1] if found else ""


def _function_of(windows: Sequence[Sequence[JaxprEqn]]) -> str:
    """Return the name of the Python function that made all of some equations; "" where there is none, or no name."""
    names: set[str] = set()
    for eqn in (e for window in windows for e in window):
        frame = eqn.origin.frame if eqn.origin is not None else None
        names.add(frame.function.rpartition(".")[2] if frame is not None else "")
        if len(names) > 1:
            return ""
    return _identifier(names.pop())


def _free_name(name: str, taken: set[str]) -> str:
    """Return this name, or with a number if it is taken, and mark it as taken."""
    number = 0
    free = name
    while not free or free in taken:
        free = f"{name}_{number + 1}" if name else f"f{number}"
        number += 1
    taken.add(free)
    return free
