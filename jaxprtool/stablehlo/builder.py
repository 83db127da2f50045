"""Writing StableHLO operations: the methods that lowering rules call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, INT8, UINT8, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.stablehlo.text import (
    attribute,
    dense,
    int_list,
    mlir_type,
    scalar_text,
)
from jaxprtool.syntax.types import exact_text

__all__ = [
    "ELEMENTWISE",
    "Builder",
    "HloValue",
    "int_pairs",
    "new_value",
    "result_types",
    "types_of",
]


class HloValue(NamedTuple):
    """An SSA value: its name and its type."""

    name: str
    aval: Any


# A value of a tuple of name and type. It takes half the time of a call of the class.
new_value: Callable[[tuple[str, Any]], HloValue] = partial(tuple.__new__, HloValue)  # pyright: ignore[reportUnknownMemberType]


# Operations whose short form is `stablehlo.name %a, %b : type`, or `: (types) -> type`.
_SHORT_FORM = """
    abs add and atan2 cbrt ceil clamp complex convert cosine count_leading_zeros divide exponential
    exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply
    negate not or popcnt power real remainder reshape round_nearest_afz round_nearest_even rsqrt
    shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor
"""
ELEMENTWISE = frozenset(_SHORT_FORM.split())
_COMPARE_KIND = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}


class Builder(ABC):
    """Writes operations, one a line.

    Attributes:
      lines: the text so far.
      depth: the number of regions around the next operation.
    """

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.indent = "    "
        self.counter = 0
        self.depth = 0
        self.constants: dict[tuple[Any, str], HloValue] = {}

    @property
    @abstractmethod
    def out_aval(self) -> Aval:
        """The result type of operations that are written without one."""

    def fresh_name(self) -> str:
        """Return a name that no value of the function has."""
        self.counter += 1
        return f"%{self.counter - 1}"

    # -- writing operations ------------------------------------------------------------------

    def write(self, text: str, aval: Aval) -> HloValue:
        """Write an operation in its short form; `text` is all that follows the `=`."""
        name = f"%{self.counter}"
        self.counter += 1
        self.lines.append(f"{self.indent}{name} = {text}")
        return new_value((name, aval))

    def write_many(self, text: str, avals: Sequence[Aval]) -> list[HloValue]:
        """Write an operation with any number of results."""
        if len(avals) == 1:
            return [self.write(text, avals[0])]
        name = f"%{self.counter}"
        self.counter += 1
        count = len(avals)
        self.lines.append(
            f"{self.indent}{name}:{count} = {text}" if count else f"{self.indent}{text}"
        )
        return [new_value((f"{name}#{i}", a)) for i, a in enumerate(avals)]

    def op(
        self,
        name: str,
        /,
        *operands: HloValue,
        out: ParamValue = None,
        regions: Sequence[str] = (),
        **attrs: ParamValue,
    ) -> Value:
        """Write any operation.

        Args:
          name: `sine` for stablehlo.sine; a name with a dot (`chlo.erf`) is used as it is.
          operands: its operands.
          out: the type of the result, or a list of them; by default that of the equation.
          regions: texts made by `region`.
          attrs: attributes; see `text.attribute` for the values they take.

        Returns:
          The result, or a list when `out` is one.
        """
        if out is None:
            out = self.out_aval
        if name in ELEMENTWISE and not attrs:
            return self._elementwise(name, operands, out)
        full = name if "." in name else f"stablehlo.{name}"
        outs = out if isinstance(out, list) else [out]
        names = ", ".join([x.name for x in operands])
        ins = ", ".join([mlir_type(x.aval) for x in operands])
        props: list[str] = []
        extra: list[str] = []
        for k, v in attrs.items():
            (extra if "." in k else props).append(f"{k} = {attribute(v)}")
        text = f'"{full}"({names})'
        text += f" <{{{', '.join(props)}}}>" if props else ""
        text += f" ({', '.join(regions)})" if regions else ""
        text += f" {{{', '.join(extra)}}}" if extra else ""
        text += f" : ({ins}) -> {result_types(outs)}"
        results = self.write_many(text, outs)
        return results if isinstance(out, list) else results[0]

    def _elementwise(self, name: str, operands: Sequence[HloValue], out: Value) -> HloValue:
        kind = mlir_type(out)
        types = [mlir_type(x.aval) for x in operands]
        for t in types:
            if t != kind:
                kind = f"({', '.join(types)}) -> {kind}"
                break
        return self.write(f"stablehlo.{name} {', '.join([x.name for x in operands])} : {kind}", out)

    def region(self, avals: Sequence[Aval], body: Callable[..., Value]) -> str:
        """Return the text of a region: `body` takes its arguments and returns its results (one or a list)."""
        args, inner = self.block(avals, body, "stablehlo.return")
        indent = self.indent
        header = ", ".join([f"{x.name}: {mlir_type(x.aval)}" for x in args])
        return (
            f"{{\n{indent}^bb0({header}):\n{inner}\n{indent}}}"
            if args
            else f"{{\n{inner}\n{indent}}}"
        )

    def block(
        self, avals: Sequence[Aval], body: Callable[..., Value], terminator: str
    ) -> tuple[list[HloValue], str]:
        """Return the arguments and the text of a block of operations that ends with `terminator`."""
        lines, constants, indent = self.lines, self.constants, self.indent
        self.lines, self.constants, self.indent = [], {}, indent + "  "
        self.depth += 1
        args = [new_value((f"%{i}", a)) for i, a in enumerate(avals, self.counter)]
        self.counter += len(args)
        outs = body(*args)
        self.write_return(terminator, [outs] if isinstance(outs, HloValue) else outs)
        inner = "\n".join(self.lines)
        self.lines, self.constants, self.indent = lines, constants, indent
        self.depth -= 1
        return args, inner

    def write_return(self, op: str, outs: Sequence[HloValue]) -> None:
        """Write the end of a region or function."""
        names, types = ", ".join([x.name for x in outs]), types_of(outs)
        self.lines.append(f"{self.indent}{op} {names} : {types}" if outs else f"{self.indent}{op}")

    # -- constants ---------------------------------------------------------------------------

    def constant(self, value: Value, aval: Aval) -> HloValue:
        """A scalar of any dtype (bool, int, float, complex) in every element of a type."""
        shape, dtype = aval.shape, aval.dtype
        if shape:
            return self.broadcast(self.constant(value, ShapedArray((), dtype)), aval)
        key = (aval, exact_text(value))
        found = self.constants.get(key)
        if found is None:
            text = f"stablehlo.constant dense<{scalar_text(value, dtype)}> : {mlir_type(aval)}"
            found = self.constants[key] = self.write(text, aval)
        return found

    def array(self, values: Sequence[Value], aval: Aval) -> HloValue:
        """An array constant, from a NumPy array or nested lists."""
        text = f"stablehlo.constant {dense(values, aval)} : {mlir_type(aval)}"
        return self.write(text, aval.physical)

    # -- operations that many rules use --------------------------------------------------------

    def broadcast(self, x: HloValue, aval: Aval, dims: Sequence[int] = ()) -> HloValue:
        """broadcast_in_dim: dimension i of x becomes dimension dims[i] of the result."""
        if mlir_type(x.aval) == mlir_type(aval) and [*dims] == sorted(dims):
            return x
        types = f"({mlir_type(x.aval)}) -> {mlir_type(aval)}"
        return self.write(
            f"stablehlo.broadcast_in_dim {x.name}, dims = {int_list(dims)} : {types}", aval
        )

    def broadcast_scalars(self, *xs: HloValue) -> list[HloValue]:
        """Broadcast the values of rank 0 to the shape of the others."""
        shape = max((x.aval.shape for x in xs), key=len)
        return [self.fill(x, shape) for x in xs]

    def fill(self, x: HloValue, shape: tuple[int, ...]) -> HloValue:
        """Stretch x to a shape: from rank 0, or along dimensions of size 1."""
        aval = x.aval
        if aval.shape == shape:
            return x
        out = ShapedArray(shape, aval.dtype)
        if aval.shape:
            return self.broadcast(x, out, range(len(aval.shape)))
        types = f"({mlir_type(aval)}) -> {mlir_type(out)}"
        return self.write(f"stablehlo.broadcast_in_dim {x.name}, dims = [] : {types}", out)

    def convert(self, x: HloValue, dtype: DType) -> HloValue:
        """Convert x to another element type, with the meaning of stablehlo.convert."""
        if x.aval.dtype is dtype:
            return x
        return self.op("convert", x, out=ShapedArray(x.aval.shape, dtype))

    def widened(self, x: HloValue) -> HloValue:
        """Convert integers of 2 bits to 8 bits, for operations where XLA's CPU backend fails on them."""
        dtype = x.aval.dtype
        if dtype.bits != 2:
            return x
        return self.convert(x, INT8 if dtype.kind == "i" else UINT8)

    def reshape(self, x: HloValue, shape: Sequence[int]) -> HloValue:
        """The elements of x in row-major order, in another shape."""
        if x.aval.shape == tuple(shape):
            return x
        return self.op("reshape", x, out=ShapedArray(tuple(shape), x.aval.dtype))

    def compare(
        self, direction: str, x: HloValue, y: HloValue, kind: str | None = None
    ) -> HloValue:
        """x < y and the like: direction EQ, NE, LT, LE, GT or GE; `kind` TOTALORDER if not the usual."""
        x, y = self.broadcast_scalars(x, y)
        kind = kind or _COMPARE_KIND[x.aval.dtype.kind]
        out = ShapedArray(x.aval.shape, BOOL)
        t = mlir_type(x.aval)
        text = f"stablehlo.compare {direction}, {x.name}, {y.name}, {kind}"
        return self.write(f"{text} : ({t}, {t}) -> {mlir_type(out)}", out)

    def select(self, pred: HloValue, x: HloValue, y: HloValue) -> HloValue:
        """x where pred, else y; pred has their shape or rank 0."""
        x, y = self.broadcast_scalars(x, y)
        pred = pred if not pred.aval.shape or x.aval.shape else self.reshape(pred, ())
        types = f"{mlir_type(pred.aval)}, {mlir_type(x.aval)}"
        return self.write(f"stablehlo.select {pred.name}, {x.name}, {y.name} : {types}", x.aval)

    def transpose(self, x: HloValue, perm: Sequence[int]) -> HloValue:
        """Axis i of the result is axis perm[i] of x."""
        if list(perm) == list(range(len(perm))):
            return x
        out = ShapedArray(tuple(x.aval.shape[p] for p in perm), x.aval.dtype)
        types = f"({mlir_type(x.aval)}) -> {mlir_type(out)}"
        return self.write(f"stablehlo.transpose {x.name}, dims = {int_list(perm)} : {types}", out)

    def slice(
        self,
        x: HloValue,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> HloValue:
        """x[starts:limits:strides]."""
        strides = strides or [1] * len(starts)
        parts = list(zip(starts, limits, strides, strict=True))
        out = ShapedArray(tuple([-(-(b - a) // s) for a, b, s in parts]), x.aval.dtype)
        if out.shape == x.aval.shape:
            return x
        ranges = ", ".join([f"{a}:{b}:{s}" if s != 1 else f"{a}:{b}" for a, b, s in parts])
        types = f"({mlir_type(x.aval)}) -> {mlir_type(out)}"
        return self.write(f"stablehlo.slice {x.name} [{ranges}] : {types}", out)

    def concatenate(self, xs: Sequence[HloValue], dim: int) -> HloValue:
        """The values one after the other along a dimension."""
        if len(xs) == 1:
            return xs[0]
        if xs[0].aval.dtype.bits == 2:  # which XLA's CPU backend aborts the process for
            wide = self.concatenate([self.widened(x) for x in xs], dim)
            return self.convert(wide, xs[0].aval.dtype)
        shape = list(xs[0].aval.shape)
        shape[dim] = sum(x.aval.shape[dim] for x in xs)
        out = ShapedArray(tuple(shape), xs[0].aval.dtype)
        names = ", ".join(x.name for x in xs)
        text = f"stablehlo.concatenate {names}, dim = {dim}"
        return self.write(f"{text} : ({types_of(xs)}) -> {mlir_type(out)}", out)

    def pad(self, x: HloValue, v: HloValue, config: Sequence[tuple[int, int, int]]) -> HloValue:
        """Pad x with v around and between its elements: (low, high, interior) for each axis."""
        lows, highs, interiors = zip(*config, strict=True) if config else ((), (), ())
        if not (any(lows) or any(highs) or any(interiors)):
            return x
        sizes = [
            max(low + high + n + max(n - 1, 0) * inner, 0)
            for n, (low, high, inner) in zip(x.aval.shape, config, strict=True)
        ]
        out = ShapedArray(tuple(sizes), x.aval.dtype)
        edges = f"low = {int_list(lows)}, high = {int_list(highs)}"
        text = f"stablehlo.pad {x.name}, {v.name}, {edges}, interior = {int_list(interiors)}"
        return self.write(f"{text} : ({types_of([x, v])}) -> {mlir_type(out)}", out)

    def iota(self, aval: Aval, dim: int = 0) -> HloValue:
        """The index along a dimension."""
        return self.write(f"stablehlo.iota dim = {dim} : {mlir_type(aval)}", aval)

    def reduce(self, op: Any, x: Value, init: Value, axes: Sequence[int]) -> Value:
        """Reduce over axes, which the result lacks.

        Args:
          op: the name of an operation of two scalars (`add`), or a function that writes it: it
            takes the accumulated values, then the new ones, and returns as many as there are
            accumulated ones.
          x: a value, or a list of values of one shape.
          init: the initial scalar, or one for each of x.
          axes: the axes to reduce.

        Returns:
          The result, a list when x is one.
        """
        if type(op) is str:
            return self._reduce_by_name(op, x, init, axes)
        xs: list[HloValue] = x if isinstance(x, list) else [x]
        scalars = [ShapedArray((), v.aval.dtype) for v in xs]
        initial = self._initial(init, scalars)
        shape = tuple(n for i, n in enumerate(xs[0].aval.shape) if i not in axes)
        outs = [ShapedArray(shape, v.aval.dtype) for v in xs]
        body = self.region([*scalars, *scalars], op)
        out = self.op("reduce", *xs, *initial, out=outs, regions=[body], dimensions=tuple(axes))
        return out if isinstance(x, list) else out[0]

    def _initial(self, init: Value, scalars: Sequence[Aval]) -> list[HloValue]:
        """Return the initial values of a reduction as SSA values; Python numbers become constants."""
        inits = init if isinstance(init, list) else [init]
        return [
            i if isinstance(i, HloValue) else self.constant(i, s)
            for i, s in zip(inits, scalars, strict=True)
        ]

    def _reduce_by_name(self, op: str, x: HloValue, init: Value, axes: Sequence[int]) -> HloValue:
        """Write the reduction of one value by an operation that has a short form."""
        aval = x.aval
        scalar = ShapedArray((), aval.dtype)
        (first,) = self._initial(init, [scalar])
        shape = tuple([n for i, n in enumerate(aval.shape) if i not in axes])
        out = ShapedArray(shape, aval.dtype)
        types = f"({mlir_type(aval)}, {mlir_type(scalar)}) -> {mlir_type(out)}"
        return self.write(
            f"stablehlo.reduce({x.name} init: {first.name}) applies stablehlo.{op} across "
            f"dimensions = {int_list(axes)} : {types}",
            out,
        )

    def reduce_window(
        self,
        op: Any,
        x: Value,
        init: Value,
        window_dimensions: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
        out: Value = None,
    ) -> Value:
        """Reduce every window; `op`, `x` and `init` as for `reduce`, `out` by default the equation's."""
        rank = len(window_dimensions)
        ones = (1,) * rank
        xs: list[HloValue] = x if isinstance(x, list) else [x]
        scalars = [ShapedArray((), v.aval.dtype) for v in xs]
        initial = self._initial(init, scalars)
        apply = (lambda a, b: self.op(op, a, b, out=scalars[0])) if type(op) is str else op
        return self.op(
            "reduce_window",
            *xs,
            *initial,
            out=out,
            regions=[self.region([*scalars, *scalars], apply)],
            window_dimensions=tuple(window_dimensions),
            window_strides=tuple(strides or ones),
            base_dilations=tuple(base_dilation or ones),
            window_dilations=tuple(window_dilation or ones),
            padding=int_pairs(padding or ((0, 0),) * rank),
        )


def int_pairs(pairs: Sequence[tuple[int, int]]) -> str:
    """Return the attribute of (low, high) for each axis, such as the padding of windows."""
    rows = int_list([int_list(p) for p in pairs]) if pairs else ""  # type: ignore[arg-type]
    return f"dense<{rows}> : tensor<{len(pairs)}x2xi64>"


def types_of(xs: Sequence[HloValue]) -> str:
    """Return the types of values, separated by commas."""
    return ", ".join([mlir_type(x.aval) for x in xs])


def result_types(avals: Sequence[Aval]) -> str:
    """Return the types of an operation's results: bare when there is one, else in parentheses."""
    if len(avals) == 1:
        return mlir_type(avals[0])
    return f"({', '.join([mlir_type(a) for a in avals])})"
