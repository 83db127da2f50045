"""The session of one command: the values of common options, and the steps that all verbs share."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

import click

from jaxprtool import driver
from jaxprtool.cli.render import colored, render
from jaxprtool.driver.places import with_places
from jaxprtool.driver.storage.constants import with_consts
from jaxprtool.driver.storage.files import (
    decode,
    load,
    read_bytes,
    split_selector,
    the_one,
)
from jaxprtool.driver.storage.output import INLINE, program_text, write_programs
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.interpreters.origins import without_origins
from jaxprtool.ir.diagnostics import Diagnostic, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.printable import printable
from jaxprtool.syntax.inference.open_programs import is_open

if TYPE_CHECKING:
    from jaxprtool.analyses.answer import Answer

__all__ = ["Session", "standard_output"]

Programs = dict[str, ClosedJaxpr]

_TRACING: dict[str, Any] = {"shapes": (), "source_root": "."}


@dataclass
class Session:
    """One run of the command line.

    Attributes:
      error_format: `text`, `json` or `github`.
      verify: whether results are type-checked.
      exit_code: the exit status of the verb if no error is raised.
      inputs: name -> text of the files read so far; the report of a bug saves them.
      opened: the names of the program files read so far.
      values: the files of values that `--args` names.
      tracing: options for functions given in place of files, in the form of `driver.trace`.
      functions: whether a function is given in place of at least one file.
      consts: the value of `--consts`: an `.npz` file, `inline`, or "".
      allowed: folders, besides its own, from which a program may read constants.
      as_json: whether the answer is one JSON document; then errors are one, too.
      printed: whether anything was written to standard output yet.
      rescue: a function to call before the process ends because of an interrupt. It writes what
        was found so far, and says where.
      interrupted: whether the verb was interrupted.
      stderr: standard error at the start of the verb, None before. It is used at the end, when a
        thread that still runs may have replaced `sys.stderr`.
    """

    error_format: str = "text"
    verify: bool = False
    exit_code: int = 0
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    opened: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])
    warned: set[str] = field(default_factory=set[str])
    tracing: dict[str, Any] = field(default_factory=dict[str, Any])
    functions: bool = False
    consts: str = ""
    allowed: tuple[str, ...] = ()
    as_json: bool = False
    printed: bool = False
    rescue: Callable[[], str] | None = None
    interrupted: bool = False
    stderr: TextIO | None = None

    def end(self) -> str:
        """Call `rescue` because the process ends early, and return what it says; exceptions in threads
        are not reported from now on.
        """
        self.interrupted = True
        return "" if self.rescue is None else self.rescue()

    def warn(self, message: str, code: str, severity: str = "warning") -> None:
        """Write a warning or a note to standard error, unless the same message was written
        before.
        """
        if message not in self.warned:
            self.warned.add(message)
            self.tell(Diagnostic(message, code, severity=severity))

    def tell(self, *diagnostics: Diagnostic) -> None:
        """Write diagnostics to standard error."""
        for d in diagnostics:
            click.echo(render(d, self.error_format, color=colored(sys.stderr)), err=True)

    def show_warning(self, message: Warning | str, category: type[Warning], *_: object) -> None:
        """Write a Python warning; it replaces `warnings.showwarning` while a verb runs."""
        self.warn(str(message), getattr(category, "code", "warning"))

    def read(self, path: str) -> tuple[str, str]:
        """Return the text of a file (or of the program of a function), and its name."""
        if is_function(path):
            return self.keep(program_text({"": self.traced(path)}), path)
        data, name = self.open(path)
        return self.keep(decode(data, name), name)

    def open(self, path: str) -> tuple[bytes, str]:
        """Return the bytes of a file, and its name; from now on no output may overwrite the
        file.
        """
        data, name = read_bytes(path)
        self.opened.add(path)
        return data, name

    def keep(self, text: str, name: str) -> tuple[str, str]:
        """Keep a text for the report of a bug; return it and its name."""
        self.inputs[name] = text
        return text, name

    def traced(self, target: str) -> ClosedJaxpr:
        """Return the program of a function, `module:name`; its output goes to standard error."""
        with contextlib.redirect_stdout(sys.stderr):
            return driver.trace.trace(target, **{**_TRACING, **self.tracing}, verify=self.verify)

    def tracer(self, path: str) -> Callable[[], ClosedJaxpr] | None:
        """Return a function that traces the given function anew at each call; None for a file."""
        if not is_function(path):
            return None
        return driver.trace.tracer(path, **{**_TRACING, **self.tracing})

    def programs(self, path: str) -> Programs:
        """Return the programs of `FILE` or `FILE#NAME`, or that of a function."""
        if is_function(path):
            return {"": self.traced(path)}
        file, selector = split_selector(path)
        text, name = self.read(file)
        return self.load(text, name, selector)

    def load(self, text: str, name: str, selector: str) -> Programs:
        """Return the programs of a text, with the constants of `--consts` and the missing types of
        `--shape`.
        """
        programs = load(text, name, selector, self.allowed)
        if self.tracing.get("source") is False:
            programs = {key: without_origins(p) for key, p in programs.items()}
        if self.consts not in ("", INLINE):
            programs = {key: with_consts(p, self.consts) for key, p in programs.items()}
        if shapes := self.tracing.get("shapes"):
            if any(is_open(p.jaxpr) for p in programs.values()):
                programs = {key: driver.typing.with_types(p, shapes) for key, p in programs.items()}
            elif not self.functions:
                message = f"--shape is for a function, and {name} is a file that has all its types"
                fail(UsageError, message, "usage")
        return programs

    def program(self, path: str) -> ClosedJaxpr:
        """Return the program of a path that names exactly one; raise UsageError otherwise."""
        if is_function(path):
            return self.traced(path)
        file, selector = split_selector(path)
        text, name = self.read(file)
        return the_one(self.load(text, name, selector), name)

    def placed(self, path: str) -> ClosedJaxpr:
        """Return `program(path)` with places for all equations: in its file, or in the text of a
        function.
        """
        return with_places(self.program(path), path)

    def answer(self, found: Answer, *, as_json: bool) -> None:
        """Print the answer of an analysis, as text or as one line of JSON."""
        if not as_json and standard_output().isatty() and hasattr(found, "parts"):
            from jaxprtool.backends import terminal  # noqa: PLC0415 (gateway: rich, 80 ms)

            terminal.show(found.parts(), color=colored(sys.stdout))  # type: ignore[attr-defined]
        else:
            self.echo_lines([json.dumps(found.json())] if as_json else found.lines())

    def write(
        self,
        verb: str,
        result: ClosedJaxpr | Programs,
        output: str,
        header: str = "",
        dialect: str = "",
    ) -> None:
        """Write the jaxprs that a verb made, below a header of comments.

        They are written in the given dialect, or each in its own.
        """
        programs = result if isinstance(result, dict) else {"": result}
        if self.verify:
            driver.verify.check_results(verb, programs)
        if output == "-":
            self.write_text(header + program_text(programs, dialect), output)
        else:
            self.spare_inputs(output, programs=False)
            write_programs(programs, output, self.place_of_constants(verb), header, dialect)

    def place_of_constants(self, verb: str) -> str:
        """Return where a verb writes large constants, from `--consts`; "" for the default.

        Only for `trace` an `.npz` file is an output; for other verbs it is read.
        """
        return self.consts if verb == "trace" or self.consts == INLINE else ""

    def spare_inputs(
        self, *outputs: str | None, programs: bool = True, values: bool = True
    ) -> None:
        """Raise UsageError if an output would overwrite a program or a file of values that is
        read.
        """
        read = {*(self.opened if programs else ()), *(self.values if values else ())}
        for path in [x for x in outputs if x is not None and os.path.exists(x)]:
            if any(os.path.samefile(x, path) for x in read if os.path.exists(x)):
                message = f"cannot write {path}: it is read here, and would be lost"
                fail(UsageError, message, "unwritable-file", help="write to another file")

    def write_text(self, text: str, output: str, *, in_place: bool = False) -> None:
        """Write a text to a file, or to standard output for `-`.

        A program that was read is only overwritten with `in_place`, by its own new text.

        Raises:
          UsageError: the file cannot be written, or another program or document would replace the one that was read.
        """
        if output == "-":
            stream = standard_output()
            self.printed = True
            click.echo(printable(text) if stream.isatty() else text, nl=not text.endswith("\n"))
        else:
            if not in_place:
                self.spare_inputs(output)
            write_output(output, text if text.endswith("\n") else text + "\n")

    def write_bytes(self, data: bytes, output: str, *, in_place: bool = False) -> None:
        """Write bytes to a file, or to standard output for `-`.

        A file of values that was read is only overwritten with `in_place`.

        Raises:
          UsageError: as `write_text` does.
        """
        if output == "-":
            stream = standard_output()
            self.printed = True
            stream.buffer.write(data)
        else:
            self.spare_inputs(output, values=not in_place)
            write_output(output, data)

    def echo_lines(self, lines: Sequence[str], paint: Painter | None = None) -> None:
        """Print lines to standard output, with control characters escaped; `paint` adds colours."""
        standard_output()
        self.printed = True
        shown = [printable(line) for line in lines]
        click.echo("\n".join(paint(shown) if paint else shown), color=True)


Painter = Callable[[Sequence[str]], Sequence[str]]


def standard_output() -> Any:
    """Return standard output; raise UsageError if it is closed."""
    if sys.stdout is None or sys.stdout.closed:
        fail(UsageError, "cannot write to standard output: it is closed", "unwritable-file")
    return sys.stdout
