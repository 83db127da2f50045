"""Evaluation of large programs without preparing them: the function of each equation is made when
it runs, and dropped afterwards.

A prepared program takes as much memory again as the program, and pays off where it runs several
times. A derivative of a hundred thousand equations that runs a few times takes twice as long
without it, and half of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from jaxprtool.interpreters.evaluation.observe import Observer, observe, observer
from jaxprtool.ir.contexts import holding
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit

__all__ = ["Streamed", "is_streamed", "streaming"]

_LARGE = 400_000  # equations
_streaming: ContextVar[bool] = ContextVar("streaming", default=False)


def streaming() -> AbstractContextManager[None]:
    """Run large jaxprs without preparing them inside the block."""
    return holding(_streaming, True)


def is_streamed(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr runs without being prepared now: inside of `streaming`, and large."""
    return _streaming.get() and len(jaxpr.eqns) > _LARGE


class Streamed:
    """A jaxpr that is evaluated without being prepared; stands in the place of an `interpreters.evaluate._Program`."""

    def __init__(self, jaxpr: Jaxpr, value: Callable[[Lit], Any]):
        """`value` returns the value of a literal."""
        self._jaxpr, self._value = jaxpr, value
        self._dying = _dying(jaxpr)

    def run(
        self, args: Sequence[Any], function: Callable[[JaxprEqn], Callable[..., Any]]
    ) -> list[Any]:
        """Run the jaxpr and return its results; `function` returns the function of an equation."""
        watching = observer()
        how = False if watching is None else watching.enter(self._jaxpr, args)
        if watching is None or how is not False:
            return self._run(args, function, watching, how)
        observe(None)
        try:
            return self._run(args, function, None, how)
        finally:
            observe(watching)

    def _run(
        self, args: Sequence[Any], function: Any, watching: Observer | None, how: bool | list[Any]
    ) -> list[Any]:
        jaxpr, value = self._jaxpr, self._value
        env: dict[Any, Any] = dict(zip(jaxpr.all_binders, args, strict=True))
        for eqn, dying in zip(jaxpr.eqns, self._dying, strict=True):
            ins = [value(x) if type(x) is Lit else env[x] for x in eqn.inputs]
            try:
                if watching is not None and eqn.primitive.holds_jaxprs:
                    watching.begin(eqn, ins)
                result = function(eqn)(*ins)
            except JaxprToolError as e:
                e.placed_at(eqn)
                raise
            outs = result if eqn.primitive.multiple_results else (result,)
            env.update(zip(eqn.out_binders, outs, strict=True))
            if watching is not None:
                if isinstance(how, list):
                    how.append(result)
                else:
                    watching.see(eqn, ins, outs)
            for x in _of(eqn, dying):
                del env[x]
        found = [value(x) if type(x) is Lit else env[x] for x in jaxpr.outs]
        if watching is not None:
            watching.leave(jaxpr, found)
        return found


def _dying(jaxpr: Jaxpr) -> list[int]:
    """Return for each equation a bit mask of its variables (results, then operands) that are not read after it.

    Results of the jaxpr are never among them.
    """
    seen = {x for x in jaxpr.outs if type(x) is not Lit}
    found = [0] * len(jaxpr.eqns)
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[i]
        for bit, v in enumerate((*eqn.out_binders, *eqn.inputs)):
            if type(v) is not Lit and v not in seen:
                seen.add(v)
                found[i] |= 1 << bit
    return found


def _of(eqn: JaxprEqn, dying: int) -> Iterator[Any]:
    if dying:
        for bit, v in enumerate((*eqn.out_binders, *eqn.inputs)):
            if dying >> bit & 1:
                yield v
