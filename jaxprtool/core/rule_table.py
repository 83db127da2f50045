"""`RuleTable` and `FactTable`: one column, a rule or a fact for each primitive.

A table loads the row of a primitive of ours when it is first asked about that primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.core.gateways import gateways
from jaxprtool.core.unknown import unknown_primitive
from jaxprtool.ir.diagnostics import Diagnostic, MissingRuleError
from jaxprtool.ir.jaxpr import Primitive

__all__ = ["FactTable", "Maker", "RuleTable", "Unsupported", "unsupported"]

Rule = Callable[..., Any]


class Maker:
    """A function op -> rule; `define` applies it to the operation that it defines."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Any], Rule]):
        self.make = make

    def __call__(self, op: Any) -> Rule:
        return self.make(op)


class Unsupported:
    """A rule that is absent on purpose; calling it raises MissingRuleError with the reason."""

    __slots__ = ("column", "help", "name", "why")

    def __init__(self, why: str, help: str = ""):
        self.why, self.help, self.name, self.column = why, help, "", ""

    def __call__(self, *_args: Any, **_params: Any) -> Any:
        message = f"no {self.column} rule for {self.name}: {self.why}"
        raise MissingRuleError(Diagnostic(message, "no-rule", help=self.help), self.name)


def unsupported(why: str, help: str = "") -> Unsupported:
    """State that a primitive has no rule in a column, why, and what to do instead."""
    return Unsupported(why, help)


class RuleTable:
    """The rules of one interpreter: primitive -> rule.

    Attributes:
      column: the name of the column, which is also the keyword of `define`.
      rules: the rules of the rows that are loaded. Hot loops read it directly, and fall back to `table[primitive]`.
    """

    __slots__ = ("column", "rules")

    def __init__(self, column: str):
        self.column = column
        self.rules: dict[Primitive, Rule] = {}

    def define(self, primitive: Primitive, rule: Rule) -> None:
        """Add a rule; a second one for the same primitive is an error."""
        if primitive in self.rules:
            raise ValueError(f"{primitive} already has a {self.column} rule")
        if isinstance(rule, Unsupported):
            why, rule = rule.why, Unsupported(rule.why, rule.help)
            rule.name, rule.column, rule.why = primitive.name, self.column, why
        self.rules[primitive] = rule

    def __getitem__(self, primitive: Primitive) -> Rule:
        """The rule; raises `MissingRuleError` that names primitive and column, and how to add it."""
        rule = self.find(primitive)
        if rule is not None:
            return rule
        if primitive.known:
            message = f"{primitive} has no {self.column} rule"
            help = (
                f"add one with jaxprtool.define({primitive}, {self.column}=...) "
                "in the module that declares the primitive"
            )
            found = Diagnostic(message, "no-rule", help=help)
        else:
            why = f"it has no {self.column} rule"
            found = unknown_primitive(primitive.name, why, module=" MODULE")
        raise MissingRuleError(found, primitive.name)

    def find(self, primitive: Primitive) -> Rule | None:
        """The rule, or None."""
        rule = self.rules.get(primitive)
        if rule is None and primitive.pending:
            gateways.load_rows(primitive.pending)
            rule = self.rules.get(primitive)
        return rule

    def __contains__(self, primitive: Primitive) -> bool:
        return self.find(primitive) is not None


class FactTable:
    """A property of each primitive: one of a few values, the first of which is the default.

    Attributes:
      column: the name of the column, which is also the keyword of `define`.
      values: the possible values.
      stated: the values of the primitives that state one, as far as their rows are loaded.
    """

    __slots__ = ("column", "stated", "values")

    def __init__(self, column: str, *values: Any):
        self.column, self.values = column, values
        self.stated: dict[Primitive, Any] = {}

    def define(self, primitive: Primitive, value: Any) -> None:
        """State the value of a primitive; stating two different values is an error."""
        if value not in self.values:
            known = " or ".join(map(repr, self.values))
            raise TypeError(
                f"define({primitive}): {self.column} is {value!r}, and has to be {known}"
            )
        if self.stated.setdefault(primitive, value) != value:
            raise ValueError(f"{primitive} has {self.column}={self.stated[primitive]!r} already")

    def __getitem__(self, primitive: Primitive) -> Any:
        if primitive.pending:
            gateways.load_rows(primitive.pending)
        return self.stated.get(primitive, self.values[0])

    def __contains__(self, primitive: Primitive) -> bool:
        """Whether the primitive states another value than the default."""
        if primitive.pending:
            gateways.load_rows(primitive.pending)
        return primitive in self.stated
