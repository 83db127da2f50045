"""repro: pack a program, its arguments and a command into one archive, and replay it elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any

from jaxprtool.analyses.answer import Answer
from jaxprtool.driver.bundles.bundle import (
    ARGS,
    MANIFEST,
    PROGRAM,
    README,
    SCRIPT,
    Bundle,
    bundle_bytes,
)
from jaxprtool.driver.bundles.commands import ARGS_VERBS, checked_command, command_words, measures
from jaxprtool.driver.bundles.packing import argument_names, packed_args
from jaxprtool.driver.bundles.readme import readme_of
from jaxprtool.driver.bundles.replaying import (
    TIME_LIMIT,
    Outcome,
    executed,
    happens,
    platform_of_here,
    versions_of_here,
)
from jaxprtool.driver.bundles.scrubbing import scrubbed
from jaxprtool.driver.run import checked_arguments
from jaxprtool.driver.storage.constants import has_references, load_constants
from jaxprtool.driver.storage.files import decode, read_bytes, read_programs, split_selector
from jaxprtool.driver.storage.output import program_text
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.driver.verify import blaming_the_program
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse

__all__ = ["Listing", "Replay", "bundled", "listing", "replayed", "written"]


def bundled(
    text: str,
    name: str,
    words: Sequence[str],
    verb: str,
    options: Sequence[Sequence[str]],
    *,
    values: Sequence[Value] | None = None,
    of_function: bool = False,
    expect: str | None = None,
    scrub: bool = False,
    limit: float = TIME_LIMIT,
    max_bytes: int | None = None,
) -> Bundle:
    """Run a command (`verb`, `options`; see `Bundle`) on a program, and return both as a bundle.

    Args:
      text: the text of the program, with all its constants in it.
      name: its name in messages.
      words: values of its arguments, as for `driver.words.values`.
      values: the values themselves, in the place of words.
      of_function: whether the program was traced here, so that its Python callbacks can be called.
      expect: what the command should write; None: not known, and then taken from JAX, for `run`.
      scrub: whether names and values become neutral ones, as far as the result stays of its kind.
      limit, max_bytes: limits: seconds for the command, and bytes for the arguments.

    Raises:
      UsageError: a command that bundles refuse, wrong arguments, or a function with callbacks.
    """
    checked_command(verb, options, "-- " + verb)
    if values is None:
        values = _values(text, name, words, verb, max_bytes)
    else:
        values = checked_arguments(parse(text, name), values)
    args = _packed(text, name, values)
    outcome = executed(verb, options, text, args, limit)
    _check_kept(name, of_function, outcome)
    kept: Sequence[str] = ()
    if scrub:
        text, values, kept = scrubbed(text, values, verb, options, outcome, limit)
        args = _packed(text, name, values)
        outcome = executed(verb, options, text, args, limit)
    expected, by = expect or "", "given"
    if expect is None:
        expected = _of_jax(text, args, outcome, options, limit) if verb == "run" else ""
        by = "jax" if expected else ""
    bundle = Bundle(
        verb,
        [[*words] for words in options],
        text,
        args,
        versions_of_here(),
        platform_of_here(),
        *outcome,
        expected,
        by,
    )
    script, why = _script(bundle)
    bundle = replace(bundle, script=script, why_no_script=why, kept=kept)
    return replace(bundle, readme=readme_of(bundle, command_of(bundle)))


def _check_kept(name: str, of_function: bool, outcome: Outcome) -> None:
    """Raise UsageError where the functions are missing that a traced function calls back."""
    if of_function and "[no-callback]" in outcome.messages:
        message = f"{name} calls functions of Python, and a bundle holds none"
        fail(UsageError, message, "no-callback", help=_CUT_OUT)


def _values(
    text: str, name: str, words: Sequence[str], verb: str, max_bytes: int | None
) -> Sequence[Value] | None:
    """Return values of the arguments; None for a verb that takes none, or that needs none and is given none."""
    if not words and (verb not in ARGS_VERBS or verb in _WITHOUT_ARGS):
        return None
    if verb not in ARGS_VERBS:
        fail(UsageError, f"{verb} takes no arguments, and --args are given", "option")
    program = parse(text, name)
    binders, interface = open_binders(program), of_open(program)
    return arguments(binders, words, interface=interface, max_bytes=max_bytes)


_CUT_OUT = "`reduce` puts the values that they gave in their place: make a bundle of what it writes"
_WITHOUT_ARGS = ("equiv", "reduce")  # verbs for which values may be missing


def _packed(text: str, name: str, values: Sequence[Value] | None) -> bytes:
    return packed_args(parse(text, name), values) if values else b""


def _of_jax(
    text: str, args: bytes, outcome: Outcome, options: Sequence[Sequence[str]], limit: float
) -> str:
    """Return what `run` should print, by JAX's results; "" where JAX gives none, or ours prints the same."""
    as_json = [["--json"]] if ["--json"] in [[*words] for words in options] else []
    theirs = executed("run", [["--through", "jax"], *as_json], text, args, limit)
    same = theirs.status != 0 or happens(theirs._replace(messages=outcome.messages), outcome)
    return "" if same else theirs.output


