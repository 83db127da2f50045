"""Two runs whose equations are compared: in step where both are on NumPy, else by prefixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from jaxprtool.analyses.comparing.comparison import First, Tolerance
from jaxprtool.analyses.comparing.first_difference import Search
from jaxprtool.analyses.comparing.in_step import Stepped
from jaxprtool.driver.comparing.inside_calls import opened_calls
from jaxprtool.driver.comparing.prefixes import Program, first_of_prefixes
from jaxprtool.driver.run import evaluated, printing_aside, ready, run
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.limits import Turns, limited_steps, limited_turns
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.passes.once import cut
from jaxprtool.passes.precisions.double import doubled, in_double

__all__ = ["Limits", "Results", "Side", "both_results", "differences", "of_both", "search", "side"]

_TURNS, _MORE = 1_000_000, 100  # see `both_results`


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

    def cut(self) -> tuple[list[Value], Program]:
        """The results of one run, and the program for `first_of_prefixes`, whose parts do not do what was done in that run."""
        parts = cut(self.program)
        given = iter(self.args)
        consts = [next(given) if c is None else c for c in self.program.consts]
        found = self._replace(program=parts.whole).results()

        def run_part(part: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
            return self._replace(program=part, args=args).results()

        args = [*consts, *given, *found[parts.outs :]]
        program = Program(parts.rest, [*map(numpy_namespace().value, args)], run_part)
        return found[: parts.outs], program

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
    """The results of both sides, none of one that was stopped; what a search found; and what is said of sides that were stopped."""

    results: tuple[list[Value], list[Value]]
    first: First | None = None
    flips: First | None = None
    stopped: Sequence[str] = ()


T = TypeVar("T")


def of_both(sides: Sequence[Side], f: Callable[[Side], T]) -> tuple[T, T]:
    """What a function gives of two sides; first of one that runs step by step.

    What is compiled cannot be stopped, so that a limit of steps has to be met on the other side before.
    """
    a, b = sides
    if a.steps or not b.steps:
        first = f(a)
        return first, f(b)
    second = f(b)
    return f(a), second


def both_results(a: Side, b: Side) -> Results:
    """The results of both sides.

    Where nothing else limits the steps, B may take a hundred times as many as A has taken, but a million at least.

    Raises:
      UsageError: it takes more.
    """
    if not (a.steps and b.steps) or a.limits.step_limit is not None:
        return Results(of_both((a, b), Side.results))
    turns = Turns()
    with limited_turns(turns):
        first = a.results()
    with limited_turns(Turns(max(_TURNS, _MORE * turns.taken))):
        return Results((first, b.results()))


def search(a: Side, b: Side, tolerance: Tolerance) -> Results:
    """Run both sides and find the first equation whose results differ although its operands agree.

    Both are run in step where both run equation by equation, else prefixes of them are bisected, where results differ. Where one has
    calls in the place of equations of the other, they run without calls: in a second run, or at once where they have effects.
    """
    find = _in_step if a.steps and b.steps else _by_prefixes
    opened = opened_calls(a.program, b.program)
    if opened is None:
        return find(a, b, tolerance)
    p, q = opened.opened
    bare = a._replace(program=p), b._replace(program=q)
    if opened.once:
        found = find(*bare, tolerance)
        first, flips = opened.as_written(found.first), opened.as_written(found.flips)
        return found._replace(first=first, flips=flips)
    found = find(a, b, tolerance)
    inside = None if found.first is None else opened.as_written(find(*bare, tolerance).first)
    return found._replace(first=inside or found.first)


def _by_prefixes(a: Side, b: Side, tolerance: Tolerance) -> Results:
    compare, how = differences(), tolerance._asdict()
    (x, whole_a), (y, whole_b) = of_both((a, b), Side.cut)
    results = x, y
    pairs = zip_longest(*results, fillvalue=compare.NOTHING)
    if not any(compare.difference(x, y, **how).n_different for x, y in pairs):
        return Results(results)
    with limited_steps(a.limits.step_limit):
        first = first_of_prefixes(whole_a, whole_b, lambda x, y: compare.difference(x, y, **how))
    return Results(results, first)


def _in_step(a: Side, b: Side, tolerance: Tolerance) -> Results:
    compare, how = differences(), tolerance._asdict()
    runs = a.stepped(), b.stepped()
    near = compare.clearly(tolerance)

    def agree(x: Value, y: Value) -> bool:
        return compare.same(x, y) or (near is not None and near(x, y))

    bounded = a.limits.step_limit is None
    found = Search(*runs, agree, lambda x, y: compare.difference(x, y, **how), bounded=bounded)
    try:
        with printing_aside(), compare.quiet():
            found.run()
    finally:
        for side in runs:
            side.close()
    x, y = [run.results or list[Value]() for run in runs]
    pairs = zip("AB", found.stopped, strict=True)
    stopped = [_stopped(name, error) for name, error in pairs if error is not None]
    return Results((x, y), found.first, found.flips, stopped)


def _stopped(name: str, error: UsageError) -> str:
    """What there is to say of a side that took too many steps."""
    said = error.diagnostics[0]
    at = "" if said.span is None else f" ({said.span})"
    return f"{name} was stopped: {said.message}{at}; --step-limit allows more"


def differences() -> Any:
    """The functions that compare arrays."""
    from jaxprtool.backends import differences as found  # noqa: PLC0415 (gateway: NumPy)

    return found
