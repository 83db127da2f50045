"""Values of params as Python expressions, which evaluate to equal values.

The names in them are those of `NAMES`; jaxprs are written as `parse('{ lambda ... }').jaxpr`, with `jaxprtool.parse`.
"""

from __future__ import annotations

from typing import Any, cast

from jaxprtool.ir.avals import (
    AbstractToken,
    AbstractType,
    AxisGroups,
    FutureType,
    OpaqueType,
    RefType,
    ShapedArray,
    SymbolicDim,
)
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.jaxpr import ClosedJaxpr, lossless_text
from jaxprtool.ir.params import (
    ElementClass,
    EnumMember,
    NumpyScalar,
    Opaque,
    OrderedSet,
    ParamValue,
    PrintedArray,
    PrintedFunction,
    RangeTuple,
    Record,
    Structured,
    Word,
)
from jaxprtool.ir.placement import Placement
from jaxprtool.ir.references import (
    Bitcast,
    Fragments,
    Indexer,
    IndexPart,
    Operand,
    RefIndex,
    Reshape,
    Slice,
    Transpose,
)
from jaxprtool.ir.sharding import Mesh, PartitionSpec
from jaxprtool.ir.trees import TreeDefinition

__all__ = ["NAMES", "python_source"]

NAMES: dict[str, Any] = {
    x.__name__: x
    for x in (
        *(
            AbstractToken,
            AxisGroups,
            FutureType,
            OpaqueType,
            RefType,
            ShapedArray,
            SymbolicDim,
            find_dtype,
        ),
        *(
            NumpyScalar,
            Opaque,
            OrderedSet,
            PrintedArray,
            PrintedFunction,
            RangeTuple,
            Record,
            Word,
            Mesh,
            PartitionSpec,
            Placement,
            TreeDefinition,
        ),
        *(ElementClass, EnumMember),
        *(RefIndex, Indexer, Reshape, Transpose, Bitcast, Slice, Operand, Fragments),
    )
} | {"inf": float("inf"), "nan": float("nan")}


def python_source(value: ParamValue) -> str:
    """Return a value as a Python expression.

    Raises:
      TypeError: the value is of no class that params hold.
    """
    if isinstance(value, ClosedJaxpr):
        return f"parse({lossless_text(value)!r})"
    if isinstance(value, Record):
        parts = [repr(value.name), _tuple(value.args)]
        parts += [f"{k}={python_source(v)}" for k, v in value.fields.items()]
        return f"Record({', '.join(parts)})"
    if isinstance(value, NumpyScalar):
        return f"NumpyScalar({int(value)}, {value.type_name!r})"
    if isinstance(value, Placement):
        return f"Placement{_tuple(tuple(value))}"
    if isinstance(value, RangeTuple):
        return f"RangeTuple({value.bounds!r})"
    if type(value) is PrintedFunction:
        return f"PrintedFunction({value.text!r}, {value.path!r})"
    if isinstance(value, Opaque):
        return f"Opaque({value.text!r})"
    if isinstance(value, (Word, SymbolicDim)):
        return f"{'Word' if isinstance(value, Word) else 'SymbolicDim'}({str.__repr__(value)})"
    if isinstance(value, PartitionSpec):
        parts = [python_source(d) for d in value.dims]
        parts += [
            f"{k}={python_source(getattr(value, k))}"
            for k in ("unreduced", "reduced")
            if getattr(value, k)
        ]
        parts += [f"kind={value.kind!r}"] if value.kind else []
        return f"PartitionSpec({', '.join(parts)})"
    if isinstance(value, (DType, AbstractType, AxisGroups, IndexPart, OrderedSet, Structured)):
        made, args = cast("tuple[Any, tuple[Any, ...]]", value.__reduce__()[:2])
        return f"{made.__name__}({', '.join(map(python_source, args))})"
    return _plain(value)


def _plain(value: ParamValue) -> str:
    """Return the expression of a value for which Python has a display or a constructor."""
    if isinstance(value, tuple):
        return _tuple(value)
    if isinstance(value, list):
        return f"[{', '.join(map(python_source, value))}]"
    if isinstance(value, dict):
        pairs = [f"{python_source(k)}: {python_source(v)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, frozenset):
        return (
            f"frozenset({{{', '.join(sorted(map(python_source, value)))}}})"
            if value
            else "frozenset()"
        )
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, slice)):
        return repr(value)
    raise TypeError(f"no param holds a {type(value).__name__}: {value!r}")


def _tuple(items: tuple[Any, ...]) -> str:
    parts = [python_source(x) for x in items]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
