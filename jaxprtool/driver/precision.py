"""precision: measure what rounding does in each equation, and where more precision helps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.rounding.precision import Measure, Worst
from jaxprtool.analyses.rounding.precision_answer import OutputError, Precision
from jaxprtool.analyses.rounding.precision_pairs import pairing
from jaxprtool.analyses.rounding.shadow import Shadow, in_f64, is_rounded
from jaxprtool.analyses.sites import Sites
from jaxprtool.driver.places import with_places
from jaxprtool.driver.progress import evaluating
from jaxprtool.driver.run import checked_arguments, evaluated, run
from jaxprtool.driver.running.precision_trials import together_of, trials_of
from jaxprtool.driver.running.prints import printing_aside
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.typing import with_types
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.interpreters.evaluation.limits import limited_steps
from jaxprtool.interpreters.evaluation.observe import Functions, computed_by
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.memo import Memo
from jaxprtool.passes.precisions.double import Raised, doubled, raised
from jaxprtool.passes.precisions.raising import raise_some
from jaxprtool.syntax.inference.open_programs import is_open

__all__ = ["precision", "precision_words"]


def precision(
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    shadow: str = "f64",
    top: int = 20,
    tries: int = 12,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> Precision:
    """Return the errors that rounding makes in a program, measured against a run in a wider precision.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments.
      shadow: the wider precision: `f64`, or `f128`, which is the platform's long double. An
        equation whose rule does not support long double is computed in f64; the answer names it.
      top: the number of equations that the answer shows.
      tries: the number of these for which the wider precision is tried, each with the equations
        that read its results, to see whether that helps: the program runs again for each. Where
        none helps, up to so many are looked for that help together.
      max_bytes: how many bytes of results are kept of the wider run, and what a run may take.
      step_limit: as for `driver.run`, for each run.

    Raises:
      JaxprTypeError, UsageError: as `run`.
      UnsupportedError: the program computes with nothing narrower than `shadow`.
    """
    if shadow not in _SHADOWS:
        fail(UsageError, f"--shadow {shadow!r}: there is f64 and f128", "option")
    if tries < 0:
        fail(UsageError, f"--tries {tries}: not fewer than none are tried", "option")
    if top < 1:
        fail(UsageError, f"--top {top}: at least one equation is shown", "option")
    if is_open(program.jaxpr):
        program = with_types(program, args)
    check_arrays(check_input(program), "precision", sized=True)
    if max_bytes is not None:
        check_memory(program, max_bytes)
    args = checked_arguments(program, args)
    program = load_constants(program)
    given = iter(args)
    consts = [next(given) if c is None else c for c in program.consts]
    program, args = with_places(transformable(program)).replace(consts=consts), [*given]
    with limited_steps(step_limit):
        return _measured(program, args, shadow, top, tries, max_bytes)


def _measured(
    program: ClosedJaxpr,
    args: Sequence[Value],
    shadow: str,
    top: int,
    tries: int,
    max_bytes: int | None,
) -> Precision:
    """Do as `precision`, for a program that holds all its constants."""
    high = _RAISED.of(program.jaxpr, lambda: raised(_without_values(program)))
    wider = _SHADOWS[shadow](program, high)
    with Shadow(max_bytes, wider.widened) as watching, printing_aside(), evaluating():
        with computed_by(wider.functions):
            doubles = high.program.replace(consts=[doubled(c) for c in program.consts])
            exact = evaluated(doubles, _widened(args, doubles), max_bytes, None, watching)
        measure = Measure(watching, pairing(high, wider.of, kept=wider.functions is None))
        outs = evaluated(program, args, max_bytes, None, measure)
    outputs = _outputs(program, outs, exact)
    tables, sites = [*measure.tables.values()], Sites(program)
    order = Worst(tables, sites.of)
    wide_args = _widened(args, high.program)

    def error_with(eqns: Collection[JaxprEqn]) -> float:
        with computed_by(wider.tried(eqns)):
            found = run(raise_some(program, high, eqns), wide_args)
        return _largest(_outputs(program, found, exact))

    can_be, before, count = high.after.keys(), _largest(outputs), min(top, tries)
    trials = trials_of(program, order, can_be, before, count, error_with)
    together = together_of(order, can_be, trials, before, count, error_with)
    narrow = [high.before.get(eqn, eqn) for eqn in wider.narrow]
    done_in_f64 = [Place(eqn) for eqn in dict.fromkeys(map(sites.written, narrow))]
    adds_most = order[0].local_relative if len(order) else 0.0
    shown = order if before <= _FAR * adds_most else Worst(tables, sites.of, before)
    return Precision(outputs, shown, trials, together, top, shadow, done_in_f64)


class _Wider(NamedTuple):
    """A wider precision.

    Attributes:
      of: returns the operation of an equation in double precision as a function of values in this
        precision.
      widened: converts a value to this precision.
      functions: the functions of a whole run (`interpreters.evaluation.observe`); None: impl rules.
      tried: returns the functions of a trial with some equations in this precision.
      narrow: returns the equations of the wider run that were computed in f64, after it has run.
    """

    of: Callable[[JaxprEqn], Callable[..., Value]]
    widened: Callable[[Value], Value]
    functions: Functions | None
    tried: Callable[[Collection[JaxprEqn]], Functions | None]
    narrow: Collection[JaxprEqn] = ()


def _f64(program: ClosedJaxpr, high: Raised) -> _Wider:
    if not _is_raised(high):
        message = "no equation of the program computes with a type narrower than f64 that f64 could replace"
        floats = any(is_rounded(v.aval) for eqn in high.after for v in eqn.out_binders)
        help = "--shadow f128 runs it in long double" if floats else "nothing in it is rounded"
        fail(UnsupportedError, message, "no-wider-type", span=program.jaxpr.span, help=help)

    def tried(eqns: Collection[JaxprEqn]) -> None:
        return None

    return _Wider(prepared, in_f64, None, tried)


def _f128(program: ClosedJaxpr, high: Raised) -> _Wider:
    from jaxprtool.backends import extended  # noqa: PLC0415 (gateway: NumPy)

    extended.check_long_double()
    functions = extended.Extended()

    def tried(eqns: Collection[JaxprEqn]) -> Functions:
        places = {eqn.span.start for eqn in eqns if eqn.span is not None}
        # only conversions between raised equations and others have no span
        return extended.Extended(lambda e: e.span is None or e.span.start in places)

    return _Wider(functions.of, extended.widened, functions, tried, functions.narrow)


_SHADOWS = {"f64": _f64, "f128": _f128}


_FAR = 100  # errors larger than this many times those of any equation are amplified ones

_RAISED = Memo[Raised]("in double precision")


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    return program.replace(consts=[None] * len(program.consts))


def prepared(eqn: JaxprEqn) -> Callable[..., Value]:
    """Return the operation of an equation as a function of values."""
    avals = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
    return prepare_impl(numpy_namespace(), eqn.primitive, *avals, eqn.params)


def _is_raised(high: Raised) -> bool:
    pairs = high.after.items()
    atoms = ((x, y) for e, m in pairs for x, y in zip(e.out_binders, m.out_binders, strict=True))
    return any(x.aval is not y.aval for x, y in atoms)


def _widened(args: Sequence[Value], program: ClosedJaxpr) -> list[Value]:
    dtype_of = numpy_namespace().dtype_of_aval
    pairs = zip(args, program.in_avals, strict=True)
    return [x.astype(dtype_of(a.dtype)) if is_rounded(a) else x for x, a in pairs]


def _largest(outputs: Sequence[OutputError]) -> float:
    return max((o.relative for o in outputs), default=0.0)


def _outputs(
    program: ClosedJaxpr, outs: Sequence[Value], exact: Sequence[Value]
) -> list[OutputError]:
    from jaxprtool.backends import agreement, arrays  # noqa: PLC0415 (gateway: NumPy)

    found: list[OutputError] = []
    dtype_of = numpy_namespace().dtype_of_aval
    for i, (x, y, aval) in enumerate(zip(outs, exact, program.out_avals, strict=True)):
        if is_rounded(aval):
            x = x.astype(dtype_of(aval.dtype), copy=False)
            errors = agreement.error_of(x, y)
            found.append(OutputError(i, arrays.type_name(x), *errors, agreement.not_finite(x)))
    return found


def precision_words(
    program: ClosedJaxpr, words: Sequence[str], *, max_bytes: int | None = None, **how: Any
) -> Precision:
    """Call `precision` on values that are given as words (see `driver.words.values`)."""
    check_arrays(check_input(program), "precision", sized=True)
    binders, interface = open_binders(program), of_open(program)
    args = arguments(binders, words, interface=interface, max_bytes=max_bytes)
    return precision(program, args, max_bytes=max_bytes, **how)
