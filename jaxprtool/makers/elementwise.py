"""Makers of the rules of elementwise operations: types, broadcasting, NumPy functions.

Operands of an elementwise operation have one element type; their shapes are equal, or of equal
rank where a dimension of size 1 stretches, or rank 0. The result has the common shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import broadcast_batch, elementwise_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import broadcasted, check_same_dtype, full

__all__ = [
    "as_dtype",
    "boolean",
    "by_kind",
    "byte_type",
    "broadcast_avals",
    "check_kind",
    "broadcast_to",
    "elementwise",
    "full_like",
    "in_bytes",
    "in_float32",
    "nary",
    "numpy_function",
    "unbroadcast",
    "where",
]

Result = Callable[[ShapedArray], ShapedArray] | None

_KINDS = {
    "b": "boolean",
    "i": "signed integer",
    "u": "unsigned integer",
    "f": "floating",
    "c": "complex",
    "k": "PRNG key",
}


# -- types -------------------------------------------------------------------------------------


def elementwise(kinds: str, result: Result = None) -> dict[str, Any]:
    """Return the columns abstract_eval, batch and cost of an operation of one operand.

    Args:
      kinds: the kinds of element types it takes (`DType.kind`), such as "fc".
      result: returns the result's type given the operand's; None for the same type.
    """
    return {
        "abstract_eval": Maker(lambda op: _unary_type(op.primitive.name, kinds, result)),
        "batch": elementwise_batch,
        "cost": AS_LOWERED,
    }


def nary(kinds: str, result: Result = None, cost: Any = AS_LOWERED) -> dict[str, Any]:
    """Return the columns abstract_eval, batch and cost of an operation of two operands of one element type.

    Args:
      kinds: the kinds of element types it takes.
      result: returns the result's type given the common type of the operands; None for that type
        itself.
      cost: the cost rule.
    """
    return {
        "abstract_eval": Maker(lambda op: _binary_type(op.primitive.name, kinds, result)),
        "batch": broadcast_batch,
        "cost": cost,
    }


@functools.cache
def boolean(aval: ShapedArray) -> ShapedArray:
    """The boolean type of the same shape."""
    return aval.strong.update(dtype=BOOL)


def check_kind(name: str, aval: ShapedArray, kinds: str) -> None:
    """Raise a type error when an operand's element type is not of one of the kinds."""
    if not isinstance(aval, ShapedArray) or aval.dtype.kind not in kinds:
        takes = " or ".join(_KINDS[k] for k in kinds)
        ill_typed(
            f"{name} does not take {aval}: its element type has to be {takes}", "operand-dtype"
        )


def _unary_type(name: str, kinds: str, result: Result) -> Callable[..., ShapedArray]:
    def rule(x: ShapedArray, **_params: ParamValue) -> ShapedArray:
        if x.dtype.kind not in kinds:
            check_kind(name, x, kinds)
        return x if result is None else result(x)

    return rule


def _binary_type(name: str, kinds: str, result: Result) -> Callable[..., ShapedArray]:
    def rule(x: ShapedArray, y: ShapedArray, **_params: ParamValue) -> ShapedArray:
        dtype = x.dtype
        if dtype.kind not in kinds or dtype is not y.dtype:
            check_kind(name, x, kinds)
            check_kind(name, y, kinds)
            check_same_dtype(name, (x, y))
        out = common_aval(name, x, y)
        return out if result is None else result(out)

    return rule


def common_aval(name: str, x: ShapedArray, y: ShapedArray) -> ShapedArray:
    """The type of the common shape of two operands of one element type; see `broadcast_avals`."""
    if x is y or not y.shape:
        return x
    return broadcast_avals(name, (x, y)) if x.shape else y


def broadcast_avals(name: str, avals: Sequence[ShapedArray]) -> ShapedArray:
    """Return the type of the common shape, with the first operand's element type.

    Raises JaxprTypeError when the ranks differ (rank 0 apart) or a dimension differs and is not 1.
    """
    full = [a for a in avals if a.shape]
    first = full[0] if full else avals[0]
    if all(a.shape == first.shape for a in full):
        return first if first.dtype is avals[0].dtype else first.update(dtype=avals[0].dtype)
    shape = []
    if all(a.ndim == first.ndim for a in full):
        for sizes in zip(*[a.shape for a in full], strict=True):
            stretched = {d for d in sizes if d != 1} or {1}
            shape.append(stretched.pop())
            if stretched:
                shape = []
                break
    if not shape:
        given = ", ".join(map(str, avals))
        ill_typed(
            f"{name} of {given}: the shapes do not fit together",
            "operand-shapes",
            help="operands have one shape, or rank 0; broadcast_in_dim makes shapes equal",
        )
    return ShapedArray(tuple(shape), avals[0].dtype)


# -- broadcasting of tangents and cotangents -----------------------------------------------------


def full_like(x: Value, value: Value) -> Value:
    """`value` in the shape and element type of `x`: a literal for rank 0."""
    return full(get_aval(x), value)


