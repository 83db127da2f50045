"""Lint rules: functions that look at a program and say what they find, by code, with a page for each.

    @lint_rule("exp-minus-one", "sub", family="numerics", mend="write jnp.expm1(x)", bad="...", good="...")
    def exp_minus_one(at: At):
        '''exp(x) - 1 loses the digits of a small x.

        Near 0 ...'''
        return "..." if at.made(0, "exp") and at.number(1) == 1 else None

The docstring is the page: its first line the title, the rest why. A user's module defines rules in the same way, and `--plugin` loads it.

A rule of one mathematical pattern, such as log(1 + x), names the primitives in it. What is true of a primitive, such as that it
only moves data, is asked of its row (`rules.define`), so that a user's own primitive can say it too.
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
# Which primitives are meant: the one of a name, or those of which a function says so, by what their rows state.
Which = str | Callable[[Primitive], bool]

# The families of the package's own rules, each a module here, in the order of the list.
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
      place: the equation; None for what is found at an argument, a result or a constant.
      var: the variable that it is about, where there is no equation.
      label: what that is called: `argument x`, or "".
      help: what to do about this one, or "" for what the rule says.
      related: other equations that take part.
      mendable: whether the passes of the rule mend this one.
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
        """Where it stands in the text."""
        if self.place is not None:
            return self.place.eqn.span
        return None if self.var is None else self.var.span


class Page(NamedTuple):
    """What `explain` says of a code.

    Attributes:
      code: the code.
      family: the family of the rule; of a code that other verbs raise, "check", "files" or "usage".
      title: a line.
      why: what is wrong with it.
      mend: what to do.
      bad, good: an example, and the same mended, of a plug-in's rule; those of the package are files, see `example`.
      command: the verb that says it, with its options; "" where several do.
      fix: the passes that mend it, or "".
      default: whether the rule is applied where `--select` does not name it.
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
        """Its example: what a plug-in's rule gives, or what the package has for the code."""
        if not self.bad:
            return read_example(self.code)
        command = f"{self.command} -"
        return Example(Side("run", command, self.bad), Side("run", command, self.good))


@dataclass(frozen=True)
class Rule:
    """A lint rule.

    Attributes:
      page: what is said of it.
      kind: what `run` is applied to: each equation, each jaxpr, or the program.
      primitives: of a rule of equations which primitives.
      needs: which primitives; in a program that runs none of them the rule finds nothing. () for any program.
      run: (`At`, `Frame` or `View`) -> what it finds.
    """

    page: Page
    kind: Kind
    primitives: tuple[Which, ...]
    needs: tuple[Which, ...]
    run: Callable[[Any], Any]

    @property
    def code(self) -> str:
        """The code of what it finds."""
        return self.page.code

    def is_of(self, primitive: Primitive) -> bool:
        """Whether it is applied to the equations of a primitive."""
        return _is_meant(primitive, self.primitives)

    def is_needed(self, primitives: Iterable[Primitive]) -> bool:
        """Whether it may find anything in a program that runs these primitives."""
        return not self.needs or any(_is_meant(p, self.needs) for p in primitives)

    def apply(self, at: Any) -> Iterable[Found]:
        """What it finds: a rule gives nothing, a message, a `Found`, or several of them."""
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
    """Make a function a lint rule; returns a decorator.

    Args:
      code: the code of what it finds, in kebab-case.
      primitives: of a rule of equations the primitives whose equations it is given: names, or functions of a primitive that say yes.
      family: a name for it and its like, which `--select` takes too.
      mend: what to do, which is the help of what it finds.
      bad, good: programs that have it and that have it no more; the package's own are in `linter.examples`.
      kind: "equation": the function is given an `At` for each equation of the primitives; "jaxpr": a `Frame` for each jaxpr that
        the program runs; "program": a `View` of the program. It returns None, a message, a `Found`, or several.
      needs: primitives, in the same way, without any of which there is nothing to find, so that the rule takes no time.
      command: the command that finds it in `bad`, with its options.
      fix: the passes that mend it, as `opt --passes` takes them.
      default: whether it is applied where `--select` does not name it.

    Raises:
      ValueError: another rule has the code; a rule of equations without primitives.
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
    """Every rule, those of the package first."""
    for module in BUILT_IN.values():
        importlib.import_module(module)
    order = [*BUILT_IN]
    rank = {family: i for i, family in enumerate(order)}
    return sorted(_RULES.values(), key=lambda r: rank.get(r.page.family, len(order)))


def select_rules(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[Rule]:
    """The rules that are meant.

    Args:
      select: codes and names of families; "all" for every rule; () for those that are applied by default.
      ignore: codes and families of rules that are left out.

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
