"""blame --jit: find a value that is bad only when XLA compiles the program, and the shortest part
of it that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.blame import located
from jaxprtool.analyses.places import Place, Step
from jaxprtool.driver.comparing.prefixes import Bodies
from jaxprtool.driver.run import run
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.interpreters.dce import jaxpr_has_effects
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.once import calls_python

__all__ = ["OnlyCompiled", "only_compiled", "why_not_twice"]


@dataclass
class OnlyCompiled:
    """A bad value that a compiled run shows, and a run on NumPy does not.

    Attributes:
      kind: the kind of the bad value.
      place: the last equation of the shortest compiled prefix that shows it.
      equations: the number of equations of that prefix.
      total: the number of equations of the program.
      type: the type of the bad value.
      results: the positions of the results of the whole program that are bad.
    """

    kind: str
    place: Place
    equations: int
    total: int
    type: str
    results: Sequence[int] = ()

    def lines(self) -> list[str]:
        """What was found, for people."""
        return [
            f"{self.kind} only when compiled, at {located(self.place)}",
            f"  a result of it, {self.type}, is bad; the smallest compiled prefix that shows it has "
            f"{self.equations:,} of {self.total:,} equations",
        ]

    def json(self) -> dict[str, Any]:
        """What was found, with the keys kind, place, equations, total and type."""
        return {
            "kind": self.kind,
            "place": self.place.json(),
            "equations": self.equations,
            "total": self.total,
            "type": self.type,
        }


def why_not_twice(program: ClosedJaxpr) -> str:
    """Return why a program must not run a second time, or "": it has effects, or calls Python functions."""
    if jaxpr_has_effects(program.jaxpr):
        return "it has effects"
    for eqn in all_eqns(program.jaxpr):
        if calls_python(eqn):
            return f"{eqn.primitive.name} calls a function of Python"
    return ""


def only_compiled(
    program: ClosedJaxpr, args: Sequence[Value], sought: Sought, known: Container[Var] = ()
) -> OnlyCompiled | None:
    """Find what is bad in the results of a program when XLA compiles it; None where nothing is.

    The shortest prefix is found by bisection: prefixes are compiled whose results are the values
    that the rest reads. The prefix inside of a call, a branch and a step of a loop is found too.

    Args:
      program: a program that shows nothing bad on NumPy, and may run several times
        (`why_not_twice`).
      args: as for `driver.run`.
      sought: which values are bad.
      known: variables that are bad on NumPy too, and whose bad values the program drops.

    Raises:
      UnsupportedError: XLA does not accept the program.
    """
    given = iter(args)
    consts = [next(given) if c is None else c for c in load_constants(program).consts]
    program, args = program.replace(consts=consts), list(given)
    bad_results = _Bad(sought, known)
    results = [i for i, _, _ in bad_results.all(program, args)]
    if not results:
        return None
    path: tuple[Step, ...] = ()
    while True:
        n = _shortest(program, lambda part, args=args: bad_results.first(part, args) is not None)
        eqn = program.eqns[n - 1]
        found = bad_results.first(_prefix(program, n), args)
        assert found is not None
        answer = OnlyCompiled(found[0], Place(eqn, path), n, len(program.eqns), found[1], results)
        inside = _inside(eqn, program, n, args, bad_results)
        if inside is None:
            return answer
        program, args, step = inside
        path = (*path, step)


class _Bad:
    """Looks for bad values in the results of compiled programs."""

    def __init__(self, sought: Sought, known: Container[Var]):
        self._sought, self._known = sought, known

    def first(self, program: ClosedJaxpr, args: Sequence[Value]) -> tuple[str, str] | None:
        """The kind and the type of the first bad value among the results, or None."""
        found = next(self.all(program, args), None)
        return None if found is None else found[1:]

    def all(self, program: ClosedJaxpr, args: Sequence[Value]) -> Iterator[tuple[int, str, str]]:
        """The position, the kind and the type of each bad result."""
        outs = run(program, args, jit=True)
        for i, (out, x) in enumerate(zip(program.jaxpr.outs, outs, strict=True)):
            dtype = getattr(out.aval, "dtype", None)
            if isinstance(out, Lit) or out in self._known:
                continue
            if dtype is not None and dtype.is_inexact:
                value = numpy_namespace().asarray(x)
                if value in self._sought:
                    yield i, self._sought.kind_of(value), str(out.aval)


def _shortest(program: ClosedJaxpr, shows: Callable[[ClosedJaxpr], bool]) -> int:
    """Return the length of a prefix that shows the bad value, while the prefix one shorter does not.

    The whole program shows it.
    """
    good, bad = 0, len(program.eqns)
    while bad - good > 1:
        middle = (good + bad) // 2
        part = _prefix(program, middle)
        if part.jaxpr.outs and shows(part):
            bad = middle
        else:
            good = middle
    return bad


def _prefix(program: ClosedJaxpr, n: int, outs: Sequence[Any] | None = None) -> ClosedJaxpr:
    """Return the first n equations as a program, whose results are the values that the rest reads."""
    jaxpr = program.jaxpr
    if n == len(jaxpr.eqns) and outs is None:
        return program
    if outs is None:
        read = {x for e in jaxpr.eqns[n:] for x in e.inputs if isinstance(x, Var)}
        read.update(x for x in jaxpr.outs if isinstance(x, Var))
        made = [v for e in jaxpr.eqns[:n] for v in e.out_binders if not isinstance(v, DropVar)]
        outs = [v for v in made if v in read]
    part = jaxpr.replace(eqns=jaxpr.eqns[:n], outs=outs)
    return ClosedJaxpr(part, program.consts)


def _values_before(program: ClosedJaxpr, n: int, args: Sequence[Value]) -> list[Value]:
    """Return the operands of equation n, counted from 1, by running the compiled prefix before it."""
    inputs = program.eqns[n - 1].inputs
    variables = [x for x in inputs if not isinstance(x, Lit)]
    found = iter(run(_prefix(program, n - 1, variables), args, jit=True))
    xp = numpy_namespace()
    return [xp.value(x) if isinstance(x, Lit) else next(found) for x in inputs]


def _inside(
    eqn: JaxprEqn, program: ClosedJaxpr, n: int, args: Sequence[Value], bad: _Bad
) -> tuple[ClosedJaxpr, Sequence[Value], Step] | None:
    """Return the first jaxpr inside equation n that shows a bad value when compiled, its arguments,
    and the step into it.

    A run on NumPy gives the jaxprs that run, their order and their arguments, starting from the
    operands that the compiled prefix computes.
    """
    if not eqn.primitive.holds_jaxprs:
        return None
    bodies: dict[Jaxpr, ClosedJaxpr] = {}

    def tell(jaxpr: Jaxpr, given: Sequence[Value], step: Step) -> Any:
        if any(isinstance(x, (Cell, Token)) for x in given):
            return None
        if jaxpr not in bodies:
            whole = Jaxpr(jaxpr.all_binders, jaxpr.eqns, jaxpr.outs, [])
            bodies[jaxpr] = ClosedJaxpr(whole, [])
        try:
            shown = bad.first(bodies[jaxpr], given)
        except JaxprToolError:  # XLA cannot compile the body alone, for example with collectives
            return None
        return None if shown is None else (bodies[jaxpr], [*given], step)

    values = zip(eqn.inputs, _values_before(program, n, args), strict=True)
    return Bodies(tell).watch(eqn, {x: v for x, v in values if not isinstance(x, Lit)})
