"""The group of commands, and what is common to all of them: a deep stack, messages, the exit
status.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence

import click

import jaxprtool
from jaxprtool.cli import report
from jaxprtool.cli.session import Session
from jaxprtool.core.stack import run_deep
from jaxprtool.driver.storage.writing import remove_temporaries, removing_temporaries
from jaxprtool.driver.words.examples import offer_examples
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolWarning, UsageError
from jaxprtool.ir.synonyms import VERBS as SYNONYMS
from jaxprtool.ir.synonyms import close_names, meant

__all__ = ["VERBS", "cli", "main", "run_verb"]

# verb -> (the place of its command, its line in the list of verbs)
VERBS: dict[str, tuple[str, str]] = {
    "check": ("jaxprtool.cli.check:check", "Type-check a jaxpr; report all errors."),
    "fmt": ("jaxprtool.cli.fmt:fmt", "Reformat a file, or check its format."),
    "upgrade": (
        "jaxprtool.cli.upgrade:upgrade",
        "Write an earlier release's text as the current one does.",
    ),
    "blame": (
        "jaxprtool.cli.blame:blame",
        "Find the equation that first makes a NaN or an infinity.",
    ),
    "run": ("jaxprtool.cli.run:run", "Evaluate a jaxpr on NumPy, or with XLA."),
    "jvp": ("jaxprtool.cli.jvp:jvp", "Forward-mode derivative: value and tangent."),
    "vmap": ("jaxprtool.cli.vmap:vmap", "Vectorise over a batch axis."),
    "partial-eval": (
        "jaxprtool.cli.partial_eval:partial_eval",
        "Split by which arguments are known.",
    ),
    "linearize": ("jaxprtool.cli.linearize:linearize", "Split the derivative from the value."),
    "transpose": ("jaxprtool.cli.transpose:transpose", "Transpose what is linear."),
    "vjp": ("jaxprtool.cli.vjp:vjp", "Reverse-mode derivative: value and pullback."),
    "grad": ("jaxprtool.cli.grad:grad", "Gradient of a scalar result."),
    "discharge": ("jaxprtool.cli.discharge:discharge", "Remove references: the pure form."),
    "lower": ("jaxprtool.cli.lower:lower", "Lower to StableHLO text."),
    "compile": ("jaxprtool.cli.compile:compile", "Compile with XLA: HLO, cost and memory."),
    "trace": ("jaxprtool.cli.trace:trace", "Record a Python function as a jaxpr."),
    "stats": ("jaxprtool.cli.stats:stats", "Count what a jaxpr consists of, and how it grows."),
    "bench": (
        "jaxprtool.cli.bench:bench",
        "Measure how long a jaxpr takes, from trace to steady call.",
    ),
    "profile": ("jaxprtool.cli.profile:profile", "Where the time goes, equation by equation."),
    "cost": ("jaxprtool.cli.cost:cost", "What a jaxpr costs: operations, bytes, memory."),
    "residuals": ("jaxprtool.cli.residuals:residuals", "What a reverse pass keeps."),
    "equiv": ("jaxprtool.cli.equiv:equiv", "Decide whether two jaxprs compute the same."),
    "gradcheck": (
        "jaxprtool.cli.gradcheck:gradcheck",
        "Check derivatives against finite differences.",
    ),
    "precision": ("jaxprtool.cli.precision:precision", "Rounding errors, equation by equation."),
    "diff": ("jaxprtool.cli.diff:diff", "Compare two jaxprs up to names and layout."),
    "compare": (
        "jaxprtool.cli.compare:compare",
        "Compare the results of two jaxprs, or of two backends.",
    ),
    "reduce": ("jaxprtool.cli.reduce:reduce", "Make a failing program small."),
    "assert": ("jaxprtool.cli.assert_:assert_", "Check expressions about a jaxpr."),
    "grep": ("jaxprtool.cli.grep:grep", "Print the equations that match a pattern."),
    "hash": ("jaxprtool.cli.hash:hash", "Print a hash of what a jaxpr computes."),
    "triage": ("jaxprtool.cli.triage:triage", "Tell a changed program from a changed compiler."),
    "retraces": ("jaxprtool.cli.retraces:retraces", "Say why JAX traced again, from a run's log."),
    "snapshot": (
        "jaxprtool.cli.snapshot:snapshot",
        "Keep programs of a project as files; say what changed.",
    ),
    "git-setup": (
        "jaxprtool.cli.git_setup:git_setup",
        "Let git compare and merge jaxprs as programs.",
    ),
    "opt": ("jaxprtool.cli.opt:opt", "Improve a jaxpr by passes: cse, fold, inline, ..."),
    "lint": ("jaxprtool.cli.lint:lint", "Find likely mistakes in well-typed programs."),
    "explain": ("jaxprtool.cli.explain:explain", "Describe a lint rule, or a code of a message."),
    "repro": ("jaxprtool.cli.repro:repro", "Put a failing command in an archive, or replay it."),
    "fuzz": ("jaxprtool.cli.fuzz:fuzz", "Draw random programs; find what differs on them."),
}


class _Verbs(click.Group):
    """A group that imports a verb's module only when that verb runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            near = [meant(args[0], SYNONYMS), *close_names(args[0], VERBS)]
            found = next(filter(None, near), "")
            hint = f", did you mean {found}?" if found else f"; the verbs are {', '.join(VERBS)}"
            raise click.UsageError(f"there is no verb {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(jaxprtool.__version__, prog_name="jaxprtool")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Read, check, run, transform and compile jaxprs, JAX's intermediate representation.

    A verb reads a FILE, or standard input when there is none (or it is -), and writes to standard output, so verbs
    pipe into each other. FILE#NAME picks one jaxpr of a file that holds several. A function, file.py:name or
    module:name, may take the place of a FILE; it is traced first.

    \b
    Example:
      jaxprtool trace mlp.py:loss --shape 'f32[3,4]' --shape 'f32[4]' \\
        | jaxprtool grad - | jaxprtool run - --args random:0
      jaxprtool check train.py:loss --like example_args

    \b
    Exit status:
      0    yes: done, well-typed, equal, clean
      1    the answer is no: ill-typed, different, would be reformatted
      2    it cannot be done as asked: bad usage, input that cannot be
           read, a program that the verb is not for, a missing rule,
           a limit
      3    a bug of jaxprtool
      130  interrupted
      141  the reader of standard output has closed it
    """
    if ctx.obj is None:
        ctx.obj = Session()
    offer_examples(())  # those of an earlier verb in this process are not this one's
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def run_verb(argv: Sequence[str], session: Session) -> int:
    """Run one command line in this thread; messages go to standard error.

    Returns:
      The exit status.
    """
    output, session.stderr = sys.stdout, sys.stderr
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=JaxprToolWarning)
            warnings.showwarning = session.show_warning
            status = cli.main(list(argv), prog_name="jaxprtool", standalone_mode=False, obj=session)
    except SystemExit as e:
        if sys.stdout is not output:  # click replaces it after a broken pipe: the reader is gone
            return report.broken_pipe()
        return report.report(_exited(e), session, argv)
    except BaseException as e:  # outermost: every exception has to become a message
        return report.report(e, session, argv)
    return status if isinstance(status, int) else session.exit_code


def _exited(error: SystemExit) -> UsageError:
    """Return the error for user code, such as a callback, that calls `sys.exit`."""
    message = f"code that the program calls ended the process with sys.exit({error.code!r})"
    return UsageError(Diagnostic(message, "user-exception"))


def _occupy_descriptors() -> None:
    """Open file descriptors 0 to 2 if they are closed, so that a file opened later does not get one
    of them.
    """
    handle = os.open(os.devnull, os.O_RDWR)
    while handle <= 2:
        handle = os.open(os.devnull, os.O_RDWR)
    os.close(handle)


def main(argv: Sequence[str] | None = None) -> None:
    """The entry point: run the command and exit with its status."""
    argv = sys.argv[1:] if argv is None else argv
    session = Session(error_format=report.format_from(argv))
    _occupy_descriptors()
    with removing_temporaries(session.end):
        try:
            status = run_deep(run_verb, argv, session)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (KeyboardInterrupt, OSError) as e:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rest takes no time
            status = report.report(e, session, argv)
            remove_temporaries()
    if sys.stderr is not None:
        sys.stderr.flush()
    # Exit without `sys.exit`, which would deallocate modules and programs: with it a small verb
    # takes 15 % to 40 % longer (`python -m tests.bench --only calls`).
    os._exit(status)
