"""Pipelines: several passes, one after the other, in the notation of `opt --passes`.

    dce, inline size=8, specialise a=8 x=0.5, cast f32->bf16 scope=attn, strip source|names

The options of a pass follow it, separated by blanks: `key=value`; the name of an option that is yes
or no; or the value of its first option (a number is the value of the first option that takes
numbers). Parentheses around options do no harm: `inline(size=8)`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.passes.registry import Pass, find_pass

__all__ = ["DEFAULT", "Stage", "Step", "pipeline", "run_pipeline"]

DEFAULT = "simplify,fold,cse,dce"
_MOST_ROUNDS = 100
_STAGE = re.compile(r"\s*([\w-]+)\s*(?:\(([^()]*)\)|([^(),]*))\s*")


class Stage(NamedTuple):
    """A pass with its options."""

    of: Pass
    options: dict[str, Any]

    def __str__(self) -> str:
        return " ".join([self.of.name, *(f"{k}={v}" for k, v in self.options.items())])

    def __call__(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program after the pass. Raises UsageError where a user's pass returns no program."""
        made: Any = self.of.run(program, **self.options)
        if isinstance(made, ClosedJaxpr):
            return made
        message = f"the pass {self.of.name} returned {type(made).__name__}, and no program"
        fail(UsageError, message, "plugin-failed", help="a pass returns a ClosedJaxpr")

    def look(self, program: ClosedJaxpr) -> None:
        """Warn of names in the options that nothing in a program has."""
        for key, look in self.of.names.items():
            if self.options.get(key):
                look(program, self.options[key])


class Step(NamedTuple):
    """A pass that has run.

    Attributes:
      stage: the pass.
      before: the program before it.
      after: the program after it; the same object where nothing changed.
      seconds: how long it took.
      round: how often the pipeline ran before, under `--until-fixed`.
    """

    stage: Stage
    before: ClosedJaxpr
    after: ClosedJaxpr
    seconds: float
    round: int


def pipeline(text: str) -> list[Stage]:
    """Read the stages of a text. Raises UsageError where it is malformed, or there is no such pass or option."""
    stages: list[Stage] = []
    pos = 0
    while pos < len(text):
        m = _STAGE.match(text, pos)
        if m is None or (m.end() < len(text) and text[m.end()] != ","):
            help = "write `dce,inline size=8,cse`"
            fail(UsageError, f"--passes: {text[pos:]!r} is no pass", "bad-value", help=help)
        if stages and text.startswith("=", m.end(1)):
            help = (
                f"options of one pass are separated by blanks: `{stages[-1].of.name} ... {m[1]}=`"
            )
            fail(UsageError, f"there is no pass {m[1]}", "no-pass", help=help)
        found = find_pass(m[1])
        words = (m[2] or m[3] or "").replace(",", " ").split()
        stages.append(Stage(found, _options(found, words)))
        pos = m.end() + 1
    if not stages:
        fail(UsageError, "--passes names no pass", "bad-value", help="`--list` shows them")
    return stages


def _options(of: Pass, words: Sequence[str]) -> dict[str, Any]:
    """Return the options of a pass that words give."""
    found: dict[str, Any] = {}
    known = of.options
    for word in words:
        key, equals, value = word.partition("=")
        flags = [part in of.flags and not known[part] for part in word.split("|")]
        if not equals and all(flags):
            _once(of, found, word.split("|"))
            found.update(dict.fromkeys(word.split("|"), True))
            continue
        first = _first(of, word)
        if not equals and first is not None:
            key, value = first, word
        elif key not in known:
            of_form = [option for option, starts in of.forms.items() if key in starts]
            key, value = (of_form[0], word) if of_form else (key, value)
        if key not in known and not of.takes_any:
            help = f"it has {', '.join(known)}" if known else "it has none"
            what = f"there is no option {key}" if key else f"{word} names no option"
            fail(UsageError, f"{of.name}: {what}", "bad-value", help=help)
        _once(of, found, [key])
        if not value:
            help = f"write `{of.name} {key}=VALUE`"
            fail(UsageError, f"{of.name}: {key} has no value", "bad-value", help=help)
        found[key] = _value(of, key, value)
    return found


def _first(of: Pass, word: str) -> str | None:
    """Return the option that a word without a key is the value of: the first one; for a number the first one that takes numbers."""
    takes = {k: x for k, x in of.options.items() if k not in of.flags}
    if _number(word, (int, float)) is not None:
        takes = {k: x for k, x in takes.items() if not isinstance(x, str)} or takes
    return next(iter(takes), None)


def _once(of: Pass, found: Mapping[str, Any], keys: Sequence[str]) -> None:
    twice = [k for i, k in enumerate(keys) if k in found or k in keys[:i]]
    if twice:
        fail(UsageError, f"{of.name}: {twice[0]} is given twice", "bad-value")


def _value(of: Pass, key: str, text: str) -> Any:
    """Return the value of an option: of the type of its default; a number where that is None or there is none."""
    default = of.options.get(key)
    if isinstance(default, str):
        return text
    if key in of.flags or (key not in of.options and text in ("true", "false")):
        if text not in ("true", "false"):
            fail(UsageError, f"{of.name}: {key} is true or false, and not {text!r}", "bad-value")
        return text == "true"
    whole = isinstance(default, int) or key in of.least
    found = _number(text, (int,) if whole else (int, float))
    if found is None:
        noun = "a whole number" if whole else "a number"
        fail(UsageError, f"{of.name}: {key} is {noun}, and not {text!r}", "bad-value")
    least = of.least.get(key)
    if least is not None and found < least:
        message = f"{of.name}: {key} is at least {least}, and not {found}"
        fail(UsageError, message, "bad-value")
    return found


def _number(text: str, kinds: Sequence[Callable[[str], Any]]) -> Any:
    """Return the number of the first kind that a text spells; None where it spells none."""
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def run_pipeline(
    program: ClosedJaxpr,
    stages: Sequence[Stage],
    *,
    until_fixed: bool = False,
    after: Callable[[Step], None] = lambda step: None,
) -> ClosedJaxpr:
    """Run passes one after the other.

    Args:
      program: the program.
      stages: the passes.
      until_fixed: whether they all run again as long as one changes anything, a hundred times at
        most.
      after: called with each pass that has run.
    """
    for round in range(_MOST_ROUNDS if until_fixed else 1):
        begin = program
        for stage in stages:
            if round == 0:
                stage.look(program)
            start = time.perf_counter()
            made = stage(program)
            after(Step(stage, program, made, time.perf_counter() - start, round))
            program = made
        if program is begin:
            break
    return program
