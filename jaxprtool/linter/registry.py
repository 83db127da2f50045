"""Lint rules: functions that examine a program and return what they find; each has a code and a
page.

    @lint_rule("exp-minus-one", "sub", family="numerics", mend="write jnp.expm1(x)", bad="...", good="...")
    def exp_minus_one(at: At):
        '''exp(x) - 1 loses the digits of a small x.

        Near 0 ...'''
        return "..." if at.made(0, "exp") and at.number(1) == 1 else None

The docstring is the page: its first line is the title, the rest says why. A user's module defines
rules in the same way, and is loaded by `--plugin`. A rule of a mathematical pattern, such as log(1
+ x), names the primitives in it. Properties of a primitive, such as that it only moves data, are
taken from its row (`rules.define`), so that users' primitives can have them, too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, cast

from jaxprtool.analyses.places import Place
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Primitive, Var
from jaxprtool.ir.spans import Span
from jaxprtool.ir.synonyms import close_names
from jaxprtool.linter.examples import Example, Side, read_example

__all__ = ["BUILT_IN", "Found", "Page", "Rule", "all_rules", "lint_rule", "select_rules"]

F = TypeVar("F", bound=Callable[..., Any])
Kind = Literal["equation", "jaxpr", "program"]
# A set of primitives: the name of one, or a function that returns True for its members.
Which = str | Callable[[Primitive], bool]

# The families of the package's rules, each in its module, in the order in which they are listed.
BUILT_IN = {
    "types": "jaxprtool.linter.types",
    "constants": "jaxprtool.linter.constants",
    "effects": "jaxprtool.linter.effects",
    "unused": "jaxprtool.linter.unused",
    "repeats": "jaxprtool.linter.repeats",
    "conversions": "jaxprtool.linter.conversions",
    "sums": "jaxprtool.linter.sums",
    "numerics": "jaxprtool.linter.numerics",
    "derivatives": "jaxprtool.linter.derivatives",
    "residuals": "jaxprtool.linter.residuals",
    "keys": "jaxprtool.linter.keys",
    "devices": "jaxprtool.linter.devices",
}


class Found(NamedTuple):
    """What a rule finds.

    Attributes:
      message: what is wrong, with the offending value; lower case, no full stop.
      place: the equation; None for a finding at an argument, a result or a constant.
      var: the variable of the argument, result or constant, if there is no equation.
      label: the name of that: `argument x`, or "".
      help: what the user should do about this finding; "" for the help of the rule.
      related: other equations that are involved.
      mendable: whether the passes of the rule mend this finding.
    """

    message: str
    place: Place | None = None
    var: Var | None = None
    label: str = ""
    help: str = ""
    related: Sequence[Place] = ()
    mendable: bool = True

    @property
    def span(self) -> Span | None:
        """Its place in the text."""
        if self.place is not None:
            return self.place.eqn.span
        return None if self.var is None else self.var.span


class Page(NamedTuple):
    """What `explain` prints for a code.

    Attributes:
      code: the code.
      family: the family of the rule; for codes of other verbs "check", "files" or "usage".
      title: a one-line summary.
      why: why it is a fault.
      mend: what the user should do.
      bad, good: for a plug-in's rule, an example, and the same mended; those of the package are
        files.
      command: the verb that reports it, with its options; "" if several do.
      fix: the passes that mend it, or "".
      default: whether the rule is applied without being named by `--select`.
    """

    code: str
    family: str
    title: str
    why: str
    mend: str
    bad: str = ""
    good: str = ""
    command: str = "lint"
    fix: str = ""
    default: bool = True

    @property
    def example(self) -> Example:
        """Its example: that of the plug-in's rule, or the package's file for the code."""
        if not self.bad:
            return read_example(self.code)
        command = f"{self.command} -"
        return Example(Side("run", command, self.bad), Side("run", command, self.good))


@dataclass(frozen=True)
class Rule:
    """A lint rule.

    Attributes:
      page: its page.
      kind: what `run` is applied to: each equation, each jaxpr, or the program.
      primitives: for a rule of equations, the primitives whose equations it is applied to.
      needs: primitives; in a program that runs none of them the rule finds nothing. () for any
        program.
      run: (`At`, `Frame` or `View`) -> what it finds.
    """

    page: Page
    kind: Kind
    primitives: tuple[Which, ...]
    needs: tuple[Which, ...]
    run: Callable[[Any], Any]

    @property
    def code(self) -> str:
        """The code of its findings."""
        return self.page.code

    def is_of(self, primitive: Primitive) -> bool:
        """Whether it is applied to the equations of a primitive."""
        return _is_meant(primitive, self.primitives)

    def is_needed(self, primitives: Iterable[Primitive]) -> bool:
        """Whether it may find anything in a program that runs these primitives."""
        return not self.needs or any(_is_meant(p, self.needs) for p in primitives)

    def apply(self, at: Any) -> Iterable[Found]:
        """Return its findings; the function of a rule returns None, a message, a `Found`, or
        several.
        """
        found = self.run(at)
        return () if found is None or found is False else self._made_of(found, at)

    def _made_of(self, found: Any, at: Any) -> Iterator[Found]:
        several = isinstance(found, Iterable) and not isinstance(found, (str, Found))
        for one in cast("Iterable[Any]", found) if several else [found]:
            if not isinstance(one, (str, Found)):
                message = f"the lint rule {self.code} returned {type(one).__name__}"
                help = "a rule returns None, a message, a Found, or several of them"
                fail(UsageError, message, "plugin-failed", help=help)
            made = Found(one) if isinstance(one, str) else one
            if self.kind == "equation" and made.place is None and made.var is None:
                made = made._replace(place=at.place())
            yield made


def _is_meant(primitive: Primitive, which: Sequence[Which]) -> bool:
    name = primitive.name
    return any(w == name if isinstance(w, str) else w(primitive) for w in which)


_RULES: dict[str, Rule] = {}


def lint_rule(
    code: str,
    *primitives: Which,
    family: str = "own",
    mend: str,
    bad: str = "",
    good: str = "",
    kind: Kind = "equation",
    needs: Sequence[Which] = (),
    command: str = "lint",
    fix: str = "",
    default: bool = True,
) -> Callable[[F], F]:
    """Return a decorator that makes a function a lint rule.

    Args:
      code: the code of its findings, in kebab-case.
      primitives: for a rule of equations, the primitives whose equations it gets: names, or
        functions of a primitive that return True.
      family: the name of a group of rules, which `--select` accepts, too.
      mend: what the user should do; the help of its findings.
      bad, good: programs with and without the fault; those of the package are in `linter.examples`.
      kind: "equation": the function gets an `At` for each equation of the primitives; "jaxpr": a
        `Frame` for each jaxpr that the program runs; "program": a `View` of the program. It returns
        None, a message, a `Found`, or several.
      needs: primitives, in the same form; the rule is skipped for programs without any of them.
      command: the command that finds the fault in `bad`, with its options.
      fix: the passes that mend it, in the form of `opt --passes`.
      default: whether it is applied without being named by `--select`.

    Raises:
      ValueError: another rule has the code; a rule of equations names no primitives.
    """
    if (kind == "equation") != bool(primitives):
        raise ValueError(f"{code}: a rule of equations names primitives, and no other rule does")

    def define(run: F) -> F:
        known = _RULES.get(code)
        if known is not None and known.run.__module__ != run.__module__:
            raise ValueError(f"there is a lint rule {code} already")
        title, _, why = (inspect.getdoc(run) or code).partition("\n")
        why = " ".join(why.split())
        page = Page(code, family, title.rstrip("."), why, mend, bad, good, command, fix, default)
        _RULES[code] = Rule(page, kind, primitives, tuple(needs), run)
        return run

    return define


def all_rules() -> list[Rule]:
    """Return all rules, those of the package first."""
    for module in BUILT_IN.values():
        importlib.import_module(module)
    order = [*BUILT_IN]
    rank = {family: i for i, family in enumerate(order)}
    return sorted(_RULES.values(), key=lambda r: rank.get(r.page.family, len(order)))


def select_rules(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[Rule]:
    """Return the rules that `--select` and `--ignore` choose.

    Args:
      select: codes and names of families; "all" for every rule; () for those that are applied by default.
      ignore: codes and families of rules to leave out.

    Raises:
      UsageError: there is no such code or family.
    """
    rules = all_rules()
    known = {"all", *(r.code for r in rules), *(r.page.family for r in rules)}
    for word in (*select, *ignore):
        if word not in known:
            near = close_names(word, known)
            help = f"did you mean {near[0]}?" if near else "`explain` lists the rules"
            fail(UsageError, f"there is no lint rule {word}", "no-lint-rule", help=help)

    def meant(rule: Rule) -> bool:
        if not select:
            return rule.page.default
        return bool({"all", rule.code} & {*select}) or (
            rule.page.default and rule.page.family in select
        )

    def left_out(rule: Rule) -> bool:
        return bool({"all", rule.code, rule.page.family} & {*ignore})

    return [r for r in rules if meant(r) and not left_out(r)]
