"""precision: what rounding does in each equation, and where more precision helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from tempfile import TemporaryFile
from typing import Any

from jaxprtool.analyses.memory import check_memory
from jaxprtool.analyses.precision import Errors, Measure, Worst
from jaxprtool.analyses.precision_answer import OutputError, Precision, Trial
from jaxprtool.analyses.precision_pairs import pairing
from jaxprtool.analyses.shadow import Shadow, is_rounded
from jaxprtool.analyses.sites import Sites
from jaxprtool.driver.constants import load_constants
from jaxprtool.driver.places import with_places
from jaxprtool.driver.progress import evaluating
from jaxprtool.driver.run import checked_arguments, evaluated, printing_aside, run
from jaxprtool.driver.typing import with_types
from jaxprtool.driver.values import arguments, open_binders
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import numpy_namespace, prepare_impl
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.double import Raised, doubled, raised
from jaxprtool.passes.raising import raise_some
from jaxprtool.syntax.open_programs import is_open

__all__ = ["precision", "precision_words"]


def precision(
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    top: int = 20,
    tries: int = 12,
    max_bytes: int | None = None,
) -> Precision:
    """The errors that rounding makes in a program, beside a run in double precision.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments.
      top: how many equations the answer shows.
      tries: how many of these are done in double precision, each with the equations that read its results, to see whether
        that helps: the program runs again for each.
      max_bytes: how many bytes of results are kept of the run in double precision, and what a run may take.

    Raises:
      JaxprTypeError, UsageError: as `run`.
      UnsupportedError: the program computes with nothing narrower than f64.
    """
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
    high = _RAISED.of(program.jaxpr, lambda: raised(_without_values(program)))
    if not _is_raised(high):
        message = "the program computes with nothing narrower than f64, so that f64 shows no error"
        fail(UnsupportedError, message, "no-wider-type", span=program.jaxpr.span)
    with TemporaryFile() as file, printing_aside(), evaluating():
        shadow = Shadow(file, max_bytes)
        wide = _widened(args, high.program)
        wider = high.program.replace(consts=[doubled(c) for c in consts])
        exact = evaluated(wider, wide, max_bytes, None, shadow)
        measure = Measure(shadow, pairing(high, prepared))
        outs = evaluated(program, args, max_bytes, None, measure)
    outputs = _outputs(program, outs, exact)
    order = Worst([*measure.tables.values()], Sites(program).of)
    trials = _trials(program, args, high, exact, outputs, order, min(top, tries))
    return Precision(outputs, order, trials, top)


_RAISED = Memo[Raised]("in double precision")


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    return program.replace(consts=[None] * len(program.consts))


def prepared(eqn: JaxprEqn) -> Callable[..., Value]:
    """The operation of an equation as a function of values."""
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


def _outputs(
    program: ClosedJaxpr, outs: Sequence[Value], exact: Sequence[Value]
) -> list[OutputError]:
    from jaxprtool.backends import agreement, arrays  # noqa: PLC0415 (gateway: NumPy)

    found: list[OutputError] = []
    for i, (x, y, aval) in enumerate(zip(outs, exact, program.out_avals, strict=True)):
        if is_rounded(aval):
            found.append(OutputError(i, arrays.type_name(x), *agreement.error_of(x, y)))
    return found


def _trials(
    program: ClosedJaxpr,
    args: Sequence[Value],
    high: Raised,
    exact: Sequence[Value],
    outputs: Sequence[OutputError],
    worst: Sequence[Errors],
    count: int,
) -> list[Trial]:
    """What becomes of the results when one equation and those that read it are done in double precision.

    The worst by what they add are tried. What reads a result in its own type would round it as the equation does.
    """
    if not count:
        return []
    before = max((o.relative for o in outputs), default=0.0)
    readers = _readers(program)
    found: list[Trial] = []
    for errors in worst:
        eqn = errors.place.eqn
        if not errors.local_relative or len(found) == count:
            break
        if eqn in high.after and errors.local:
            made = raise_some(program, high, {eqn, *readers.get(eqn, ())})
            after = max(
                (o.relative for o in _outputs(program, run(made, args), exact)), default=0.0
            )
            found.append(Trial(errors.place, before, after))
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
