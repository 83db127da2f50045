"""Options that verbs share, and the class of commands, which parses `--args`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from jaxprtool import driver
from jaxprtool.cli.options.constants import constants_options
from jaxprtool.cli.options.functions import (
    FUNCTION_OPTIONS,
    FunctionOption,
    check_function_options,
    function_options,
)
from jaxprtool.cli.options.param_types import Positions, Size
from jaxprtool.cli.session import Session
from jaxprtool.core.verification import set_verify, verifying
from jaxprtool.driver.running.machine import default_max_bytes
from jaxprtool.driver.storage.files import STDIN, files_of_values
from jaxprtool.driver.user_code.plugins import load_plugin
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.syntax.releases.source_release import read_as, set_source_release
from jaxprtool.syntax.scanning.long_numbers import MOST_DIGITS, long_number

__all__ = [
    "args_option",
    "check_nans_option",
    "file_argument",
    "json_of",
    "json_option",
    "max_bytes_option",
    "output_option",
    "step_limit_option",
    "verb",
    "wrt_option",
]

F = TypeVar("F", bound=Callable[..., Any])


class _Verb(click.Command):
    """A command in which `--args` takes all words after it that look like values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[: args.index("--")] if "--" in args else args
        ctx.obj.as_json = "--json" in own and any(p.name == "as_json" for p in self.params)
        _refuse_long_numbers(args)
        if any(p.name == "args" for p in self.params):
            args = _gather_words(args)
        # `-#name`, a jaxpr of standard input, would be parsed as an option
        args = [f"{STDIN}{a[1:]}" if a.startswith("-#") else a for a in args]
        self._warn_of_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def _warn_of_repeated(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Warn of an option that is given several times, and of which only the last value
        counts.
        """
        if sum(word.startswith("-") for word in args) < 2:
            return
        order = self.make_parser(ctx).parse_args([*args])[2]
        for p in dict.fromkeys(order):
            takes_one = isinstance(p, click.Option) and not (p.multiple or p.is_flag or p.count)
            if takes_one and order.count(p) > 1:
                message = f"{max(p.opts, key=len)} is given {order.count(p)} times; the last counts"
                ctx.obj.warn(message, "repeated-option")

    def invoke(self, ctx: click.Context) -> Any:
        check_function_options(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, with those for functions in a separate section."""
        groups: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        for p in self.get_params(ctx):
            record = p.get_help_record(ctx)
            if record is not None and isinstance(p, click.Option):
                groups[isinstance(p, FunctionOption)].append(record)
        for functions, title in ((False, "Options"), (True, FUNCTION_OPTIONS)):
            if groups[functions]:
                with formatter.section(title):
                    formatter.write_dl(groups[functions])


def _refuse_long_numbers(words: Sequence[str]) -> None:
    """Raise UsageError for a word with a number that has too many digits for Python to convert."""
    for word in words:
        if long_number(word) is not None:
            message = f"{word[:20]}... holds a number of more than {MOST_DIGITS:,} digits"
            fail(UsageError, message, "bad-value")


def _refuse_unquoted(words: Sequence[str]) -> None:
    """Raise UsageError if the first words are a list that the shell split at spaces: `[1, 2,
    3]`.
    """
    depth = 0
    for i, word in enumerate(words):
        depth += sum(word.count(c) for c in "[(") - sum(word.count(c) for c in "])")
        if depth <= 0:
            if i:
                whole = " ".join(words[: i + 1])
                fail(
                    UsageError,
                    f"--args {words[0]}: the list is cut at its spaces",
                    "bad-value",
                    help=f"quote it: --args '{whole}'",
                )
            return


def _gather_words(args: Sequence[str]) -> list[str]:
    """Return `--args 1 2 f` as `--args=1 --args=2 f`: the first word after --args, and those like
    values.
    """
    out: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word != "--args" or not rest:
            out.append(word)
            continue
        first = True
        while rest and (first or driver.values.is_word(rest[0])):
            _refuse_unquoted(rest)
            out.append(f"--args={rest.pop(0)}")
            first = False
    return out


def _on_plugin(ctx: click.Context, _param: Any, values: tuple[str, ...]) -> None:
    for name in values:
        load_plugin(name)


def _on_verify(ctx: click.Context, _param: Any, value: bool) -> None:
    session: Session = ctx.obj
    session.verify = session.verify or value
    before = set_verify(session.verify or verifying())
    ctx.call_on_close(lambda: set_verify(before))


def _on_from_dialect(ctx: click.Context, _param: Any, value: str) -> None:
    before = set_source_release(read_as(value))
    ctx.call_on_close(lambda: set_source_release(before))


def _on_error_format(ctx: click.Context, _param: Any, value: str) -> None:
    ctx.obj.error_format = value


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--plugin"],
            multiple=True,
            metavar="MODULE",
            expose_value=False,
            is_eager=True,
            callback=_on_plugin,
            help="Module or .py file that declares more primitives; repeatable.",
        ),
        click.Option(
            ["--verify"],
            is_flag=True,
            expose_value=False,
            callback=_on_verify,
            help="Type-check every jaxpr that is produced.",
        ),
        click.Option(
            ["--from-dialect"],
            default="",
            metavar="jax-RELEASE",
            expose_value=False,
            is_eager=True,
            callback=_on_from_dialect,
            help="The release of JAX that printed FILE, jax-0.4.38, where its text does not determine it.",
        ),
        click.Option(
            ["--error-format"],
            type=click.Choice(["text", "json", "github"]),
            default="text",
            show_default=True,
            expose_value=False,
            is_eager=True,
            callback=_on_error_format,
            help="How messages are written: for people, a JSON object a line, or GitHub annotations.",
        ),
    ]


