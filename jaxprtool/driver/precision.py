"""precision: what rounding does in each equation, and where more precision helps."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Any

from jaxprtool.analyses.precision import Errors, Measure, Shadow, is_rounded
from jaxprtool.analyses.precision_answer import OutputError, Precision, Trial
from jaxprtool.driver.constants import load_constants
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import checked_arguments, run
from jaxprtool.driver.typing import with_types
from jaxprtool.driver.values import arguments, open_binders
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.double import Raised, raised
from jaxprtool.passes.raising import raise_some
from jaxprtool.syntax.open_programs import is_open

__all__ = ["precision", "precision_words"]

_TRIALS = 12  # equations that are tried in double precision


def precision(
    program: ClosedJaxpr, args: Sequence[Value], *, top: int = 20, max_bytes: int | None = None
) -> Precision:
    """The errors that rounding makes in a program, beside a run in double precision.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments.
      top: how many equations the answer shows; as many of the worst, but not more than twelve, are tried in double
        precision, each with the equations that read its results.
      max_bytes: how many bytes of results are kept of the run in double precision, and what a run may take.

    Raises:
      JaxprTypeError, UsageError: as `run`.
      UnsupportedError: the program computes with nothing narrower than f64.
    """
    if top < 1:
        fail(UsageError, f"--top {top}: at least one equation is shown", "option")
    if is_open(program.jaxpr):
        program = with_types(program, args)
    check_arrays(check_input(program), "precision", sized=True)
    args = checked_arguments(program, args)
    program = load_constants(program)
    given = iter(args)
    consts = [next(given) if c is None else c for c in program.consts]
    program, args = with_places(transformable(program.replace(consts=consts))), [*given]
    high = raised(program)
    if not _is_raised(high):
        message = "the program computes with nothing narrower than f64, so that f64 shows no error"
        fail(UnsupportedError, message, "no-wider-type", span=program.jaxpr.span)
    with TemporaryFile() as file:
        shadow = Shadow(high, file, max_bytes)
        wide = _widened(args, high.program)
        exact = run(high.program, wide, max_bytes=max_bytes, observer=shadow)
        shadow.rewind()
        measure = Measure(high, shadow)
        outs = run(program, args, max_bytes=max_bytes, observer=measure)
    outputs = _outputs(outs, exact)
    order = sorted(measure.errors.values(), key=lambda e: -e.local_relative)
    trials = _trials(program, args, high, exact, outputs, measure.errors, min(top, _TRIALS))
    return Precision(outputs, order, trials, top)


def _is_raised(high: Raised) -> bool:
    pairs = high.after.items()
    atoms = ((x, y) for e, m in pairs for x, y in zip(e.out_binders, m.out_binders, strict=True))
    return any(x.aval is not y.aval for x, y in atoms)


def _widened(args: Sequence[Value], program: ClosedJaxpr) -> list[Value]:
    dtype_of = numpy_namespace().dtype_of_aval
    pairs = zip(args, program.in_avals, strict=True)
    return [x.astype(dtype_of(a.dtype)) if is_rounded(x) else x for x, a in pairs]


def _outputs(outs: Sequence[Value], exact: Sequence[Value]) -> list[OutputError]:
    from jaxprtool.backends import agreement, arrays  # noqa: PLC0415 (gateway: NumPy)

    found: list[OutputError] = []
    for i, (x, y) in enumerate(zip(outs, exact, strict=True)):
        if is_rounded(x):
            found.append(OutputError(i, arrays.type_name(x), *agreement.error_of(x, y)))
    return found


def _trials(
    program: ClosedJaxpr,
    args: Sequence[Value],
    high: Raised,
    exact: Sequence[Value],
    outputs: Sequence[OutputError],
    errors: dict[JaxprEqn, Errors],
    count: int,
) -> list[Trial]:
    """What becomes of the results when one equation and those that read it are done in double precision.

    The worst by what they add are tried. What reads a result in its own type would round it as the equation does.
    """
    before = max((o.relative for o in outputs), default=0.0)
    able = [e for e, found in errors.items() if found.local and e in high.after]
    tried = sorted(able, key=lambda e: -errors[e].local_relative)[:count]
    readers = _readers(program)
    found: list[Trial] = []
    for eqn in tried:
        made = raise_some(program, high, {eqn, *readers.get(eqn, ())})
        after = max((o.relative for o in _outputs(run(made, args), exact)), default=0.0)
        found.append(Trial(errors[eqn].place, before, after))
    return sorted(found, key=lambda t: t.after)


def _readers(program: ClosedJaxpr) -> dict[JaxprEqn, list[JaxprEqn]]:
    """By an equation those that read its results, without those that hold jaxprs."""
    made: dict[Any, JaxprEqn] = {}
    found: dict[JaxprEqn, list[JaxprEqn]] = {}
    for eqn in all_eqns(program.jaxpr):
        made.update(dict.fromkeys(eqn.out_binders, eqn))
    for eqn in all_eqns(program.jaxpr):
        if not eqn.primitive.holds_jaxprs:
            for x in eqn.inputs:
                if type(x) is not Lit and x in made:
                    found.setdefault(made[x], []).append(eqn)
    return found


def precision_words(
    program: ClosedJaxpr, words: Sequence[str], *, max_bytes: int | None = None, **how: Any
) -> Precision:
    """`precision` of a program on values that are given as words (see `driver.values`)."""
    check_arrays(check_input(program), "precision", sized=True)
    binders, interface = open_binders(program), of_open(program)
    args = arguments(binders, words, interface=interface, max_bytes=max_bytes)
    return precision(program, args, max_bytes=max_bytes, **how)
