"""jaxprtool opt."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import opt as driver
from jaxprtool.passes.pipeline import DEFAULT, Step
from jaxprtool.syntax.print import format_jaxpr


@verb("opt")
@file_argument
@output_option
@click.option("--passes", default=DEFAULT, show_default=True, metavar="PASS,...", help="Which.")
@click.option(
    "--fast-math", is_flag=True, help="Let simplify make changes that are not exact to the bit."
)
@click.option("--until-fixed", is_flag=True, help="Run them again until nothing changes.")
@click.option("--verify-each", is_flag=True, help="Type-check the program after each pass.")
@click.option("--print-after-all", is_flag=True, help="Show the program after each pass.")
@click.option(
    "--time", "timed", is_flag=True, help="Show what each pass did, and how long it took."
)
@click.option("--list", "lists", is_flag=True, help="List the passes with their options and laws.")
def opt(
    session: Session,
    file: str,
    output: str,
    passes: str,
    fast_math: bool,
    until_fixed: bool,
    verify_each: bool,
    print_after_all: bool,
    timed: bool,
    lists: bool,
) -> None:
    """Improve the jaxpr of FILE by passes, one after the other.

    The passes are dce, inline, outline, cse, fold, simplify, unroll, roll, hoist, specialise, cast, remat, discharge, strip,
    lift-consts and sink-consts. A pass has its options behind it: `inline size=8`, `strip source|names`. --list shows them all,
    with the laws that each keeps. `roll` makes scans of loops that were written out turn by turn (the reverse of `unroll`), and
    `outline` calls one function where the same equations stand in several places (the reverse of `inline`). --plugin loads a module with passes of your own (`jaxprtool.define_pass`, `jaxprtool.rewrite_rule`). What
    --print-after-all and --time show goes to standard error.

    \b
    Example:
      jaxprtool grad loss.jaxpr | jaxprtool opt
      jaxprtool opt --passes inline,simplify,cse --until-fixed --time step.jaxpr
      jaxprtool opt --passes 'specialise n=8,fold' serve.jaxpr -o serve8.jaxpr
      jaxprtool opt --passes 'cast f32->bf16 scope=attn,simplify' \\
        train.py:loss --like batch
      jaxprtool opt --passes 'roll turns=8,outline size=10' unrolled.jaxpr
      jaxprtool opt --list
    """
    if lists:
        session.echo_lines([*driver.listed()][:-1])
        return

    def after(step: Step) -> None:
        if timed:
            click.echo(driver.described(step), err=True)
        if print_after_all:
            click.echo(f"# after {step.stage}\n{format_jaxpr(step.after)}", err=True)

    how = {"until_fixed": until_fixed, "verify_each": verify_each, "fast_math": fast_math}
    made = driver.opt(session.program(file), passes, after=after, **how)
    session.write("opt", made, output)
