"""Options of `reduce`: the failure that has to remain, and the search."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import click

from jaxprtool.analyses.reduction.candidate import Size, first_candidate
from jaxprtool.cli.main import cli
from jaxprtool.cli.options.param_types import Number
from jaxprtool.cli.session import Session
from jaxprtool.driver import reduce as driver
from jaxprtool.driver.reducing.external_interest import External, crash_words
from jaxprtool.driver.reducing.interest import CheckError, Interest
from jaxprtool.driver.reducing.small import ARGS_MARK
from jaxprtool.driver.reducing.texts import CheckedText, ReducedText, TextRescue, reduce_text
from jaxprtool.driver.storage.files import chosen, split_selector, the_one
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import JaxprParseError, JaxprToolError, ScopeError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["Begun", "begun", "or_document", "reduce_options", "reduced", "verb_words"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def _test_option(name: str, **rest: Any) -> Callable[[F], F]:
    """Return an option whose value is collected in the parameter `test`, a dict."""

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
        "--time",
        "seconds",
        type=Number(0),
        metavar="LIMIT",
        help="Stop after so many seconds, also while a test runs.",
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
    """Add all options; the command gets those that define the failure as a dict, `test`."""
    for option in reversed(_OPTIONS):
        f = option(f)
    return f


def verb_words(crash: str | None, has_args: bool) -> tuple[list[str] | None, bool]:
    """Return the words of `--crash`, with the file and the arguments, and whether the test needs
    values.

    Raises:
      UsageError: they do not begin with a verb.
    """
    if crash is None:
        return None, True
    words = crash_words(crash)
    command = cli.get_command(click.Context(cli), words[0])
    if command is None:
        fail(UsageError, f"--crash {crash!r}: no verb", "option", help="--crash compile")
    takes = any(p.name == "args" for p in command.params)
    if takes and not any(ARGS_MARK in w for w in words):
        words += ["--args", ARGS_MARK]
    needs = any(ARGS_MARK in w for w in words)
    return words, needs or has_args


class Begun(NamedTuple):
    """The start of a reduction.

    Attributes:
      program: the program, whose equations have places.
      text: the reduction of the text of FILE, if that is not a program; otherwise None.
      size: the size of the whole program, if `program` is a part of it; otherwise None.
    """

    program: ClosedJaxpr
    text: ReducedText | None = None
    size: Size | None = None

    def whole(self, found: driver.Reduction) -> driver.Reduction:
        """Return a reduction that includes the reduction of the text before it."""
        if self.text is None or self.size is None:
            return found
        tests, seconds = found.tests + self.text.tests, found.seconds + self.text.seconds
        ladder = [("text", found.before), *found.ladder]
        return replace(found, before=self.size, ladder=ladder, tests=tests, seconds=seconds)


def begun(
    session: Session, file: str, interest: Interest, settings: driver.How
) -> Begun | ReducedText:
    """Return the program of FILE; if its text is not a program, reduce the text first.

    The reduced text is the result if it is not a program either, or if a command is the test. Other
    tests are for programs.

    Raises:
      NotInteresting, UsageError: as `reduce_text`.
      JaxprToolError: the text is no program, and no command finds it interesting.
    """
    results = driver.files_of_results(settings.output, settings.keep_good)
    if is_function(file) or not isinstance(interest, (CheckError, External)):
        program = session.placed(file)
        session.spare_inputs(*results)
        return Begun(program)
    path, selector = split_selector(file)
    text, name = session.read(path)
    session.spare_inputs(*results)

    def load(text: str) -> dict[str, ClosedJaxpr]:
        return session.load(text, name, selector)

    size = None
    try:
        return Begun(the_one(load(text), name))
    except (JaxprParseError, ScopeError) as e:
        if isinstance(interest, External):
            return _by_command(session, text, interest, settings, e)
        if isinstance(e, ScopeError):
            size = first_candidate(the_one(chosen(e.programs, name, selector), name), None).size
    session.rescue = rescue = TextRescue(settings.output)
    found = reduce_text(text, CheckedText(interest.code, load), settings, rescue)
    try:
        return Begun(the_one(load(found.text), name), found, size)
    except (JaxprParseError, ScopeError):
        return found


def _by_command(
    session: Session, text: str, interest: External, settings: driver.How, why: JaxprToolError
) -> ReducedText:
    """Reduce a text that is not a program by a command as the test.

    Raises `why`, the error that says why it is not a program, if the command does not find it
    interesting.
    """
    session.rescue = rescue = TextRescue(settings.output)
    try:
        return reduce_text(text, interest, settings, rescue)
    except driver.NotInteresting:
        raise why from None


def reduced(
    session: Session, given: Begun, args: Sequence[str], interest: Interest, settings: driver.How
) -> driver.Reduction:
    """Return the reduction of a program that fails; `args` are words for its arguments."""
    program, values = given.program, None
    if interest.needs_values:
        interface = of_open(program)
        values = arguments(
            open_binders(program), args, interface=interface, max_bytes=settings.max_bytes
        )
    rescue = driver.Rescue(settings.output or "-", interest, settings.scrub)
    session.rescue = rescue
    return given.whole(driver.reduce(program, values, interest, replace(settings, rescue=rescue)))


def or_document(session: Session, as_json: bool, f: Callable[..., R], *given: Any) -> R:
    """Return f(*given); with --json, print a document if there is nothing to reduce."""
    try:
        return f(*given)
    except driver.NotInteresting as e:
        if as_json:
            reason = e.diagnostics[0].message
            session.echo_lines([json.dumps({"schema": 1, "failure": None, "reason": reason})])
        raise
