"""Helpers of the rules of structural primitives: axes and shapes.

They check params that name axes, compute with axes, and apply operations only where they change something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes

__all__ = [
    "broadcasted",
    "bumped",
    "check_axes",
    "check_same_dtype",
    "check_sizes",
    "compare_by_parts",
    "full",
    "inverse_permutation",
    "inserted",
    "lexicographic",
    "lowest",
    "removed",
    "reshaped",
    "static_impl",
    "summed",
    "transposed",
    "varied",
    "with_dtype",
    "with_shape",
]


# -- types ---------------------------------------------------------------------------------------


def with_shape(aval: Aval, shape: tuple[Value, ...]) -> Value:
    """Return the type of arrays in another shape with the elements of `aval`; it has no sharding."""
    if aval.memory or aval.vary:
        return aval.update(shape=shape, weak_type=False, spec=())
    return ShapedArray(shape, aval.dtype)


def with_dtype(aval: Aval, dtype: DType) -> Value:
    """`aval` with another element type, not weak."""
    return aval.update(dtype=dtype, weak_type=False)


def check_axes(name: str, param: str, axes: Sequence[int], ndim: int, what: Any) -> None:
    """Reject axes that are out of [0, ndim) or that occur twice; `what` is shown in the message."""
    for axis in axes:
        if not 0 <= axis < ndim:
            ill_typed(f"{name} {param} {axis} is out of range for {what}", "axis-range")
    if len(axes) > 1 and len(set(axes)) != len(axes):
        ill_typed(f"{name} {param} {tuple(axes)} names an axis twice", "axis-twice")


def check_same_dtype(name: str, avals: Sequence[Aval]) -> None:
    """Reject operands of different element types."""
    if any(a.dtype is not avals[0].dtype for a in avals):
        given = " and ".join([str(a) for a in avals[:8]])
        ill_typed(
            f"{name} of {given}: the element types differ",
            "operand-types",
            help="convert one of them with convert_element_type",
        )


def check_sizes(name: str, param: str, sizes: Sequence[Value]) -> None:
    """Reject negative sizes."""
    for n in sizes:
        if isinstance(n, int) and n < 0:
            ill_typed(f"{name} {param} {tuple(sizes)} has a negative size", "negative-size")


# -- arithmetic of axes ----------------------------------------------------------------------------


def bumped(axes: Sequence[int], dim: int) -> tuple[int, ...]:
    """Convert axes of an example to axes of the batch, whose batch axis is `dim`."""
    return tuple([a + (a >= dim) for a in axes])


def inserted(items: Sequence[Value], position: int, item: Any) -> tuple[Value, ...]:
    """Return the items with one more, at `position`."""
    return (*items[:position], item, *items[position:])


def removed(items: Sequence[Value], positions: Sequence[int]) -> tuple[Value, ...]:
    """Return the items without those at some positions."""
    if len(positions) == 1:
        return (*items[: positions[0]], *items[positions[0] + 1 :])
    return tuple([x for i, x in enumerate(items) if i not in positions])


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


# -- operations that are left out where they do nothing ------------------------------------------------


def transposed(x: Value, permutation: Sequence[int]) -> Value:
    """x with its axes permuted."""
    if all(i == p for i, p in enumerate(permutation)):
        return x
    return lax.transpose(x, permutation=tuple(permutation))


def reshaped(x: Value, shape: tuple[int, ...]) -> Value:
    """x in another shape."""
    return x if get_aval(x).shape == shape else lax.reshape(x, new_sizes=shape)


def broadcasted(x: Value, shape: tuple[int, ...], dims: tuple[int, ...] = ()) -> OutAndDim:
    """x in a larger shape, its axes at `dims`."""
    if get_aval(x).shape == shape:
        return x
    return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims)


def summed(x: Value, axes: Sequence[int]) -> Value:
    """x summed over axes."""
    return lax.reduce_sum(x, axes=tuple(axes)) if axes else x


def varied(x: Value, names: Sequence[str]) -> Value:
    """x with a type that varies along these axes of a mesh."""
    missing = tuple(n for n in names if n not in varying_axes(get_aval(x)))
    return lax.pvary(x, axes=missing) if missing else x


def full(aval: Aval, value: Value) -> Value:
    """An array of type `aval` whose elements all are `value`, which is a Python number; a literal for rank 0."""
    scalar = scalar_lit(bool(value) if aval.dtype.kind == "b" else value, aval.dtype)
    return lax.broadcast_in_dim(scalar, shape=aval.shape) if aval.shape else scalar


# -- makers ----------------------------------------------------------------------------------------


def static_impl(make: Callable[..., Callable[..., Value]]) -> Callable[..., Value]:
    """Return an impl rule that computes what depends only on types and params once for each prepared equation.

    make(xp, *in_avals, **params) returns a function of the values.
    """

    def rule(xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        return make(xp, *map(get_aval, values), **params)(*values)

    def prepare(
        xp: Namespace, in_avals: Sequence[Aval], _: Any, params: Any
    ) -> Callable[..., Value]:
        return make(xp, *in_avals, **params)

    rule.prepare = prepare  # type: ignore[attr-defined]
    rule.__wrapped__ = make  # type: ignore[attr-defined]
    return rule


# -- largest and smallest elements ---------------------------------------------------------------------


def lowest(dtype: DType, sign: int = -1) -> Value:
    """The smallest number of an element type (sign -1), or the largest (sign 1), as a Python scalar."""
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind == "i":
        return -(1 << dtype.bits - 1) if sign < 0 else (1 << dtype.bits - 1) - 1
    if dtype.kind == "u":
        return 0 if sign < 0 else (1 << dtype.bits) - 1
    if dtype.kind == "c":
        return complex(sign * math.inf, 0)
    smallest, largest = _FINITE.get(dtype.name, (-math.inf, math.inf))
    return smallest if sign < 0 else largest


_FINITE = {  # the range of types that have no infinities
    "float4_e2m1fn": (-6.0, 6.0),
    "float6_e2m3fn": (-7.5, 7.5),
    "float6_e3m2fn": (-28.0, 28.0),
    "float8_e4m3b11fnuz": (-30.0, 30.0),
    "float8_e4m3fn": (-448.0, 448.0),
    "float8_e4m3fnuz": (-240.0, 240.0),
    "float8_e5m2fnuz": (-57344.0, 57344.0),
    "float8_e8m0fnu": (2.0**-127, 2.0**127),
}


def compare_by_parts(ctx: Value, direction: str, x: Value, y: Value) -> Value:
    """Write the comparison of complex numbers of one shape: by their real parts, then by their imaginary parts.

    `direction` is GT, GE, LT or LE.
    """
    part = x.aval.update(dtype=x.aval.dtype.real)
    (xr, yr), (xi, yi) = ([ctx.op(name, v, out=part) for v in (x, y)] for name in ("real", "imag"))
    by_real, by_imag = ctx.compare(direction, xr, yr), ctx.compare(direction, xi, yi)
    return ctx.select(ctx.compare("EQ", xr, yr), by_imag, by_real)


def lexicographic(ctx: Value, name: str) -> Value:
    """Return the operation for reducing complex numbers, which are ordered by real, then by imaginary part.

    `name` is the name of a StableHLO operation; any but `maximum` and `minimum` is returned as it
    is.
    """
    direction = {"maximum": "GT", "minimum": "LT"}.get(name)
    if direction is None:
        return name
    return lambda x, y: ctx.select(compare_by_parts(ctx, direction, x, y), x, y)