def verb(name: str, *, reads: bool = True) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a function the command of a verb, with the options of all
    verbs.

    reads: whether it reads a program, in whose place a function may be given.
    """

    def decorate(f: Callable[..., Any]) -> click.Command:
        command = click.command(name, cls=_Verb)(click.pass_obj(f))
        command.params += constants_options(name) + _shared_options()
        command.params += function_options() if reads else []
        return command

    return decorate


def file_argument(f: F) -> F:
    """Add the argument FILE (or a function), which is standard input by default."""
    return click.argument("file", default="-", metavar="[FILE]")(f)


output_option = click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT",
    help="Write to this file (whole, or not at all) instead of standard output.",
)


def _on_args(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    del param
    ctx.obj.values = files_of_values(words)
    return words


args_option = click.option(
    "--args",
    "args",
    multiple=True,
    callback=_on_args,
    metavar="VALUE...",
    help="Values of the arguments, one or more words: 3.0, [[1,2],[3,4]], x.npy, inputs.npz, "
    "random:SEED, zeros, ones, ramp. One of the last four as the last word gives all arguments left. "
    "By name: a=1 b=x.npy; other words are for those not named. Trees of them: params={w:x.npy,b:zeros}, "
    '{"params": {...}, "x": [1,2]}, params.w=ones. Of a PRNG key: its seed, or its words.',
)

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document, whose keys are above; where there is no answer, "
    '{"error": {"code", "message", "file", "line", "column", ...}, "errors", "schema"}.',
)


def json_of(keys: str) -> Callable[[F], F]:
    """Return `--json` for a verb whose document is described in the help of this option."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {keys}.")


step_limit_option = click.option(
    "--step-limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Stop a loop that would take more steps than this. Steps are counted on NumPy; a program that is compiled runs "
    "there first where it is not known how often its loops turn, and is refused where that would repeat its effects.",
)

check_nans_option = click.option(
    "--check-nans",
    is_flag=True,
    help="On NumPy, stop at the first equation that makes a NaN, with exit status 1 (a literal NaN counts where a result "
    "has it); --json prints "
    '{"outs": null, "nan": its place, as `blame` has it, "schema"}.',
)

max_bytes_option = click.option(
    "--max-bytes",
    type=Size(),
    default=default_max_bytes,
    show_default="3/4 of the memory",
    metavar="N",
    help="Refuse programs that need more memory than this: 1000000, 512M, 2G.",
)


def wrt_option(what: str) -> Callable[[F], F]:
    """Return the option `--wrt`, as in `--wrt 0,2`."""
    help = f"{what} Positions of arrays, ranges (0-3), names (w1,b1; params, params.w)."
    return click.option("--wrt", type=Positions(), metavar="I,J", help=help)