def _script(bundle: Bundle) -> tuple[str, str]:
    """Return a plain JAX script for a bundle, or why there is none."""
    try:
        program = load_constants(parse(bundle.program, PROGRAM))
        from jaxprtool.backends.jax.script import script_of  # noqa: PLC0415 (gateway: JAX)

        names = argument_names(program)
        if len(names) != len(program.in_avals):
            return "", "the program has constants without values"
        title = f"What `jaxprtool {bundle.verb}` is asked about, in plain JAX."
        with blaming_the_program(program):
            return script_of(program, ARGS if bundle.args else "", names, bundle.verb, title), ""
    except JaxprToolError as e:
        return "", e.diagnostics[0].message
    except ImportError as e:
        return "", str(e)


def command_of(bundle: Bundle) -> str:
    """Return the command of a bundle, as it is typed beside the files of the archive."""
    args = ARGS if bundle.args else None
    return shlex.join(["jaxprtool", *command_words(bundle.verb, bundle.options, PROGRAM, args)])


def text_of(
    read: Callable[[str], ClosedJaxpr],
    file: str,
    open: Callable[[str], tuple[bytes, str]] = read_bytes,
) -> str:
    """Return the text of a program with all its constants: the text of a file as it is, where it holds them.

    Args:
      read: returns the program that a name means.
      file: a file, `FILE#NAME` or a function.
      open: returns the bytes of a file, and its name.
    """
    if not is_function(file) and not split_selector(file)[1]:
        data, name = open(file)
        text = decode(data, name)
        try:
            programs = read_programs(text, name)
        except JaxprToolError:  # the bundle may be about this very error
            return text
        if not any(map(has_references, programs.values())):
            return text
    return program_text({"": read(file)})


def refuse_for_replay(
    output: str | None, args: Sequence[str], *, expect: str | None, scrub: bool
) -> None:
    """Raise UsageError for options that are only for making an archive."""
    named = {"-o": output, "--expect": expect, "--scrub": scrub or None, "--args": args or None}
    given = [name for name, value in named.items() if value is not None]
    if given:
        message = f"{' and '.join(given)} {'are' if len(given) > 1 else 'is'} for a command, and none is given"
        fail(UsageError, message, "usage", help="jaxprtool repro FILE -o bug.zip -- run --jit")


@dataclass(frozen=True)
class Listing(Answer):
    """A list of the contents of a bundle.

    Attributes:
      bundle: the bundle.
      names: the names of the arguments, with their types.
      sources: the Python files that the program names.
      file: where it is written; "" where it is not.
    """

    bundle: Bundle
    names: Sequence[str]
    sources: Sequence[str]
    file: str = ""

    @property
    def why_no_script(self) -> str:
        """Why there is no plain JAX script."""
        return self.bundle.why_no_script

    @property
    def kept(self) -> Sequence[str]:
        """Names of arguments that still hold values of the original, although they were to be scrubbed."""
        return self.bundle.kept

    def lines(self) -> Sequence[str]:
        bundle, members = self.bundle, self.bundle.members()
        holds = {
            README: "what this is, for people",
            MANIFEST: f"command, result, versions, {', '.join(bundle.platform)}",
            PROGRAM: f"the program, {len(members[PROGRAM]):,} bytes",
            ARGS: f"values: {', '.join(self.names)}",
            SCRIPT: "the program in plain JAX",
        }
        width = max(map(len, members))
        found = [f"{name:{width}}  {holds[name]}" for name in members]
        if self.sources:
            found.append(f"The program names files of Python: {', '.join(self.sources)}")
        if SCRIPT not in members:
            found.append(f"There is no {SCRIPT}: {self.why_no_script}")
        if self.kept:
            found.append(f"These values are still the original's: {', '.join(self.kept)}")
        return [*found, f"{command_of(bundle)}: {status_words(bundle.status)}"]

    def json(self) -> dict[str, Any]:
        bundle = self.bundle
        return {
            "schema": 1,
            "members": {name: len(data) for name, data in bundle.members().items()},
            "command": command_of(bundle),
            "status": bundle.status,
            "expected_by": bundle.expected_by or None,
            "values": [*self.names],
            "sources": [*self.sources],
            "kept": [*self.kept],
            "versions": dict(bundle.versions),
            "platform": dict(bundle.platform),
            "file": self.file or None,
        }


