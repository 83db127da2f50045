"""Warn of names in the options of passes and policies that nothing in the program has."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import Record
from jaxprtool.ir.synonyms import close_names
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.checkpointing import policy_of

__all__ = ["UnknownNameWarning", "look_for_policy_names", "warn_of_unknown"]

_SHOWN = 8  # names in a message, at most


class UnknownNameWarning(JaxprToolWarning):
    """Nothing in the program has a name that an option gives, so that the option has no effect."""

    code = "unknown-name"


def warn_of_unknown(what: str, wanted: str, known: Iterable[str]) -> None:
    """Warn that nothing has a name.

    Args:
      what: what would have it: `call`.
      wanted: the name.
      known: the names that exist.
    """
    names = [*dict.fromkeys(known)]
    near = close_names(wanted, names)
    if near:
        help = f"did you mean {near[0]}?"
    elif names:
        more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        help = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:_SHOWN])}{more}"
    else:
        help = f"there is no {what} with a name"
    warnings.warn(UnknownNameWarning(f"no {what} is called {wanted}: {help}"), stacklevel=2)


def look_for_policy_names(program: ClosedJaxpr, policy: str) -> None:
    """Warn of names in a policy (see `policy_of`) that `checkpoint_name` gives to no value."""
    found = policy_of(policy)
    if not isinstance(found, Record):
        return
    known = [
        str(eqn.params["name"])
        for eqn in all_eqns(program.jaxpr)
        if eqn.primitive.name == "name" and "name" in eqn.params
    ]
    for names in found.fields.values():
        for name in sorted(names) if isinstance(names, (tuple, frozenset)) else ():
            if name not in known:
                warn_of_unknown("value", name, known)
