"""Applying lint rules to a program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.stack import deep
from jaxprtool.ir.interface import argument_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive
from jaxprtool.linter.frames import At, Frame, frames_of
from jaxprtool.linter.ignored import is_ignored
from jaxprtool.linter.registry import Found, Rule

__all__ = ["MAX_CONST", "Finding", "Options", "View", "lint_program"]

MAX_CONST = 1 << 20  # the size in bytes from which on constants are reported by default


class Options(NamedTuple):
    """Options of rules.

    Attributes:
      max_const: the size in bytes from which on constants are reported.
      carry: pairs of positions: of a result, and of the argument that it becomes in the next call.
    """

    max_const: int = MAX_CONST
    carry: Sequence[tuple[int, int]] = ()


class View:
    """A program in the form in which rules get it.

    Attributes:
      program: the program.
      frames: the jaxprs that it runs, each once, the program first.
      options: the options of rules.
    """

    def __init__(self, program: ClosedJaxpr, frames: Sequence[Frame], options: Options):
        self.program, self.frames, self.options = program, frames, options

    @functools.cached_property
    def arguments(self) -> list[str]:
        """The names of the arguments in messages."""
        names = [v.name for v in self.program.jaxpr.in_binders]
        return argument_labels(names, self.program.interface)

    @functools.cached_property
    def results(self) -> list[str]:
        """The names of the results in messages."""
        interface = self.program.interface
        paths = (
            [""] * len(self.program.jaxpr.outs) if interface is None else interface.result.paths()
        )
        return [f"result{path}" if path else f"result {i}" for i, path in enumerate(paths)]


class Finding(NamedTuple):
    """Something that a rule found: the rule, and what it returned."""

    rule: Rule
    found: Found

    @property
    def code(self) -> str:
        """The code of the rule."""
        return self.rule.code

    @property
    def help(self) -> str:
        """What the user should do."""
        return self.found.help or self.rule.page.mend

    @property
    def fix(self) -> str:
        """The passes that mend it, separated by commas; "" if there are none."""
        return self.rule.page.fix if self.found.mendable else ""


@deep
def lint_program(
    program: ClosedJaxpr, rules: Sequence[Rule], options: Options
) -> tuple[list[Finding], list[Finding]]:
    """Apply rules to a well-typed program.

    Returns:
      The findings, in the order of the text, and those that comments in the text tell lint to
      ignore.
    """
    frames = [*frames_of(program)]
    view = View(program, [f for f in frames if f.first], options)
    found: dict[Any, Finding] = {}
    primitives = {eqn.primitive for f in view.frames for eqn in f.jaxpr.eqns}
    rules = [r for r in rules if r.is_needed(primitives)]
    of_primitives = {p: own for p in primitives if (own := [r for r in rules if r.is_of(p)])}
    for frame in frames:
        _look(frame, of_primitives, found)
    for rule in rules:
        given: Sequence[Any] = {"jaxpr": view.frames, "program": [view]}.get(rule.kind, ())
        for at in given:
            for one in rule.apply(at):
                found[rule.code, one] = Finding(rule, one)
    kept: list[Finding] = []
    ignored: list[Finding] = []
    for f in sorted(found.values(), key=_position):
        (ignored if is_ignored(program, f.code, f.found) else kept).append(f)
    return kept, ignored


def _look(frame: Frame, rules: dict[Primitive, list[Rule]], found: dict[Any, Finding]) -> None:
    """Apply the rules of single equations to those of a jaxpr."""
    find: Callable[[Primitive], list[Rule] | None] = rules.get
    for eqn in frame.jaxpr.eqns:
        own = find(eqn.primitive)
        if own is None:
            continue
        at = At(frame, eqn)
        for rule in own:
            frame.outside = False
            for one in rule.apply(at):
                # a finding that depends on the jaxpr's arguments is reported for each call of the
                # jaxpr
                where = frame.step and frame.step.eqn if frame.outside else None
                found.setdefault((rule.code, eqn, where, one.message), Finding(rule, one))


def _position(finding: Finding) -> tuple[Any, ...]:
    span = finding.found.span
    return (
        span is not None,
        "" if span is None else span.source.name,
        0 if span is None else span.start,
    )
