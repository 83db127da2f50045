"""The message about an undeclared primitive, which is the same in every verb."""

from __future__ import annotations

import functools
import re

from jaxprtool.core.primitive import vocabulary
from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.synonyms import PRIMITIVES, close_names, meant

__all__ = ["printed_object", "unknown_primitive"]

_DECLARE = "a module that declares it can be given with --plugin"
_OBJECT = (
    "it is an object of the process that printed it, and no text holds what it does: "
    "`jaxprtool trace -o` and jt.save, called there, write that"
)
_CLASS = re.compile(r"_*[A-Z]\w*\Z")
_HELD = re.compile(r"\s*(\w+)\[")


def unknown_primitive(name: str, why: str = "", *, module: str = "", also: str = "") -> Diagnostic:
    """Return the message about an undeclared primitive.

    Args:
      name: the name of the primitive.
      why: what a declaration is needed for, or who lacks it; or "".
      module: the placeholder for the module in the help text.
      also: another remedy, where no primitive has a similar name.
    """
    message = f"unknown primitive {name}" + (f": {why}" if why else "")
    near = _near(name, len(vocabulary()))
    if near and near != name:
        help = f"did you mean {near}?"
    else:
        how = _OBJECT if _CLASS.match(name) else _DECLARE + module
        help = f"{how}; {also}" if also else how
    return Diagnostic(message, "unknown-primitive", help=help)


@functools.lru_cache(256)
def _near(name: str, _declared: int) -> str:
    """Return the primitive that a name may mean, or ""."""
    near = meant(name, PRIMITIVES)
    return near or next(iter(close_names(name, vocabulary())), "")


def printed_object(name: str, text: str) -> str:
    """Return the class of the object that `call_hi_primitive[_prim=Name[...]]` calls; for other
    primitives their name.
    """
    held = _HELD.match(text) if name == "call_hi_primitive" else None
    return held[1] if held else name
