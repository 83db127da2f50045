"""Two runs whose equations are compared: in step where both are on NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.comparison import First, Tolerance
from jaxprtool.analyses.first_difference import Search
from jaxprtool.analyses.in_step import Stepped
from jaxprtool.driver.run import evaluated, printing_aside, ready, run
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.passes.double import doubled, in_double

__all__ = ["Limits", "Results", "Side", "differences", "search", "side"]


class Limits(NamedTuple):
    """What a run may take; see `driver.run`."""

    max_bytes: int | None = None
    step_limit: int | None = None


class Side(NamedTuple):
    """A program, its arguments, and where it runs."""

    program: ClosedJaxpr
    args: Sequence[Value]
    backend: str
    limits: Limits

    @property
    def steps(self) -> bool:
        """Whether it runs equation by equation."""
        return self.backend not in ("xla", "jax")

    def results(self) -> list[Value]:
        """The results of the program."""
        max_bytes = self.limits.max_bytes
        if self.backend == "xla":
            return run(self.program, self.args, jit=True, max_bytes=max_bytes)
        if self.backend == "jax":
            return run(self.program, self.args, through="jax", max_bytes=max_bytes)
        return run(self.program, self.args, **self.limits._asdict())

    def stepped(self) -> Stepped:
        """The run as a sequence of events."""
        return Stepped(lambda observer: evaluated(self.program, self.args, *self.limits, observer))


def side(program: ClosedJaxpr, args: Sequence[Value], backend: str, limits: Limits) -> Side:
    """A side, ready to run: with its constants loaded, on `f64` in double precision."""
    program = ready(program, args, limits.max_bytes)
    if backend == "f64":
        program, args = in_double(program), [*map(doubled, args)]
    return Side(program, args, backend, limits)


class Results(NamedTuple):
    """The results of both sides, and what a search found."""

    results: tuple[list[Value], list[Value]]
    first: First | None = None
    flips: First | None = None


def search(a: Side, b: Side, tolerance: Tolerance) -> Results:
    """Run both sides and find the first equation whose results differ although its operands agree."""
    compare, how = differences(), tolerance._asdict()
    runs = a.stepped(), b.stepped()
    found = Search(*runs, compare.same, lambda x, y: compare.difference(x, y, **how))
    try:
        with printing_aside():
            found.run()
    finally:
        for side in runs:
            side.close()
    results = runs[0].results, runs[1].results
    first = found.first
    if first is None:
        pairs = zip(*results, strict=False)
        differ = [i for i, (x, y) in enumerate(pairs) if compare.difference(x, y, **how).n_different]
        first = found.of_results(differ[0]) if differ else None
    return Results(results, first, found.flips)


def differences() -> Any:
    """The functions that compare arrays."""
    from jaxprtool.backends import differences as found  # noqa: PLC0415 (gateway: NumPy)

    return found
