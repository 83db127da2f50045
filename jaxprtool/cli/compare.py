"""jaxprtool compare."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.compare import runs_options, tolerance_options
from jaxprtool.cli.session import Session
from jaxprtool.driver import compare as driver


@options.verb("compare")
@click.argument("a")
@click.argument("b", default="", metavar="[B]")
@options.args_option
@runs_options
@tolerance_options
@options.json_option
@options.max_bytes_option
@options.step_limit_option
def compare(
    session: Session, a: str, b: str, args: tuple[str, ...], as_json: bool, **how: Any
) -> None:
    """Run A and B, or A on two backends, on the same arguments, and compare the results.

    A table says for each output how many elements differ, by how much at most (absolute, relative,
    in ulps: steps from one float to the next) and where. A NaN equals a NaN, 0.0 equals -0.0 (and
    is noted), integers, booleans and keys are compared exactly. Without a tolerance floats have to
    be equal on one backend, and may differ between two by what rounding explains: eps^(2/3) of the
    type, of the element or of the largest that differs in the array, or 16 times what other
    roundings of the equations change (not against f64, which shows them). --ulp 0 asks for
    equality.

    A or B may also be the values of another run, on another machine for example: a folder of `run
    --save-values`, or a file of `run --digest` (*.jsonl). Then the rows are the results that
    differ, of equations that come from the same line and scopes.

    Exit status: 0 equal, 1 different. JSON: {"schema", "equal", "a", "b" (what is compared),
    "outputs", a list of {"index", "name", "type", "type_b", "size", "n_different", "max_abs",
    "max_rel", "max_ulp", "where", "a", "b" (the elements there), "n_nan" (on one side alone),
    "n_zero_signs", "exact", "judgement", "error_a", "error_b" (of --arbiter, in ulps)}, "first" and
    "first_b" (the place in A and in B, or null), "among" and "among_b" (other places that may be
    meant: of equations that compute the same, or a constant that the other program has), "flips"
    and "flips_b" (of the first result that is no float), "notes", "compared" (how many results)}. A
    place is {"file", "line", "column", "primitive", "path": [{"line", "primitive", "param", "step",
    "branch"}], "source": {"file", "line", "column", "function"}, "names"}, and in a map over a mesh
    "device", {axis: number}, where one device alone has run it.

    \b
    Example:
      jaxprtool compare before.jaxpr after.jaxpr --args random:0
      jaxprtool compare before.jaxpr after.jaxpr --args random:0 --first
      jaxprtool compare a.jaxpr --args random:0 --backends numpy,xla --ulp 4
      jaxprtool compare train.py:loss --like batch --args random:0 \\
        --backends xla,jax
      jaxprtool compare a.jaxpr b.jaxpr --args random:0 --arbiter f64 --json
      jaxprtool compare values a.jaxpr --args random:0 --ulp 1
    """
    found = driver.compare_words(session.placed, a, b, args, **how)
    session.answer(found, as_json=as_json)
    session.exit_code = 0 if found.equal else 1
