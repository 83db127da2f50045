"""Options of `reduce`: what has to stay true, and how it is searched."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.cli.main import cli
from jaxprtool.cli.session import Session
from jaxprtool.driver import reduce as driver
from jaxprtool.driver.reducing.small import ARGS_MARK
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["reduce_options", "reduced", "verb_words"]

F = TypeVar("F", bound=Callable[..., Any])


def _test_option(name: str, **rest: Any) -> Callable[[F], F]:
    """An option whose value goes into the dict `test`."""

    def collect(ctx: click.Context, _param: Any, value: Any) -> None:
        ctx.params.setdefault("test", {})[name] = value

    spelled = f"--{name.replace('_', '-')}"
    return click.option(spelled, name, callback=collect, expose_value=False, **rest)


_OPTIONS: list[Callable[[Any], Any]] = [
    _test_option(
        "test",
        metavar="'CMD {}'",
        help="Test by a command: EXIT STATUS 0 = STILL INTERESTING. {} is the file, {args} its arguments.",
    ),
    _test_option(
        "nan", is_flag=True, help="A result has a NaN, which begins in the same equation."
    ),
    _test_option("inf", is_flag=True, help="Likewise an infinity."),
    _test_option(
        "differs",
        metavar="A,B",
        help="The results of two backends differ: two of numpy, xla, jax, f64.",
    ),
    click.option(
        "--crash",
        metavar="VERB",
        help="A verb, with its options, fails with the same code and message, or by the same signal.",
    ),
    _test_option("check_error", metavar="CODE", help="check reports the same error of this code."),
    _test_option(
        "slow", type=float, metavar="SECONDS", help="A run on NumPy takes so many seconds or more."
    ),
    _test_option(
        "rtol",
        type=float,
        metavar="X",
        help="For --differs: |a - b| > ATOL + RTOL * max(|a|, |b|) differ; by default what rounding does not explain, as in "
        "`compare`.",
    ),
    _test_option("atol", type=float, metavar="X", help="For --differs."),
    _test_option(
        "ulp",
        type=float,
        metavar="X",
        help="For --differs: floats with more than so many steps from float to float between them differ.",
    ),
    _test_option(
        "fail_regex",
        metavar="REGEX",
        help="What the output of --test or --crash has to hold; of the latter, instead of the same message.",
    ),
    click.option(
        "--mode",
        type=click.Choice(["bisect", "linear", "both"]),
        default="both",
        show_default=True,
        help="How equations are removed: in halves, quarters and so on, one by one, or both.",
    ),
    click.option(
        "--time", "seconds", type=float, metavar="LIMIT", help="Stop after so many seconds."
    ),
    click.option(
        "-j",
        "jobs",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Run so many commands at once; the result is the same.",
    ),
    click.option(
        "--keep-good", metavar="FILE", help="Write the largest candidate that does not fail here."
    ),
    click.option(
        "--scrub",
        is_flag=True,
        help="Replace names and values by neutral ones, so that the result can be shared.",
    ),
]


def reduce_options(f: F) -> F:
    """All of them; `test` is a dict of those that say what has to stay true."""
    for option in reversed(_OPTIONS):
        f = option(f)
    return f


def verb_words(crash: str | None, has_args: bool) -> tuple[list[str] | None, bool]:
    """The words of `--crash` with the file and the arguments in them, and whether the test needs values.

    Raises:
      UsageError: they do not begin with a verb.
    """
    if crash is None:
        return None, True
    try:
        words = shlex.split(crash)
    except ValueError as e:
        fail(UsageError, f"--crash {crash!r}: {str(e).lower()}", "option")
    command = cli.get_command(click.Context(cli), words[0]) if words else None
    if command is None:
        fail(UsageError, f"--crash {crash!r}: no verb", "option", help="--crash compile")
    if not any("{}" in w for w in words):
        words.insert(1, "{}")
    takes = any(p.name == "args" for p in command.params)
    if takes and not any(ARGS_MARK in w for w in words):
        words += ["--args", ARGS_MARK]
    needs = any(ARGS_MARK in w for w in words)
    return words, needs or has_args


def reduced(session: Session, as_json: bool, *given: Any) -> driver.Reduction:
    """What `driver.reduce` gives; in JSON there is a document where there is nothing to reduce, too."""
    try:
        return driver.reduce(*given)
    except driver.NotInteresting as e:
        if as_json:
            reason = e.diagnostics[0].message
            session.echo_lines([json.dumps({"schema": 1, "failure": None, "reason": reason})])
        raise
