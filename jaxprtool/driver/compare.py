"""compare: compare the results of two programs, or of one program on two backends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from jaxprtool.analyses.comparing.comparison import EXACT, Comparison, First, Output, Tolerance
from jaxprtool.analyses.comparing.inside_operations import innermost
from jaxprtool.analyses.on_devices import element_of
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.sites import Sites
from jaxprtool.driver.comparing.in_step import (
    Limits,
    Results,
    Side,
    both_results,
    differences,
    not_ended,
    search,
    side,
)
from jaxprtool.driver.comparing.roundings import rooms_of_rounding
from jaxprtool.driver.comparing.saved import compare_saved, compare_with_run, is_saved, load_saved
from jaxprtool.driver.comparing.surplus import with_copies
from jaxprtool.driver.compile import NO_EXCESS, compile_without_excess
from jaxprtool.driver.run import run_through_jax
from jaxprtool.driver.running.ends import check_end
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.once import runs_once
from jaxprtool.syntax.inference.open_programs import is_open

__all__ = ["BACKENDS", "compare", "compare_words"]

BACKENDS = ("numpy", "xla", "jax", "f64")


def compare(
    a: ClosedJaxpr,
    b: ClosedJaxpr | None,
    args: Sequence[Value],
    *,
    backends: Sequence[str] = (),
    tolerance: Tolerance = EXACT,
    first: bool = False,
    arbiter: str | None = None,
    names: tuple[str, str] = ("A", "B"),
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> Comparison:
    """Run two programs, or one on two backends, and compare the results.

    Args:
      a, b: the programs; None for b: a itself.
      args: values of the constants that a does not hold, then of its arguments; the same for b.
      backends: where they run, of `BACKENDS`: one for both or one for each. NumPy by default; for
        one program `numpy,xla`.
      tolerance: which differences of floats are ignored; by default those that rounding explains
        between two backends, and none on one.
      first: whether to find the first equation whose results differ.
      arbiter: `f64`: run a in double precision too, and say which side is further from that.
      names: the names of a and b.
      max_bytes, step_limit: as for `driver.run`.

    Raises:
      UsageError: an unknown backend, the same program twice on the same one, arguments that do not
        fit, a tolerance below 0.
      JaxprTypeError, UnsupportedError: as `driver.run`.
    """
    on = _backends(backends, one=b is None)
    check_not_negative(**tolerance._asdict())
    b = a if b is None else b
    tolerance = tolerance_between(tolerance, *on)
    _check_arguments(a, b)
    limits = Limits(max_bytes, step_limit)
    sides = side(a, args, on[0], limits), side(b, args, on[1], limits)
    if step_limit is not None:
        _check_ends((a, b), sides)
    if stopped := not_ended(*sides):
        found = Results(([], []), stopped=stopped)
    else:
        found = search(*sides, tolerance) if first else both_results(*sides)
    outputs, notes = _outputs(a, sides, found, tolerance, one=a is b)
    if arbiter is not None and not found.stopped:
        outputs = judged(outputs, found.results, side(a, args, arbiter, limits).results())
    equal = not found.stopped and not _differ(outputs)
    seen = [_as_written(x, a, b) for x in (found.first, found.flips)]
    return Comparison(
        equal,
        (f"{names[0]} on {on[0]}", f"{names[1]} on {on[1]}"),
        outputs,
        tolerance,
        None if equal and notes else seen[0],
        first,
        None if equal and notes else seen[1],
        notes if equal else [*notes, *excess_precision(sides, found.results, tolerance)],
    )


def _as_written(first: First | None, a: ClosedJaxpr, b: ClosedJaxpr) -> First | None:
    """Return a first difference in terms of the innermost equations of the programs.

    For the devices of a mesh, other equations run in their place.
    """
    if first is None:
        return None
    sites = Sites(a), Sites(b)
    places = [of.place(x) for of, x in zip(sites, (first.a, first.b), strict=True)]
    among = [[*map(of.place, x)] for of, x in zip(sites, first.among, strict=True)]
    found = replace(
        _on_a_device(first, places[0]), a=places[0], b=places[1], among=(among[0], among[1])
    )
    return with_copies(innermost(found), a, b)


def _on_a_device(first: First, written: Any) -> First:
    """Return a first difference with the type, the index and the device of the element that differs most, where all devices ran at once."""
    ran, said = first.a, first.found
    if not isinstance(ran, Place) or not isinstance(written, Place) or said is None:
        return first
    found = None if said.where is None else element_of(ran, written.eqn, first.result, said.where)
    if found is None or said.type_a != said.type_b:
        return first
    kind, where, device = found
    said = said._replace(type_a=kind, type_b=kind, where=where)
    return replace(first, found=said, device=device)


def compare_words(
    read: Callable[[str], ClosedJaxpr], a: str, b: str, words: Sequence[str], **how: Any
) -> Comparison:
    """Compare the programs that two names mean, on arguments that are given as words; see `compare`.

    Args:
      read: returns the program that a name means.
      a, b: the names; "" for b: a itself.
      words: the arguments, as in `driver.words.values`; they are for those of a.
      how: keywords of `compare`.
    """
    if is_saved(a) or is_saved(b):
        return _compare_saved(read, a, b, words, **how)
    program, other = read(a), read(b) if b else None
    args = _arguments(program, words, how.get("max_bytes"))
    return compare(program, other, args, names=(a, b or a), **how)


def _arguments(
    program: ClosedJaxpr, words: Sequence[str], max_bytes: int | None
) -> Sequence[Value]:
    check_arrays(check_input(program), "compare", sized=True)
    binders, interface = open_binders(program), of_open(program)
    return arguments(binders, words, interface=interface, max_bytes=max_bytes)


def _compare_saved(
    read: Callable[[str], ClosedJaxpr],
    a: str,
    b: str,
    words: Sequence[str],
    *,
    backends: Sequence[str] = (),
    tolerance: Tolerance = EXACT,
    first: bool = False,
    arbiter: str | None = None,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> Comparison:
    """Compare the saved results of a run with those of another one, or with a program on NumPy.

    The first difference is always reported.
    """
    check_not_negative(**tolerance._asdict())
    if not b:
        help = "name a second one, or the program: compare DIR a.jaxpr --args ..."
        fail(UsageError, f"{a} is what one run has saved", "bad-usage", help=help)
    if arbiter or {*backends} - {"numpy"}:
        word = "--arbiter" if arbiter else "--backends"
        fail(UsageError, f"{word} is for programs; saved values are as they are", "option")
    if is_saved(a) and is_saved(b):
        if words:
            fail(UsageError, "--args are for programs, and the values of both are saved", "option")
        return compare_saved(load_saved(a), load_saved(b), tolerance)
    program, saved = read(b if is_saved(a) else a), load_saved(a if is_saved(a) else b)
    args, limits = _arguments(program, words, max_bytes), Limits(max_bytes, step_limit)
    return compare_with_run(
        program, args, saved, tolerance, b if is_saved(a) else a, limits, swap=is_saved(a)
    )


def tolerance_between(tolerance: Tolerance, first: str, second: str) -> Tolerance:
    """Return the tolerance, or the default between two backends where none is given."""
    if tolerance != EXACT or first == second:
        return tolerance
    return Tolerance(rounding=True)


def _backends(names: Sequence[str], *, one: bool) -> tuple[str, str]:
    for name in names:
        if name not in BACKENDS:
            message = f"there is no backend {name!r}"
            help = f"the backends are {', '.join(BACKENDS)}"
            fail(UsageError, message, "backend", help=help)
    if len(names) > 2:
        fail(UsageError, f"two runs are compared, and {len(names)} backends are named", "backend")
    if not names:
        return ("numpy", "xla") if one else ("numpy", "numpy")
    found = (names[0], names[-1])
    if one and found[0] == found[1]:
        message = f"one program on one backend, {found[0]}, is one run: there is nothing to compare"
        fail(UsageError, message, "backend", help="name a second program, or --backends numpy,xla")
    return found


def _check_ends(programs: tuple[ClosedJaxpr, ClosedJaxpr], sides: tuple[Side, Side]) -> None:
    """Raise UsageError where a compiled program takes more steps than are allowed.

    A program that runs on NumPy too meets the limit there, before it is compiled.
    """
    pairs = [*zip(programs, sides, strict=True)]
    counted = [p for p, s in pairs if s.backend == "numpy"]
    for program, s in pairs:
        if not s.steps and not any(program is p for p in counted):
            check_end(s.program, s.args, *s.limits)
            counted.append(program)


def _check_arguments(a: ClosedJaxpr, b: ClosedJaxpr) -> None:
    """Raise UsageError where two programs do not take the same arguments."""
    if is_open(a.jaxpr) or is_open(b.jaxpr):
        return  # their types follow from the arguments
    types = [" ".join(str(v.aval.strong) for v in open_binders(p)) or "none" for p in (a, b)]
    if types[0] != types[1]:
        message = "A and B take different arguments, and both are run on the same ones"
        fail(UsageError, message, "argument-type", help=f"A: {types[0]}; B: {types[1]}")


def compared(
    program: ClosedJaxpr,
    a: Sequence[Value],
    b: Sequence[Value],
    tolerance: Tolerance,
    rooms: Sequence[Any] = (),
) -> list[Output]:
    """Compare the outputs of two runs, one by one.

    `rooms` are additional differences that are allowed in each output, elementwise.
    """
    labels = _labels(program, len(a), len(b))
    outputs: list[Output] = []
    for i, (x, y) in enumerate(zip_longest(a, b, fillvalue=differences().NOTHING)):
        room = rooms[i] if i < len(rooms) else 0.0
        found = differences().difference(x, y, **tolerance._asdict(), extra=room)
        outputs.append(Output(i, labels[i], found))
    return outputs


def _outputs(
    program: ClosedJaxpr,
    sides: tuple[Side, Side],
    found: Results,
    tolerance: Tolerance,
    *,
    one: bool,
) -> tuple[list[Output], list[str]]:
    """Compare the outputs of both sides; also return notes about a side that was stopped, and about
    what rounding explains.
    """
    outputs = compared(program, *found.results, tolerance)
    differing = any(x.found.n_different and not x.found.exact for x in outputs)
    if found.stopped or not tolerance.rounding or not differing:
        return outputs, [*found.stopped]
    rooms = rooms_of_rounding(sides, found.results, one=one)
    after = compared(program, *found.results, tolerance, rooms)
    return after, _forgiven(outputs, after)


def _differ(outputs: Sequence[Output]) -> bool:
    return any(x.found.n_different for x in outputs)


def _forgiven(before: Sequence[Output], after: Sequence[Output]) -> list[str]:
    """Return notes about elements that count as equal because other roundings move them as far."""
    pairs = zip(before, after, strict=True)
    counts = {x.label: x.found.n_different - y.found.n_different for x, y in pairs}
    return [
        f"{label}: {counted(n, 'element')} within what other roundings of the equations change"
        for label, n in counts.items()
        if n
    ]


def judged(
    outputs: Sequence[Output],
    results: tuple[Sequence[Value], Sequence[Value]],
    truth: Sequence[Value],
) -> list[Output]:
    """Return the outputs with the verdict of an arbiter: how far each side is from its values, and which is further.

    Both are within rounding where no element of either is further from them than that explains (see
    `Tolerance`).
    """
    found: list[Output] = []
    for output, a, b, true in zip(outputs, *results, truth, strict=False):
        off = [differences().difference(x, true, rounding=True) for x in (a, b)]
        worst = [(x.n_different, math.inf if x.max_ulp is None else x.max_ulp) for x in off]
        if not any(n for n, _ in worst):
            judgement = "both within rounding"
        elif worst[0] == worst[1]:
            judgement = "both equally far"
        else:
            judgement = "A worse" if worst[0] > worst[1] else "B worse"
        errors = {"error_a": off[0].max_ulp, "error_b": off[1].max_ulp}
        found.append(replace(output, judgement=judgement, **errors))
    return found


def excess_precision(
    sides: tuple[Side, Side], results: tuple[Sequence[Value], Sequence[Value]], tolerance: Tolerance
) -> list[str]:
    """Return a note where results differ because XLA keeps narrow floats in f32; this is found by
    compiling again without that.
    """
    again: list[Sequence[Value]] = []
    for run, before in zip(sides, results, strict=True):
        excessive = run.backend in ("xla", "jax") and has_narrow_floats(run.program)
        excessive = excessive and not runs_once(run.program)
        again.append(_without_excess(run) if excessive else before)
    if all(x is y for x, y in zip(again, results, strict=True)):
        return []
    flag = "xla_allow_excess_precision=false"
    if any(x.found.n_different for x in compared(sides[0].program, again[0], again[1], tolerance)):
        return [f"no excess precision: with {flag} A and B differ as well"]
    return [f"excess precision: XLA keeps narrow floats in f32; with {flag} A and B agree"]


def _without_excess(run: Side) -> list[Value]:
    if run.backend == "jax":
        return run_through_jax(run.program, run.args, flags=NO_EXCESS)
    return compile_without_excess(run.program)(*run.args)


def has_narrow_floats(program: ClosedJaxpr) -> bool:
    """Whether a program computes with floats of fewer than 32 bits."""
    avals = (v.aval for eqn in all_eqns(program.jaxpr) for v in eqn.out_binders)
    dtypes = {getattr(aval, "dtype", None) for aval in avals}
    return any(d is not None and d.kind == "f" and d.bits < 32 for d in dtypes)


def _labels(program: ClosedJaxpr, n: int, m: int) -> list[str]:
    """Return the name of each output: its path in the tree of the results, or its position."""
    if program.interface is None or n != m or n == 1:
        return [str(i) for i in range(max(n, m))]
    return [path.lstrip(".") or str(i) for i, path in enumerate(program.interface.result.paths())]