def listing(bundle: Bundle, file: str = "") -> Listing:
    """List the contents of a bundle, for somebody who is about to share it."""
    try:
        program = parse(bundle.program, PROGRAM)
    except JaxprToolError:
        return Listing(bundle, (), (), file)
    pairs = zip(argument_names(program), open_binders(program), strict=True)
    names = [f"{name}:{v.aval}" for name, v in pairs] if bundle.args else []
    return Listing(bundle, names, _sources(program), file)


def _sources(program: ClosedJaxpr) -> list[str]:
    """The files of Python in the origins of equations."""
    frames = [e.origin.frame for e in all_eqns(program.jaxpr) if e.origin is not None]
    return sorted({f.file for f in frames if f is not None})


def written(bundle: Bundle, path: str) -> None:
    """Write the archive of a bundle."""
    write_output(path, bundle_bytes(bundle))


@dataclass(frozen=True)
class Replay(Answer):
    """Whether a bundle's command still ends as it did.

    Attributes:
      bundle: the bundle.
      now: how its command ended.
      happens: whether that is how it ended before.
      versions, platform: what differs, as (then, now).
    """

    bundle: Bundle
    now: Outcome
    happens: bool
    versions: Mapping[str, tuple[str, str]]
    platform: Mapping[str, tuple[str, str]]

    def lines(self) -> Sequence[str]:
        then = Outcome(self.bundle.status, self.bundle.output, self.bundle.messages)
        word = "still happens" if self.happens else "does not happen here"
        found = [f"{word}: {command_of(self.bundle)}", f"  then: {status_words(then.status)}"]
        found.append(f"  now:  {status_words(self.now.status)}")
        if not self.happens:
            for what, a, b in (
                ("output", then.output, self.now.output),
                ("messages", then.messages, self.now.messages),
            ):
                found += _difference(what, a, b)
        changed = {**self.versions, **self.platform}
        found += [
            f"  {name}: {a or 'none'} then, {b or 'none'} now" for name, (a, b) in changed.items()
        ]
        if not changed:
            found.append("  the versions and the machine are the same")
        return found

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "happens": self.happens,
            "command": command_of(self.bundle),
            "then": {
                "status": self.bundle.status,
                "output": self.bundle.output,
                "messages": self.bundle.messages,
            },
            "now": self.now._asdict(),
            "expected": self.bundle.expected or None,
            "versions": {k: [*v] for k, v in self.versions.items()},
            "platform": {k: [*v] for k, v in self.platform.items()},
        }


_MOST_LINES = 20


def _difference(what: str, a: str, b: str) -> list[str]:
    lines = [
        *unified_diff(
            a.splitlines(), b.splitlines(), f"{what} then", f"{what} now", n=1, lineterm=""
        )
    ]
    left = len(lines) - _MOST_LINES
    more = [f"... {counted(left, 'more line')}"] if left > 0 else []
    return [f"  {line}" for line in [*lines[:_MOST_LINES], *more]]


def status_words(status: int | None) -> str:
    """How a process ended, in words."""
    if status is None:
        return "its time was up"
    return f"signal {-status}" if status < 0 else f"status {status}"


def replayed(bundle: Bundle, limit: float = TIME_LIMIT) -> Replay:
    """Run the command of a bundle again, in a temporary folder."""
    now = executed(bundle.verb, bundle.options, bundle.program, bundle.args, limit)
    then = Outcome(bundle.status, bundle.output, bundle.messages)
    return Replay(
        bundle,
        now,
        happens(then, now, measured=measures(bundle.verb, bundle.options)),
        _changed(bundle.versions, versions_of_here()),
        _changed(bundle.platform, platform_of_here()),
    )


def _changed(then: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    names = sorted({*then, *now})
    return {k: (then.get(k, ""), now.get(k, "")) for k in names if then.get(k) != now.get(k)}
