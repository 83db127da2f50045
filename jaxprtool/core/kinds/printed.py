"""Determine from a printed text which object of a running JAX it shows: its class, or whether it can be a function."""

from __future__ import annotations

import re

from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import (
    EnumMember,
    Opaque,
    ParamValue,
    Record,
    Structured,
    Word,
)

__all__ = ["class_named", "is_known", "may_be_function"]

# `<jax._src.layout.AutoLayout object at 0x7f00>`, `<LogRecord: jax, 20>`, `<MemorySpace.VMEM: 'vmem'>`, `TPU_0(process=0)`.
_CLASS = re.compile(r"<(?:\w+\.)*?(\w+)(?:\.[A-Z0-9_]+)?(?: object\b|:)|(?:\w+\.)*(\w+)\(")
_TYPE = re.compile(r"~?(?:\w+\[|(?:Mem)?Ref(?:<[^>]*>)?\{)")
_OF_OTHERS = (
    *(bool, int, float, complex, tuple, list, dict, frozenset, slice, type(Ellipsis)),
    *(DType, AbstractType, ClosedJaxpr, Structured),
)


def is_known(value: ParamValue) -> bool:
    """Whether the value is a live object of a running JAX, which accepted it as this param."""
    return getattr(value, "value", None) is not None and not isinstance(value, EnumMember)


def class_named(value: ParamValue) -> str:
    """Return the class, without its module, of the object that a value shows.

    For a member of an enum it is the enum; "" where no class is named.
    """
    if isinstance(value, Record):
        return value.name.rpartition(".")[2]
    if isinstance(value, EnumMember):
        return value.enum.rpartition(".")[2]
    if isinstance(value, Word):
        return value.rpartition(".")[0].rpartition(".")[2]
    found = _CLASS.match(value.text) if isinstance(value, Opaque) else None
    return (found[1] or found[2]) if found else ""


def may_be_function(value: ParamValue) -> bool:
    """Whether a value may show a function or another callable, whose print may be any text, or None for no function.

    False for what the reader recognises as something else: a type, an element type or a member of
    an enum.
    """
    if isinstance(value, _OF_OTHERS):
        return False
    if type(value) is Opaque:
        return value.text[:1] not in "([{" and not _TYPE.match(value.text)
    if isinstance(value, str):
        word = isinstance(value, Word) and "." not in value and find_dtype(value) is None
        return word or is_known(value)
    return True
