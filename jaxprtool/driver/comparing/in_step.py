"""Compare the equations of two runs: in step where both are on NumPy, else by prefixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from jaxprtool.analyses.comparing.comparison import First, Tolerance
from jaxprtool.analyses.comparing.first_difference import Search
from jaxprtool.analyses.comparing.in_step import Alternating, Stepped
from jaxprtool.driver.comparing.before_loops import before_loops
from jaxprtool.driver.comparing.inside_calls import opened_calls
from jaxprtool.driver.comparing.inside_loops import written_out_loops
from jaxprtool.driver.comparing.prefixes import Program, first_of_prefixes
from jaxprtool.driver.comparing.surplus import without_surplus
from jaxprtool.driver.progress import evaluating, working
from jaxprtool.driver.run import evaluated, ready, run
from jaxprtool.driver.running.ends import ends_for_sure
from jaxprtool.driver.running.prints import printing_aside
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.limits import Turns, limited_steps, limited_turns
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.passes.once import cut, runs_once
from jaxprtool.passes.precisions.double import doubled, in_double

__all__ = [
    "Limits",
    "Results",
    "Side",
    "both_results",
    "differences",
    "not_ended",
    "of_both",
    "search",
    "side",
]

_TURNS, _MORE = 1_000_000, 100  # see `both_results`
_MOST = 10_000_000  # steps of loops of an unknown number of steps, where neither side has an end


class Limits(NamedTuple):
    """The limits of a run; see `driver.run`."""

    max_bytes: int | None = None
    step_limit: int | None = None


class Side(NamedTuple):
    """A program, its arguments, and the backend on which it runs."""

    program: ClosedJaxpr
    args: Sequence[Value]
    backend: str
    limits: Limits

    @property
    def steps(self) -> bool:
        """Whether it runs equation by equation."""
        return self.backend not in ("xla", "jax")

    def cut(self) -> tuple[list[Value], Program]:
        """Run the part that must run only once; return its results, and a program for
        `first_of_prefixes` that does not repeat it.
        """
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
        """Return the results of the program."""
        max_bytes = self.limits.max_bytes
        if self.backend == "xla":
            return run(self.program, self.args, jit=True, max_bytes=max_bytes)
        if self.backend == "jax":
            return run(self.program, self.args, through="jax", max_bytes=max_bytes)
        return run(self.program, self.args, **self.limits._asdict())

    def stepped(self) -> Stepped:
        """Return the run as a sequence of events."""
        return Stepped(lambda observer: evaluated(self.program, self.args, *self.limits, observer))


def side(program: ClosedJaxpr, args: Sequence[Value], backend: str, limits: Limits) -> Side:
    """Return a side that is ready to run: with its constants loaded, and on `f64` in double precision."""
    program = ready(program, args, limits.max_bytes)
    if backend == "f64":
        program, args = in_double(program), [*map(doubled, args)]
    return Side(program, args, backend, limits)


class Results(NamedTuple):
    """The results of both sides, empty for one that was stopped; the findings of a search; and
    notes about stopped sides.
    """

    results: tuple[list[Value], list[Value]]
    first: First | None = None
    flips: First | None = None
    stopped: Sequence[str] = ()


T = TypeVar("T")


def of_both(sides: Sequence[Side], f: Callable[[Side], T]) -> tuple[T, T]:
    """Call a function with two sides, first with one that runs step by step, and return its results.

    A compiled run cannot be stopped, so a step limit has to be met on the other side before.
    """
    a, b = sides
    if a.steps or not b.steps:
        first = f(a)
        return first, f(b)
    second = f(b)
    return f(a), second


def both_results(a: Side, b: Side) -> Results:
    """Return the results of both sides.

    Where no other limit is set and both run step by step, each may take a hundred times as many
    steps as the other one has taken, but at least a million; then it is stopped. Both are stopped
    after ten million steps where neither has ended; so is a side on NumPy beside a compiled one.
    """
    if not (a.steps and b.steps) or a.limits.step_limit is not None:
        found = _bounded((a, b), Side.results)
        return Results(([], []), stopped=found) if isinstance(found, list) else Results(found)
    found, stopped = _alternately(a, b)
    return Results(found, stopped=stopped)


def _bounded(sides: tuple[Side, Side], f: Callable[[Side], T]) -> tuple[T, T] | list[str]:
    """Do as `of_both`; return notes about the side on NumPy instead, where it does not end."""
    turns = Turns(_MOST if sides[0].limits.step_limit is None else None)
    try:
        with limited_turns(turns):
            return of_both(sides, f)
    except UsageError as e:
        if not turns.over:
            raise
        return [_stopped("A" if sides[0].steps else "B", e)]


def _alternately(a: Side, b: Side) -> tuple[tuple[list[Value], list[Value]], list[str]]:
    """Return the results of two sides on NumPy, which run alternately, and notes about a side that was stopped.

    So a side that does not end does not keep the other one from ending.
    """

    def run_of(side: Side) -> Alternating:
        return Alternating(lambda: evaluated(side.program, side.args, *side.limits, None))

    runs, turns = (run_of(a), run_of(b)), _TURNS
    try:
        with printing_aside(), evaluating():
            while not all(run.ended for run in runs):
                for run, other in (runs, runs[::-1]):
                    known = max(_TURNS, _MORE * other.turns.taken) if other.complete else None
                    most = min(turns, _MOST) if known is None else known
                    run.go_on(most, last=known is not None or turns >= _MOST)
                turns *= 2
    finally:
        for run in runs:
            run.close()
    x, y = [run.results or list[Value]() for run in runs]
    pairs = zip("AB", runs, strict=True)
    return (x, y), [_stopped(name, run.stopped) for name, run in pairs if run.stopped is not None]


def not_ended(a: Side, b: Side) -> list[str]:
    """Return notes about a side that takes many more steps than the other one, where one is
    compiled and could not be stopped.

    For that both run on NumPy, once where they are the same program. This is skipped where all
    their loops have a known number of iterations, where one program runs on NumPy anyway and is
    stopped there, and where one has effects, which would happen twice.
    """
    if (a.steps and b.steps) or a.limits.step_limit is not None:
        return []
    one = a.program.jaxpr is b.program.jaxpr
    if one and (a.steps or b.steps):
        return []
    if all(ends_for_sure(x.program) for x in (a, b)) or any(runs_once(x.program) for x in (a, b)):
        return []
    try:
        with working("counting steps"):
            if one:
                found = _bounded((a._replace(backend="numpy"), b), _counted)
                return found if isinstance(found, list) else []
            return _alternately(a, b)[1]
    except JaxprToolError:  # NumPy does not take one of them
        return []


def _counted(side: Side) -> None:
    """Run a side, if it is on NumPy, only to count its steps."""
    if side.steps:
        side.results()


def search(a: Side, b: Side, tolerance: Tolerance) -> Results:
    """Do as `_search`; where one program has loops that the other has unrolled, search inside of these too.

    The same holds for equations that one program computes before its loops. This is a second run, after one that found a
    difference; a program with effects runs only once.
    """
    eqns = (*a.program.eqns, *b.program.eqns)
    if not (a.steps and b.steps and any(e.primitive.holds_jaxprs for e in eqns)):
        return _search(a, b, tolerance)
    loops = written_out_loops(a.program, b.program)
    if loops is None:
        return _before_loops(a, b, tolerance)
    p, q = loops.opened
    bare = a._replace(program=p), b._replace(program=q)
    if loops.once:
        found = _search(*bare, tolerance)
        return found._replace(first=loops.near(found.first), flips=loops.near(found.flips))
    found = _search(a, b, tolerance)
    if found.first is None:
        return found
    return _opened(found, _search(*bare, tolerance), loops.as_written, tolerance)


def _before_loops(a: Side, b: Side, tolerance: Tolerance) -> Results:
    """Do as `_search`; where one program computes before its loops what the other computes in them, search with both hoisted.

    That is a second run, after one that found a difference; a program with effects runs only once.
    """
    once = runs_once(a.program) or runs_once(b.program)
    found = None if once else _search(a, b, tolerance)
    if found is not None and found.first is None:
        return found
    moved = before_loops(a.program, b.program)
    if moved is None:
        return found or _search(a, b, tolerance)
    p, q = moved.opened
    opened = _search(a._replace(program=p), b._replace(program=q), tolerance)
    if found is not None:
        return _opened(found, opened, moved.as_written, tolerance)
    first, flips = moved.as_written(opened.first), moved.as_written(opened.flips)
    return opened._replace(first=first, flips=flips)


def _opened(
    found: Results,
    opened: Results,
    as_written: Callable[[First | None], First | None],
    tolerance: Tolerance,
) -> Results:
    """Return the results, with the first difference found where calls or loops are expanded.

    If that run finds none and the results agree, the original finding was a pair of equations that
    do not correspond to each other.
    """
    first, flips = as_written(opened.first), as_written(opened.flips)
    if first is None and (found.stopped or _differ(found.results, tolerance)):
        return found
    return found._replace(first=first, flips=flips)


def _search(a: Side, b: Side, tolerance: Tolerance) -> Results:
    """Run both sides and find the first equation whose results differ although its operands agree.

    They run in step where both run equation by equation; else, where results differ, prefixes of
    them are bisected. Where one has calls in the place of equations of the other, they run with
    calls inlined: in a second run, or at once where they have effects. Where one computes once what
    the other computes several times, both compute it once.
    """
    find = _in_step if a.steps and b.steps else _by_prefixes
    opened = opened_calls(a.program, b.program)
    if opened is None:
        p, q = _searched(a, b, (a.program, b.program))
        return find(a._replace(program=p), b._replace(program=q), tolerance)
    p, q = _searched(a, b, opened.opened)
    bare = a._replace(program=p), b._replace(program=q)
    if opened.once:
        found = find(*bare, tolerance)
        first, flips = opened.as_written(found.first), opened.as_written(found.flips)
        return found._replace(first=first, flips=flips)
    found = find(a, b, tolerance)
    if found.first is None:
        return found
    return _opened(found, find(*bare, tolerance), opened.as_written, tolerance)


def _searched(
    a: Side, b: Side, programs: tuple[ClosedJaxpr, ClosedJaxpr]
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Return the programs in which to search: without surplus where both sides run equation by equation."""
    return without_surplus(*programs) if a.steps and b.steps else programs


def _differ(results: tuple[Sequence[Value], Sequence[Value]], tolerance: Tolerance) -> bool:
    compare, how = differences(), tolerance._asdict()
    pairs = zip_longest(*results, fillvalue=compare.NOTHING)
    return any(compare.difference(x, y, **how).n_different for x, y in pairs)


def _by_prefixes(a: Side, b: Side, tolerance: Tolerance) -> Results:
    compare, how = differences(), tolerance._asdict()
    cuts = _bounded((a, b), Side.cut)
    if isinstance(cuts, list):
        return Results(([], []), stopped=cuts)
    (x, whole_a), (y, whole_b) = cuts
    results = x, y
    if not _differ(results, tolerance):
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
    """Return the note about a side that took too many steps."""
    said = error.diagnostics[0]
    at = "" if said.span is None else f" ({said.span})"
    return f"{name} was stopped: {said.message}{at}; --step-limit allows more"


def differences() -> Any:
    """The functions that compare arrays."""
    from jaxprtool.backends import differences as found  # noqa: PLC0415 (gateway: NumPy)

    return found
