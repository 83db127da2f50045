"""What is said of a primitive that nobody declares: the same in every verb."""

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
    """The message about a primitive that nobody declares.

    Args:
      name: of the primitive.
      why: what it is needed for, or who does not have it; or "".
      module: what stands for the module in the help.
      also: what else helps where no primitive has a name like it.
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
    """The primitive that a name may mean, or ""."""
    near = meant(name, PRIMITIVES)
    return near or next(iter(close_names(name, vocabulary())), "")


def printed_object(name: str, text: str) -> str:
    """The class of the object that `call_hi_primitive[_prim=Name[...]]` calls; the name itself of other primitives."""
    held = _HELD.match(text) if name == "call_hi_primitive" else None
    return held[1] if held else name
