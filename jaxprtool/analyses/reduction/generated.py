"""Values that hold no data of the original: zeros, ones, ramps, random numbers, single powers of ten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.jaxpr import Value, Var

__all__ = [
    "GENERATED",
    "drawn",
    "generated",
    "holds_data",
    "is_generated",
    "powers_near",
    "same_value",
    "uniform",
]

GENERATED = ("zeros", "ones", "ramp")
_SIGNED = "ifc"  # kinds of types that have a -1


def generated(v: Var) -> list[Value]:
    """Return the values of a type that hold no data: 0, 1, a ramp, and -1 where the type has it."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    forms = [arrays.generate(kind, 0, 0, v.aval) for kind in GENERATED]
    return [*forms, -forms[1]] if v.aval.dtype.kind in _SIGNED else forms


def is_generated(v: Var, x: Value) -> bool:
    """Whether a value is one of `generated`, or `drawn`."""
    return any(same_value(form, x) for form in [*generated(v), drawn(v)])


def drawn(v: Var) -> Value:
    """Return random numbers of a type, always the same ones."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    return arrays.generate("random", 0, 0, v.aval)


def uniform(v: Var, x: Value) -> Iterator[Value]:
    """Yield values without data that are about as large as x: one power of ten wherever x is finite, of either sign.

    Args:
      v: the variable; for types other than floats and integers there are no values.
      x: the value, whose infinities and NaNs stay.
    """
    if v.aval.dtype.kind not in "fiu":
        return
    xp = numpy_namespace()
    wide = xp.asarray(x, "float64")
    sizes = xp.abs(wide[xp.isfinite(wide)])
    largest = float(sizes.max()) if sizes.size else 0.0
    for size in powers_near(largest) if largest else [1.0]:
        for signed in (size, -size):
            with xp.errstate(all="ignore"):
                made = xp.where(xp.isfinite(wide), signed, wide).astype(x.dtype)
            if _is_uniform(v, made):
                yield made


def powers_near(size: float) -> list[float]:
    """Return the powers of ten next to a positive number, the larger one first."""
    exponent = int(f"{size:e}".partition("e")[2])
    return [float(f"1e{k}") for k in (exponent + 1, exponent)]


def _is_uniform(v: Var, x: Value) -> bool:
    """Whether the finite elements of a value are all the same power of ten, of one sign."""
    if v.aval.dtype.kind not in "fiu":
        return False
    xp = numpy_namespace()
    wide: Any = xp.asarray(x, "float64")
    finite = wide[xp.isfinite(wide)]
    if not finite.size:
        return True
    first = float(finite[0])
    if not first or not (finite == first).all():
        return False
    with xp.errstate(all="ignore"):
        powers = xp.asarray(powers_near(abs(first))).astype(x.dtype).astype("float64")
    return bool((powers == abs(first)).any())


def holds_data(v: Var, x: Value) -> bool:
    """Whether a value holds data of the original: it is neither generated, nor one power of ten wherever it is finite."""
    return not is_generated(v, x) and not _is_uniform(v, x)


def same_value(a: Value, b: Value) -> bool:
    """Whether two values have the same bits."""
    a, b = map(numpy_namespace().words, (a, b))
    return a.tobytes() == b.tobytes()
