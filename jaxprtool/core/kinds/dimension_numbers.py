"""Kinds of dimension numbers: which axes of operands and results an operation acts along."""

from __future__ import annotations

from typing import Annotated, Any

from jaxprtool.core.kinds.containers import TupleOf, either
from jaxprtool.core.kinds.numbers import INTEGER
from jaxprtool.ir.kinds import Kind, Style
from jaxprtool.ir.params import ParamValue, Record

__all__ = [
    "ConvNumbers",
    "DotNumbers",
    "GatherNumbers",
    "PlainDotNumbers",
    "RaggedDotNumbers",
    "ScatterNumbers",
]

_INTS = TupleOf(INTEGER)


def _tuples(value: ParamValue) -> Any:
    """Return a value with tuples in the place of lists, at any depth."""
    if not isinstance(value, (tuple, list)):
        return value
    items = tuple(map(_tuples, value))
    same = isinstance(value, tuple) and all(a is b for a, b in zip(items, value, strict=True))
    return value if same else items


class DimensionNumbers(Kind):
    """Records whose fields hold tuples of axes.

    The fields in `more` are empty where a text lacks them (JAX to 0.4.34).
    """

    code = "dimension-numbers"

    def __init__(
        self, name: str, constructor: str, fields: dict[str, Kind], more: tuple[str, ...] = ()
    ):
        named = ", ".join([*fields, *more])
        super().__init__(name, f"{constructor}({named})", f"{constructor}s")
        self.constructor, self.fields, self.more = constructor, fields, more

    def fits(self, value: ParamValue) -> bool:
        fields: dict[str, Any] | None = getattr(value, "fields", None)
        if not isinstance(fields, dict) or getattr(value, "name", "") != self.constructor:
            return False
        return all(f in fields and kind.fits(fields[f]) for f, kind in self.fields.items()) and (
            all(f not in fields or _INTS.fits(fields[f]) for f in self.more)
        )

    def read(self, value: ParamValue) -> Any:
        if not isinstance(value, Record):
            return value
        fields = {f: _tuples(x) for f, x in value.fields.items()}
        if value.name == self.constructor:
            fields = {**fields, **{f: () for f in self.more if f not in fields}}
        if len(fields) == len(value.fields) and all(
            x is value.fields[f] for f, x in fields.items()
        ):
            return value
        return Record(value.name, value.args, **fields)

    def given(self, value: Any) -> Any:
        return self.read(value)


def _lists(pair: ParamValue) -> ParamValue:
    """Return a tuple of tuples with lists in the place of the inner tuples; any other value as it is."""
    return tuple(map(_list, pair)) if isinstance(pair, tuple) else pair


def _list(axes: ParamValue) -> ParamValue:
    return list(axes) if isinstance(axes, tuple) else axes


class _DotNumbers(TupleOf):
    """((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs))."""

    prints_itself = False

    def printed(self, value: ParamValue, style: Style) -> Any:
        """Return the value with its inner tuples as lists, as JAX prints them."""
        if not isinstance(value, tuple):
            return value
        return tuple(map(_lists, value))


DOT_NUMBERS = _DotNumbers(
    TupleOf(_INTS, 2),
    2,
    name="DotNumbers",
    note="((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs))",
)
PLAIN_DOT_NUMBERS = TupleOf(DOT_NUMBERS.item, 2, name="PlainDotNumbers", note=DOT_NUMBERS.note)
GATHER_NUMBERS = DimensionNumbers(
    "GatherNumbers",
    "GatherDimensionNumbers",
    dict.fromkeys(("offset_dims", "collapsed_slice_dims", "start_index_map"), _INTS),
    ("operand_batching_dims", "start_indices_batching_dims"),
)
SCATTER_NUMBERS = DimensionNumbers(
    "ScatterNumbers",
    "ScatterDimensionNumbers",
    dict.fromkeys(
        ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"), _INTS
    ),
    ("operand_batching_dims", "scatter_indices_batching_dims"),
)
_CONV_RECORD = DimensionNumbers(
    "ConvRecord",
    "ConvDimensionNumbers",
    dict.fromkeys(("lhs_spec", "rhs_spec", "out_spec"), _INTS),
)
RAGGED_NUMBERS = DimensionNumbers(
    "RaggedDotNumbers",
    "RaggedDotDimensionNumbers",
    {
        "dot_dimension_numbers": TupleOf(TupleOf(_INTS, 2), 2),
        "lhs_ragged_dimensions": _INTS,
        "rhs_group_dimensions": _INTS,
    },
)


CONV_NUMBERS = either(_CONV_RECORD, TupleOf(_INTS, 3), name="ConvNumbers")
_Pair = tuple[tuple[int, ...], tuple[int, ...]]
DotNumbers = Annotated[tuple[_Pair, _Pair], DOT_NUMBERS]
PlainDotNumbers = Annotated[tuple[_Pair, _Pair], PLAIN_DOT_NUMBERS]  # which JAX prints as tuples
GatherNumbers = Annotated[Any, GATHER_NUMBERS]
ScatterNumbers = Annotated[Any, SCATTER_NUMBERS]
ConvNumbers = Annotated[Any, CONV_NUMBERS]
RaggedDotNumbers = Annotated[Any, RAGGED_NUMBERS]
