"""Passes: functions from a program to a program, registered by name, with the laws that each keeps.

    @define_pass("cse", "bits types no-more-equations idempotent linear-time")
    def cse(program: ClosedJaxpr) -> ClosedJaxpr: ...

A pass is a function of a program and of options, which are keywords with defaults
(`inline(size=8)`). A user's module defines passes in the same way, and `--plugin` loads it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.synonyms import close_names

__all__ = ["BUILT_IN", "LAWS", "Pass", "all_passes", "define_pass", "find_pass"]

# What a pass may promise. bits: the results are the same to the bit, on NumPy. values: they are the same up to rounding. types: the
# program has the same type. no-more-equations: there are not more of them, those of a jaxpr counted as often as it is used.
# idempotent: a second run changes nothing. linear-time: twice the equations take twice the time.
LAWS = ("bits", "values", "types", "no-more-equations", "idempotent", "linear-time")

F = TypeVar("F", bound=Callable[..., ClosedJaxpr])
Look = Callable[[ClosedJaxpr, str], None]

# The passes of the package and their modules, in the order of `--list`.
BUILT_IN = {
    "dce": "jaxprtool.passes.dead_code",
    "inline": "jaxprtool.passes.inline",
    "outline": "jaxprtool.passes.outline",
    "cse": "jaxprtool.passes.cse",
    "fold": "jaxprtool.passes.fold",
    "simplify": "jaxprtool.passes.simplify",
    "unroll": "jaxprtool.passes.unroll",
    "roll": "jaxprtool.passes.roll",
    "hoist": "jaxprtool.passes.hoist",
    "specialise": "jaxprtool.passes.specialise",
    "cast": "jaxprtool.passes.cast",
    "remat": "jaxprtool.passes.remat",
    "discharge": "jaxprtool.passes.discharged",
    "strip": "jaxprtool.passes.strip",
    "lift-consts": "jaxprtool.passes.constants",
    "sink-consts": "jaxprtool.passes.constants",
}


@dataclass(frozen=True)
class Pass:
    """A pass.

    Attributes:
      name: its name in `--passes`.
      run: (program, **options) -> program.
      laws: what it promises; see `LAWS`.
      least: for options that are whole numbers, the smallest that makes sense.
      names: for options that name something in a program, a function that warns where nothing there
        has the name.
      forms: for options whose values may have a form `word=...`, these words: the name of the
        option may then be left out.
      fixes_types: whether it may make types checkable that are not, so that it runs before the
        check.
    """

    name: str
    run: Callable[..., ClosedJaxpr]
    laws: frozenset[str]
    least: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, Look] = field(default_factory=dict)
    forms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fixes_types: bool = False

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]

    @property
    def takes_any(self) -> bool:
        """Whether it takes options of any name."""
        parameters = inspect.signature(self.run).parameters.values()
        return any(p.kind is p.VAR_KEYWORD for p in parameters)

    @property
    def options(self) -> dict[str, Any]:
        """Its options, with their defaults."""
        parameters = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    @property
    def flags(self) -> frozenset[str]:
        """Its options that are yes or no; where the default is None, no differs from nothing being said."""
        parameters = inspect.signature(self.run).parameters.values()
        return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and _is_flag(p))


def _is_flag(p: inspect.Parameter) -> bool:
    return isinstance(p.default, bool) or str(p.annotation) == "bool | None"


_PASSES: dict[str, Pass] = {}


def define_pass(
    name: str,
    laws: str = "types",
    least: Mapping[str, int] | None = None,
    names: Mapping[str, Look] | None = None,
    forms: Mapping[str, Sequence[str]] | None = None,
    *,
    fixes_types: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that makes a function a pass, known to `opt --passes` by a name.

    Args:
      name: the name.
      laws: what the pass promises, of `LAWS`, separated by blanks. `opt --verify-each` checks
        whether `types` holds.
      least: options that are whole numbers, with the smallest that each may be: `{"size": 0}`.
      names: options that name something in a program, each with a function of the program and the
        name, which warns where nothing has the name; it is called before the pass runs for the
        first time.
      forms: options whose values may have a form `word=...`, with these words:
        `{"policy": ("names",)}` lets `names=a` stand for `policy=names=a`.
      fixes_types: whether it takes programs whose types cannot be checked yet, as those of symbolic
        sizes; `opt` runs it, where it comes first, before the check.

    Raises:
      ValueError: there is no such law, or another pass has this name.
    """
    wrong = {*laws.split()} - {*LAWS}
    if wrong:
        raise ValueError(f"{sorted(wrong)[0]} is no law of passes, but {', '.join(LAWS)}")
    promised = frozenset(law for law in LAWS if law in laws.split())

    def define(run: F) -> F:
        known = _PASSES.get(name)
        of_ours = BUILT_IN.get(name, run.__module__) != run.__module__
        if of_ours or (known is not None and known.run.__module__ != run.__module__):
            raise ValueError(f"there is a pass {name} already")
        _PASSES[name] = Pass(
            name, run, promised, least or {}, names or {}, forms or {}, fixes_types
        )
        return run

    return define


def find_pass(name: str) -> Pass:
    """Return the pass of a name. Raises UsageError where there is none."""
    if name not in _PASSES and name in BUILT_IN:
        importlib.import_module(BUILT_IN[name])
    found = _PASSES.get(name)
    if found is None:
        known = [*BUILT_IN, *(n for n in _PASSES if n not in BUILT_IN)]
        near = close_names(name, known)
        help = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        fail(UsageError, f"there is no pass {name}", "no-pass", help=help)
    return found


def all_passes() -> list[Pass]:
    """Return every pass, those of the package first."""
    ours = [find_pass(name) for name in BUILT_IN]
    return [*ours, *(p for n, p in _PASSES.items() if n not in BUILT_IN)]
