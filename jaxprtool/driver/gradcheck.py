"""gradcheck: compare derivatives with finite differences, and find the rule to blame where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.gradchecking.answer import Derivative, GradCheck
from jaxprtool.analyses.gradchecking.equations import (
    Finding,
    Known,
    decides,
    find_equations,
    find_inside,
)
from jaxprtool.analyses.gradchecking.found import Check
from jaxprtool.analyses.gradchecking.gradcheck import (
    check_point,
    derivative_of,
    differentiable,
    directions_of,
)
from jaxprtool.analyses.gradchecking.point import MODES, How, copied, without_float0
from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.analyses.promises import bounds_of
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import checked_arguments, run
from jaxprtool.driver.running.prints import printing_aside
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.typing import with_types
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.numbers import check_not_negative
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluation.limits import limited_bytes, limited_steps
from jaxprtool.interpreters.evaluation.streamed import streaming
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.interface import argument_labels, result_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.syntax.inference.open_programs import is_open

__all__ = ["gradcheck", "gradcheck_words"]


def gradcheck(
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    modes: Sequence[str] = MODES,
    order: int = 1,
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> GradCheck:
    """Check the derivatives of a program at some arguments.

    Args:
      program: the program.
      args: values of the constants that the program does not hold, then of its arguments. Arguments
        that are integers, booleans or keys have no derivatives.
      modes: `fwd` (jvp), `rev` (vjp) or both; both are compared with central differences, and with
        each other.
      order: 2 checks the derivatives of the derivatives too.
      eps: the step of the differences, relative to the size of an argument; by default several,
        depending on the type, and steps in the imaginary direction where all operations accept
        complex numbers and the two agree.
      rtol, atol: how far a derivative may be from its difference, besides the uncertainty of the
        difference.
      seed: the seed of the random directions.
      max_bytes: the memory that the program and its derivatives may need; None: no limit.
      step_limit: as for `driver.run`, for each run of the program or of a derivative.

    Raises:
      JaxprTypeError, UsageError: as `run`; an invalid option.
      UnsupportedError, MissingRuleError: the program has no derivative in any of the modes.
    """
    how = _how(modes, order, eps, rtol, atol, seed)._replace(max_bytes=max_bytes)
    if is_open(program.jaxpr):
        program = with_types(program, args)
    check_arrays(check_input(program), "gradcheck", sized=True)
    program, args = _with_arguments(load_constants(program), checked_arguments(program, args))
    program, args = without_float0(with_places(transformable(program)), args)
    if not differentiable(program):
        message = "the program has no floating or complex argument and result, and so no derivative"
        fail(UnsupportedError, message, "no-derivative", span=program.jaxpr.span)
    if max_bytes is not None:
        check_memory(program, max_bytes)
    with printing_aside(), streaming(), limited_bytes(max_bytes), limited_steps(step_limit):
        return GradCheck(_derivatives(program, args, how, order))


def _derivatives(
    program: ClosedJaxpr, args: Sequence[Value], how: How, order: int
) -> list[Derivative]:
    """Check the derivatives of a program and, for order 2, the derivatives of these."""
    found = [_checked(program, args, how, 1, None)]
    if all(c.reason for c in found[0].checks):
        derivative_of(program, how.modes[0])  # raises
    for mode in how.modes if order == 2 else ():
        if any(c.mode == mode and not c.reason for c in found[0].checks):
            found.append(_second(program, args, how, mode))
    return found


def _second(program: ClosedJaxpr, args: Sequence[Value], how: How, mode: str) -> Derivative:
    """Check the derivatives of a derivative.

    The derivative is made of a copy, so that it is freed afterwards.
    """
    # of a copy, since the derivative is memoised with its program
    made = derivative_of(copied(program), mode)
    return _checked(made, [*args, *directions_of(program, args, mode, how)], how, 2, mode)


def _how(
    modes: Sequence[str],
    order: int,
    eps: float | None,
    rtol: float | None,
    atol: float | None,
    seed: int,
) -> How:
    strange = [m for m in modes if m not in MODES]
    if strange or not modes:
        message = f"there is no mode {strange[0]!r}" if strange else "no mode is given"
        fail(UsageError, message, "option", help=f"the modes are {' and '.join(MODES)}")
    if order not in (1, 2):
        fail(UsageError, f"the order is 1 or 2, and not {order}", "option")
    check_not_negative(rtol=rtol, atol=atol, seed=seed)
    if eps is not None and not eps > 0:
        fail(UsageError, f"eps is a positive number, and not {eps}", "option")
    return How(tuple(dict.fromkeys(modes)), eps, rtol, atol, seed=seed, complex=eps is None)


def _with_arguments(program: ClosedJaxpr, args: Sequence[Value]) -> tuple[ClosedJaxpr, list[Value]]:
    """Return the program with values for the constants that it does not hold, and the values of its arguments."""
    given = iter(args)
    consts = [next(given) if c is None else c for c in program.consts]
    return program.replace(consts=consts), [*given]


def _checked(
    program: ClosedJaxpr, args: Sequence[Value], how: How, order: int, of: str | None
) -> Derivative:
    """Check one program, and its equations where it does not agree."""
    checks = check_point(program, args, how)
    equations: list[Finding] = []
    explained = ""
    if any(c.status not in ("agrees", "unavailable") for c in checks):

        def evaluate(observer: Any) -> Any:
            return run(program, args, observer=observer, max_bytes=how.max_bytes)

        alone = how._replace(directions=2, complex=False)
        known: Known = {}
        equations = find_equations(evaluate, alone, known=known)
        differs = any(c.wrong for c in checks)
        found = {f.kind for f in equations}
        if not found & {"kink", "stopped", "promise", "quantile", "wrong"}:
            for check in checks:
                check.clear_doubted()
        if differs and "wrong" not in found:
            more = find_equations(evaluate, alone, every=True, known=known)
            # a fault inside a loop may be invisible outside
            if not any(f.kind == "wrong" for f in more):
                more = find_inside(evaluate, alone, known)
            equations = more if any(f.kind == "wrong" for f in more) else equations
            explained = _explained(program, args, how, checks, equations)
            for check in checks:
                check.explained = explained
        no_news = {"symmetric", "solution"} - {explained}
        equations = [f for f in equations if f.kind not in no_news]
    names = [v.name for v in program.jaxpr.in_binders]
    labels = argument_labels(names, program.interface)
    results = result_labels(len(program.out_avals), program.interface)
    return Derivative(order, of, checks, equations, explained != "", labels, results)


def _explained(
    program: ClosedJaxpr,
    args: Sequence[Value],
    how: How,
    checks: Sequence[Check],
    equations: Sequence[Finding],
) -> str:
    """Return why derivatives differ from differences though all rules are right, as the kind of a
    note; "" for no explanation.

    Reasons are: indices break a promise of an equation; an equation has a kink, stops the
    derivative, or draws; a step changes a decision of the program (a kink too); or a rule is for
    symmetric matrices, and they agree as long as such arguments stay symmetric. Except for broken
    promises, the two modes still have to agree with each other.
    """
    kinds = {f.kind for f in equations}
    if "promise" in kinds:
        return "promise"
    if any(c.wrong for c in checks if c.mode in ("fwd=rev", "value")):
        return ""
    for kind in ("stopped", "quantile", "kink"):
        if kind in kinds:
            return kind
    if "symmetric" in kinds:
        again = check_point(program, args, how._replace(symmetric=True))
        if not any(c.wrong for c in again):
            return "symmetric"
    return "kink" if decides(program, args, how) else ""


def gradcheck_words(
    program: ClosedJaxpr, words: Sequence[str], max_bytes: int | None = None, **how: Any
) -> GradCheck:
    """Call `gradcheck` on values that are given as words (see `driver.words.values`); random
    indices are within bounds.
    """
    check_arrays(check_input(program), "gradcheck", sized=True)
    binders, interface = open_binders(program), of_open(program)
    below = bounds_of(program)
    args = arguments(binders, words, interface=interface, max_bytes=max_bytes, below=below)
    return gradcheck(program, args, max_bytes=max_bytes, **how)