def as_dtype(x: Value, dtype: DType) -> Value:
    """Return x converted to another element type."""
    return x if get_aval(x).dtype is dtype else lax.convert_element_type(x, new_dtype=dtype)


def where(mask: Value, x: Value, y: Value) -> Value:
    """Return the elements of x where a mask of their shape is True, else those of y."""
    return lax.select_n(mask, y, x)


def broadcast_to(x: Value, shape: tuple[int, ...]) -> Value:
    """`x` stretched to the shape of an operation's result; no operation when it has it already."""
    return broadcasted(x, shape, tuple(range(get_aval(x).ndim)))


def unbroadcast(ct: Value, aval: ShapedArray) -> Value:
    """The cotangent of an operand of type `aval` that was stretched to the shape of `ct`."""
    shape = get_aval(ct).shape
    if shape == aval.shape:
        return ct
    if not aval.shape:
        return lax.reduce_sum(ct, axes=tuple(range(len(shape))))
    axes = tuple(i for i, (d, e) in enumerate(zip(shape, aval.shape, strict=True)) if d != e)
    return lax.reshape(lax.reduce_sum(ct, axes=axes), new_sizes=aval.shape)


# -- NumPy ---------------------------------------------------------------------------------------


class numpy_function:
    """Return an impl rule that calls one function of the namespace.

    Prepared programs call that function directly.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __call__(self, xp: Namespace, *values: Value, **_params: ParamValue) -> Value:
        return getattr(xp, self.name)(*values)

    def prepare(
        self, xp: Namespace, _in_avals: Any, _out_avals: Any, _params: Any
    ) -> Callable[..., Value]:
        return getattr(xp, self.name)


class by_kind:
    """Return an impl rule with formulas of its own for some kinds of element types.

    Prepared programs call these directly.

    Args:
      rule: the impl rule of all other kinds.
      formulas: for a kind of the first operand (`DType.kind`), a function `f(xp, *values)`.
    """

    __slots__ = ("formulas", "rule")

    def __init__(self, rule: Any, **formulas: Callable[..., Any]):
        self.rule, self.formulas = rule, formulas

    def __call__(self, xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        formula = self.formulas.get(values[0].dtype.kind)
        return self.rule(xp, *values, **params) if formula is None else formula(xp, *values)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        formula = self.formulas.get(in_avals[0].dtype.kind)
        if formula is not None:
            return functools.partial(formula, xp)
        if hasattr(self.rule, "prepare"):
            return self.rule.prepare(xp, in_avals, out_avals, params)
        return functools.partial(self.rule, xp, **params)


def byte_type(xp: Namespace, dtype: DType | None) -> Any:
    """Return the 8-bit NumPy type for narrower integers, for which NumPy has few functions; None for other types."""
    if dtype is None or dtype.bits >= 8 or not dtype.is_integer:
        return None
    return xp.int8 if dtype.kind == "i" else xp.uint8


class in_bytes:
    """Return the impl rule of `f(xp, *values)` that computes integers narrower than a byte in 8
    bits and wraps the result.
    """

    __slots__ = ("rule",)

    def __init__(self, rule: Any):
        self.rule = rule

    def __call__(self, xp: Namespace, *values: Value) -> Value:
        wide = byte_type(xp, dtype_of(values[0].dtype))
        if wide is None:
            return self.rule(xp, *values)
        return self.widened(xp, wide, *values)

    def widened(self, xp: Namespace, wide: Value, *values: Value) -> Value:
        """Apply the rule to the values in 8 bits, and wrap the result to their own type."""
        return self.rule(xp, *[v.astype(wide) for v in values]).astype(values[0].dtype)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        wide = byte_type(xp, in_avals[0].dtype)
        if wide is not None:
            return functools.partial(self.widened, xp, wide)
        if hasattr(self.rule, "prepare"):
            return self.rule.prepare(xp, in_avals, out_avals, params)
        return functools.partial(self.rule, xp)


class in_float32:
    """Return the impl rule of `f(xp, *values, **params)` that computes narrower floats in f32.

    XLA's CPU backend does the same: it widens bf16 and f16, computes, and rounds once.
    """

    __slots__ = ("f",)

    def __init__(self, f: Callable[..., Value]):
        self.f = f

    def __call__(self, xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        dtype = dtype_of(values[0].dtype)
        narrow = dtype is not None and dtype.kind == "f" and dtype.bits < 32
        return (self.widened if narrow else self.f)(xp, *values, **params)

    def widened(self, xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        """Apply f to the values as f32, and round the result to their own type."""
        wide = [v.astype(xp.float32) for v in values]
        return self.f(xp, *wide, **params).astype(values[0].dtype)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], _out_avals: Any, params: Any
    ) -> Callable[..., Value]:
        dtype = in_avals[0].dtype
        narrow = dtype.kind == "f" and dtype.bits < 32
        return functools.partial(self.widened if narrow else self.f, xp, **params)
