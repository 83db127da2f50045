"""outline: replace equations that occur several times by calls of a function."""

from __future__ import annotations

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.passes.bodies import in_each_body, with_inner
from jaxprtool.passes.registry import define_pass
from jaxprtool.passes.repeats.outlined import Function
from jaxprtool.passes.repeats.repeated import Bodies, best_repeats

__all__ = ["outline"]

_MOST_ROUNDS = 8  # levels of functions that call functions, at most


@define_pass("outline", "bits types idempotent linear-time", {"size": 1, "saved": 0})
def outline(program: ClosedJaxpr, *, size: int = 4, saved: int = 4) -> ClosedJaxpr:
    """Call one function (`jit`) where the same equations stand in several places, of at least size equations, where that saves so many.

    The reverse of `inline`: the equations of a part follow each other, and agree but for names and the values of literals, at any depth.
    Functions have the name of the scope (`named_scope`) that the equations are in, or of the Python function, or f0, f1, ...
    Jaxprs in params that are equal become one. Equations with effects stay.
    """
    keys = Keys()
    program = in_each_body(program, _Shared(keys))
    for _ in range(_MOST_ROUNDS):
        made = _Outlining(program, keys, max(size, 2), max(saved, 1)).result()
        if made is program:
            break
        program = made
    return program


class _Shared:
    """Maps jaxprs with the same equations, types and constants to one of them."""

    def __init__(self, keys: Keys):
        self.keys = keys
        self.known: dict[int, ClosedJaxpr] = {}

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return self.known.setdefault(self.keys.jaxpr(closed), closed)


class _Outlining:
    """One round of outlining: the functions that save most, and their calls."""

    def __init__(self, program: ClosedJaxpr, keys: Keys, size: int, saved: int):
        self.program = program
        bodies = Bodies(_bodies(program), keys)
        self.calls: dict[int, tuple[Function, int]] = {}  # by the position of the first equation
        self.begins = bodies.begins
        taken = _function_names(program)
        for repeat in best_repeats(bodies, size, saved):
            function = Function(bodies, repeat, taken)
            self.calls.update((s, (function, k)) for k, s in enumerate(repeat.starts))
        self.done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    @deep
    def result(self) -> ClosedJaxpr:
        """Return the program with the calls; the same object where there is nothing to call."""
        return self._changed(self.program) if self.calls else self.program

    def _changed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        found = self.done.get(closed)
        if found is None:
            made = with_inner(closed, self._changed)
            found = self.done[closed] = self._with_calls(made, self.begins[closed])
        return found

    def _with_calls(self, closed: ClosedJaxpr, begin: int) -> ClosedJaxpr:
        eqns: list[JaxprEqn] = []
        i = 0
        while i < len(closed.eqns):
            function, k = self.calls.get(begin + i, (None, 0))
            if function is None:
                eqns.append(closed.eqns[i])
                i += 1
            else:
                window = closed.eqns[i : i + function.length]
                eqns.append(function.call(k, window))
                i += function.length
        if len(eqns) == len(closed.eqns):
            return closed
        return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))


def _bodies(program: ClosedJaxpr) -> list[ClosedJaxpr]:
    """Return the program and the jaxprs inside, each once."""
    found = {program: None}
    pending = [program]
    while pending:
        for eqn in pending.pop().eqns:
            for inner in sub_jaxprs(eqn):
                if inner not in found:
                    found[inner] = None
                    pending.append(inner)
    return [*found]


def _function_names(program: ClosedJaxpr) -> set[str]:
    """Return the names that functions already have."""
    eqns = (eqn for closed in _bodies(program) for eqn in closed.eqns)
    return {str(eqn.params["name"]) for eqn in eqns if "name" in eqn.params}
