"""jaxprtool gradcheck."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.session import Session
from jaxprtool.driver import gradcheck as driver


@options.verb("gradcheck")
@options.file_argument
@options.args_option
@click.option(
    "--modes",
    default="fwd,rev",
    show_default=True,
    metavar="M,N",
    help="Modes to check: fwd (jvp), rev (vjp).",
)
@click.option(
    "--order", type=int, default=1, show_default=True, help="2: derivatives of derivatives too."
)
@click.option("--eps", type=float, metavar="H", help="The step, relative to an argument's size.")
@click.option("--rtol", type=float, metavar="R", help="Relative difference that is allowed.")
@click.option("--atol", type=float, metavar="A", help="Absolute difference that is allowed.")
@click.option("--seed", type=int, default=0, help="Of the random directions.")
@options.max_bytes_option
@options.step_limit_option
@options.json_option
def gradcheck(
    session: Session, file: str, args: tuple[str, ...], modes: str, as_json: bool, **how: Any
) -> None:
    """Check the derivatives of FILE at --args against finite differences, and forward mode against reverse.

    Central differences of several steps are extrapolated on NumPy in the program's own types; their
    estimated error is allowed in addition to --rtol and --atol. Where all operations take complex
    numbers, steps in the imaginary direction, which have no cancellation, are taken instead, as
    long as they fit the differences. Programs of up to 24 elements are checked element by element,
    others along random directions. Where derivatives differ, each equation is checked at its own
    values, those inside of loops, branches and calls too, and the equations whose rules disagree
    are named. Kinks (max at a tie, abs at 0) and what stops derivatives (stop_gradient, round) are
    reported, and are no failure; so are indices that break the promise of an equation (out of
    bounds, or repeated), and rules that assume that a symmetric matrix stays symmetric (cholesky).
    Random integers that are indices are within bounds. Status 1 when a derivative is wrong.

    JSON: {"schema", "passed", "derivatives": [{"order", "of", "passed", "modes": [{"mode", "status", "compared", "max_abs",
    "max_rel", "kinks", "unsure", "reason", "steps"}], "mismatches", "notes"}], "blame": [{"kind", "place", "mode", "output",
    "index", "argument", "argument_index", "derivative", "difference", "tolerance"}]}; mismatches have the keys of blame but
    kind and place, notes have kind kink, stopped, promise, quantile, symmetric or unsure. Modes are fwd, rev, fwd=rev (one against the other) and value
    (the result that a rule computes); a status is agrees, differs, unsure, unavailable, or, where something else than a rule explains
    a difference, kink, stopped, promise, quantile or symmetric; steps are complex or real.

    \b
    Example:
      jaxprtool gradcheck loss.jaxpr --args random:0
      jaxprtool gradcheck --modes rev --order 2 loss.jaxpr --args random:0
      jaxprtool gradcheck --json train.py:loss --like example_args --args random:0
    """
    words = [m for m in modes.replace(" ", "").split(",") if m]
    found = driver.gradcheck_words(session.placed(file), args, modes=words, **how)
    session.answer(found, as_json=as_json)
    session.exit_code = 0 if found.passed else 1
