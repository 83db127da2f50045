"""The params of a convolution, and the type of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import Record
from jaxprtool.makers.windows import check_entries, dilated, strided_size

__all__ = ["NAME", "Ints", "Specs", "conv_type", "specs_of", "take"]

Ints = tuple[int, ...]
NAME = "conv_general_dilated"


class Specs(NamedTuple):
    """dimension_numbers as tuples of axes: of lhs and out (batch, feature, *space), of rhs (output
    feature, input feature, *space).
    """

    lhs: Ints
    rhs: Ints
    out: Ints

    @property
    def record(self) -> Record:
        """The record that the param `dimension_numbers` holds."""
        return Record(
            "ConvDimensionNumbers", lhs_spec=self.lhs, rhs_spec=self.rhs, out_spec=self.out
        )


def specs_of(dimension_numbers: Any) -> Specs:
    """Return the value of the param dimension_numbers, a record or three tuples, as `Specs`."""
    n = dimension_numbers
    specs: Any = n
    if isinstance(n, Record):
        specs = n.args or [n.fields.get(f) for f in ("lhs_spec", "rhs_spec", "out_spec")]
    is_three = isinstance(specs, (tuple, list)) and len(specs) == 3
    if not is_three or not all(isinstance(s, (tuple, list)) for s in specs):
        ill_typed(f"{NAME} dimension_numbers {n} are no ConvDimensionNumbers", "dimension-numbers")
    return Specs(*map(tuple, specs))


def take(items: Sequence[Value], positions: Sequence[int]) -> list[Value]:
    """Return the items at some positions."""
    return [items[p] for p in positions]


def _check_specs(x: Value, y: Value, specs: Specs) -> None:
    if x.ndim != y.ndim or x.ndim < 2:
        ill_typed(
            f"{NAME} needs operands of one rank, at least 2, got {x} and {y}", "operand-shapes"
        )
    for param, spec in zip(("lhs_spec", "rhs_spec", "out_spec"), specs, strict=True):
        if sorted(spec) != list(range(x.ndim)):
            ill_typed(
                f"{NAME} dimension_numbers: {param} {spec} must name each of {x.ndim} axes once",
                "bad-permutation",
            )


def _check_groups(features: int, depth: int, outs: int, batch: int, groups: Ints) -> None:
    """Raise a type error for numbers of groups that do not divide or match the sizes.

    Args:
      features, batch: the sizes of the feature and batch axes of lhs.
      depth, outs: the numbers of input and output features of the kernel.
      groups: feature_group_count and batch_group_count.
    """
    feature_groups, batch_groups = groups
    for param, count in zip(("feature_group_count", "batch_group_count"), groups, strict=True):
        if count < 1:
            ill_typed(f"{NAME} {param} {count} must be positive", "group-count")
        if outs % count:
            ill_typed(
                f"{NAME} {param} {count} must divide the {outs} output features of rhs",
                "group-count",
            )
    if feature_groups > 1 and batch_groups > 1:
        ill_typed(
            f"{NAME} feature_group_count {feature_groups} and batch_group_count {batch_groups} "
            "cannot both be more than 1",
            "group-count",
        )
    if features % feature_groups or features // feature_groups != depth:
        ill_typed(
            f"{NAME} feature_group_count {feature_groups}: {features} features of lhs in groups are not "
            f"the {depth} input features of rhs",
            "group-count",
        )
    if batch % batch_groups:
        ill_typed(
            f"{NAME} batch_group_count {batch_groups} must divide the batch of {batch} of lhs",
            "group-count",
        )


# Kind of the operands' element type -> the kinds that preferred_element_type may have.
_PREFERRED = {"b": "biufc", "u": "uif", "i": "if", "f": "f", "c": "c"}


def _out_dtype(x: Value, y: Value, preferred: DType | None) -> DType:
    if x.dtype is not y.dtype:
        ill_typed(f"{NAME} needs operands of one element type, got {x} and {y}", "operand-types")
    if preferred is None or preferred is x.dtype:
        return x.dtype
    if preferred.kind not in _PREFERRED[x.dtype.kind] or preferred.bits < x.dtype.bits:
        ill_typed(
            f"{NAME} preferred_element_type {preferred} cannot hold products of {x.dtype}",
            "operand-types",
        )
    return preferred


def conv_type(
    x: Aval,
    y: Aval,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: Any,
    **_: Any,
) -> Aval:
    """Return the type of a convolution of operands of types x and y.

    Raises JaxprTypeError where the types and the params do not fit together.
    """
    specs = specs_of(dimension_numbers)
    _check_specs(x, y, specs)
    dtype = _out_dtype(x, y, preferred_element_type)
    n_space = x.ndim - 2
    check_entries(
        NAME,
        n_space,
        window_strides=window_strides,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
    )
    if len(padding) != n_space:
        ill_typed(
            f"{NAME} padding {padding} must have one entry for each of {n_space} spatial axes",
            "dimension-count",
        )
    (batch, features, *space), (outs, depth, *kernel) = (
        take(x.shape, specs.lhs),
        take(y.shape, specs.rhs),
    )
    _check_groups(features, depth, outs, batch, (feature_group_count, batch_group_count))
    padded = [dilated(n, d) + sum(p) for n, d, p in zip(space, lhs_dilation, padding, strict=True)]
    if any(n < 0 for n in padded):
        ill_typed(f"{NAME} padding {padding} cuts more off {x} than there is", "negative-size")
    sizes = [
        strided_size(n, dilated(k, d), s)
        for n, k, d, s in zip(padded, kernel, rhs_dilation, window_strides, strict=True)
    ]
    shape = [0] * x.ndim
    for axis, n in zip(specs.out, (batch // batch_group_count, outs, *sizes), strict=True):
        shape[axis] = n
    return ShapedArray(tuple(shape), dtype)
