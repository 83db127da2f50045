"""Values of a type that hold no data."""

from __future__ import annotations

from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Value, Var

__all__ = ["GENERATED", "drawn", "generated", "is_generated", "same_value"]

GENERATED = ("zeros", "ones", "ramp")
_SIGNED = "ifc"  # kinds of types that have -1


def generated(v: Var) -> list[Value]:
    """The values of a type that hold no data: 0, 1, a ramp, -1."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    forms = [arrays.generate(kind, 0, 0, v.aval) for kind in GENERATED]
    return [*forms, -forms[1]] if v.aval.dtype.kind in _SIGNED else forms


def is_generated(v: Var, x: Value) -> bool:
    """Whether a value is one of those that hold no data, or drawn at random from a seed."""
    return any(same_value(form, x) for form in [*generated(v), drawn(v)])


def drawn(v: Var) -> Value:
    """Random numbers of a type."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    return arrays.generate("random", 0, 0, v.aval)


def same_value(a: Value, b: Value) -> bool:
    """Whether two values have the same bits."""
    a, b = map(numpy_namespace().words, (a, b))
    return a.tobytes() == b.tobytes()
