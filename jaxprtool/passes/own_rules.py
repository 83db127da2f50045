"""Calls of functions with their own rules for derivatives or for vmap, and a warning where a program has lost some of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from jaxprtool.interpreters.batch import batching_facts
from jaxprtool.interpreters.jvp import derivative_facts
from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.jaxpr import JaxprEqn, Primitive

__all__ = ["LostRuleWarning", "has_own_rule", "name_of", "warn_of_lost_rules"]

_SHOWN = 4  # names in a message, at most
_BY_RULE = {"differentiated": derivative_facts, "batched": batching_facts}


class LostRuleWarning(JaxprToolWarning):
    """A call of a function with its own rule is replaced by the function's body, so that the rule is not used any more."""

    code = "lost-rule"


def name_of(call: JaxprEqn) -> str:
    """Return the name of a call: that of its function, or of its primitive."""
    return str(call.params.get("name", call.primitive.name))


def has_own_rule(primitive: Primitive) -> bool:
    """Whether an operation is differentiated or batched by a rule of the program's author."""
    return any(facts[primitive] == "rule" for facts in _BY_RULE.values())


def warn_of_lost_rules(by: str, calls: Iterable[JaxprEqn]) -> None:
    """Warn of calls that are lost and whose functions have their own rules.

    Args:
      by: the verb or the pass that has lost them.
      calls: the calls that it has replaced.
    """
    calls = [*calls]
    for done, facts in _BY_RULE.items():
        names = [*dict.fromkeys(name_of(e) for e in calls if facts[e.primitive] == "rule")]
        if names:
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            rules = "their rules, which are" if len(names) > 1 else "its rule, which is"
            shown = f"{', '.join(names[:_SHOWN])}{more}"
            message = f"{by}: {shown} will be {done} as written out, and not by {rules} lost"
            warnings.warn(LostRuleWarning(message), stacklevel=2)
