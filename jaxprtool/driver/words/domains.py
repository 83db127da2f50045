"""Domains of arguments as the command line spells them: `x: f32[3] in [-1, 1]`.

domain  = name {"," name} [":" type] "in" values
values  = ("[" | "(") number "," number ("]" | ")")   an interval, with its ends or without them
        | "{" number {"," number} "}"                  some numbers
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from jaxprtool.driver.words.arguments import parts_called, similar_names
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import Var

if TYPE_CHECKING:
    from jaxprtool.backends.samples import Domain

__all__ = ["parse_domains"]

_DOMAIN = re.compile(r"(?P<names>.+?)(?::\s*(?P<type>\S+))?\s+in\s+(?P<values>[\[({].*[\])}])\s*")
_EXAMPLE = "--domain 'x: f32[3] in [-1, 1]'"


def parse_domains(
    texts: Sequence[str], binders: Sequence[Var], interface: Interface | None
) -> dict[int, Domain]:
    """Return the domains of arguments, by their positions.

    Args:
      texts: domains as described in the module, one each.
      binders: the arguments.
      interface: their names and trees; a name may mean all arrays of a tree.

    Raises:
      UsageError: a text is no domain; there is no such argument, or it has another type; a domain
        is empty, or holds no number of its type.
    """
    from jaxprtool.backends.samples import member  # noqa: PLC0415 (gateway: NumPy)

    found: dict[int, Domain] = {}
    for text in texts:
        m = _DOMAIN.fullmatch(text.strip())
        if m is None:
            _refuse(text, "is not a domain")
        domain = _values(text, m["values"])
        for name in m["names"].split(","):
            for i in _positions(text, name.strip(), binders, interface):
                aval = binders[i].aval
                if m["type"] and str(aval.strong) != m["type"]:
                    _refuse(text, f"gives {name.strip()} the type {m['type']}, and it is {aval}")
                if aval.dtype.kind not in "fiu":
                    _refuse(text, f"is of {name.strip()}:{aval}, whose values have no order")
                if member(domain, aval) is None:
                    _refuse(text, f"holds no number of the type of {name.strip()}:{aval}")
                found[i] = domain
    return found


def _positions(
    text: str, name: str, binders: Sequence[Var], interface: Interface | None
) -> Sequence[int]:
    parts = parts_called(name, interface, binders, inside=True)
    if not parts:
        help = similar_names(name, interface, binders)
        fail(UsageError, f"--domain {text!r}: there is no argument {name}", "bad-domain", help=help)
    return [i for part in parts for i in part.positions]


def _values(text: str, values: str) -> Domain:
    from jaxprtool.backends.samples import Domain  # noqa: PLC0415 (gateway: NumPy)

    first, last = values[0], values[-1]
    try:
        numbers = [float(x) for x in values[1:-1].split(",")]
    except ValueError:
        _refuse(text, f"has something in {values} that is no number")
    if first == "{" and last == "}":
        return Domain(members=tuple(numbers))
    if first == "{" or last == "}" or len(numbers) != 2:
        _refuse(text, f"has {values}, which is no interval")
    low, high = numbers
    if not low <= high or (low == high and (first, last) != ("[", "]")):
        _refuse(text, "is empty")
    return Domain(low, high, first == "(", last == ")")


def _refuse(text: Any, why: str) -> NoReturn:
    help = f"a domain is {_EXAMPLE}, `x in (0, inf)` or `n in {{1, 2, 4}}`"
    fail(UsageError, f"--domain {text!r} {why}", "bad-domain", help=help)
