"""Bases of traces and tracers, and abstract values of concrete ones.

A `Trace` says what an operation means; a `Tracer` is a value boxed for it. In Autodidax's words: `pure` boxes
a value that the trace knows nothing of, `lift` one of an outer trace; both are the same here.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NoReturn

from jaxprtool.core.gateways import gateways
from jaxprtool.ir.avals import AbstractType, ShapedArray, SymbolicDim, set_dim_arithmetic
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, brief, fail
from jaxprtool.ir.dtypes import BOOL, COMPLEX128, FLOAT64, INT64, DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, JaxprEqn, Lit, Primitive, Value

__all__ = [
    "LeakedTracerError",
    "Symbolic",
    "Trace",
    "Tracer",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "full_lower",
    "get_aval",
    "inexact",
    "is_inexact",
    "scalar_lit",
    "words_of_key",
]


set_dim_arithmetic(lambda op, a, b: gateways.dim_arithmetic(op, a, b))


class TracerBoolConversionError(JaxprToolError, TypeError):
    """Python needed the value of an abstract tracer."""


class TracerArrayConversionError(JaxprToolError, TypeError):
    """NumPy needed the value of an abstract tracer."""


class LeakedTracerError(JaxprToolError, RuntimeError):
    """A tracer was used after its transformation had finished."""


class Trace:
    """Abstract base: one interpretation of primitives.

    Subclasses set `parent` to the trace in which their rules run (None for those that stage or
    evaluate) and implement `process_primitive`.
    """

    __slots__ = ("parent",)
    parent: Any

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Value], params: dict[str, Any]
    ) -> Value:
        """Apply `primitive`; args are tracers of this trace, or values that are constants to it."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def process_typed(
        self,
        primitive: Primitive,
        args: Sequence[Value],
        params: dict[str, Any],
        out_avals: Sequence[Aval],
    ) -> list[Value]:
        """Do as `process_primitive`, for operands and params that fit by construction and results of known types."""
        return self.process_primitive(primitive, args, params)

    def process_again(self, eqn: JaxprEqn, args: Sequence[Value]) -> Value:
        """Apply the operation of an equation with one result to other operands, most often of the same types."""
        return self.process_primitive(eqn.primitive, args, eqn.params)

    def pure(self, value: Value) -> Value:
        """Box a value that is a constant to this trace."""
        raise TypeError(f"{type(self).__name__} boxes nothing")

    def literal(self, lit: Lit) -> Value:
        """Return a literal as a value for Python code, as the innermost parent makes it."""
        return self.parent.literal(lit)

    def lift(self, tracer: Tracer) -> Value:
        """Box a tracer of an outer trace. It is a constant like any other."""
        return self.pure(tracer)

    def recorders(self) -> tuple[Any, Any]:
        """Return the traces that record equations: (this trace, None), or its parent and this trace.

        (None, None) where another trace takes part.
        """
        return None, None

    def mark(self) -> Any:
        """Return the current position in the recorded equations, for `forget`; None for a trace
        that records nothing.
        """
        return None if self.parent is None else self.parent.mark()

    def forget(self, mark: Any) -> None:
        """Drop the equations recorded since `mark`.

        Used where a function failed and is called again in another way.
        """
        if self.parent is not None:
            self.parent.forget(mark)


class Symbolic:
    """A placeholder for a value, used like a tracer, of which only the type is known."""

    __slots__ = ("aval",)
    aval: Aval
    _trace: ClassVar[Any]  # its class, where tracers have their trace

    def __init_subclass__(cls) -> None:
        cls._trace = cls


class Tracer:
    """A value boxed by a trace. Infix operators, comparisons and indexing come from `ops.operators`.

    Subclasses give `aval`, the abstract value.
    """

    __slots__ = ("_trace",)
    __array_priority__ = 1000
    _trace: Any
    aval: Aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    def full_lower(self) -> Value:
        """Return the value inside where the box adds nothing, else the tracer itself."""
        return self

    def origin(self) -> str:
        """Describe where the value came from, for messages; "" when the trace cannot tell."""
        return ""

    def concrete(self, wanted: str) -> Value:
        """Return the value, for a conversion to `wanted` (`bool`, `int`, ...); raises when the value is not known."""
        fail_conversion(self, wanted)

    def __bool__(self) -> bool:
        return bool(self.concrete("bool"))

    def __int__(self) -> int:
        return int(self.concrete("int"))

    def __index__(self) -> int:
        return self.concrete("index").__index__()

    def __float__(self) -> float:
        return float(self.concrete("float"))

    def __complex__(self) -> complex:
        return complex(self.concrete("complex"))

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of a rank-0 array")
        return self.aval.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.aval}>"


_INSTEAD = {
    "bool": "use jaxprtool.cond for a branch, select_n for a choice of values, "
    "or mark the argument static (--static name=value); Python's `if` works under jvp, grad and linearize of concrete values",
    "array": "use the functions of jaxprtool.lax (or NumPy's functions on the tracer itself) "
    "instead of converting it with numpy.asarray",
}


def fail_conversion(tracer: Tracer, wanted: str) -> NoReturn:
    """Raise the error for a Python conversion of an abstract value."""
    kind = TracerArrayConversionError if wanted == "array" else TracerBoolConversionError
    origin = tracer.origin()
    message = f"the value of an abstract {tracer.aval} was asked for as a Python {wanted}"
    if wanted == "array":
        message = f"an abstract {tracer.aval} was converted to a NumPy array"
    if origin:
        message += f"; it depends on {origin}"
    how = "its value is not known while the function is traced"
    help = _INSTEAD.get(wanted, _INSTEAD["bool"])
    raise kind(Diagnostic(f"{message}; {how}", "concretization", help=help))


def fail_leaked(tracer: Tracer) -> NoReturn:
    """Raise the error for a tracer that outlived its trace."""
    fail(
        LeakedTracerError,
        f"a tracer of type {tracer.aval} was used after its transformation had finished",
        "leaked-tracer",
        help="return the value from the transformed function instead of storing it elsewhere",
    )


_SCALARS = {
    bool: ShapedArray((), BOOL),
    int: ShapedArray((), INT64),
    float: ShapedArray((), FLOAT64),
    complex: ShapedArray((), COMPLEX128),
}


def get_aval(x: Value) -> Aval:
    """Return the abstract value of a value, literal or tracer; raises TypeError for anything else."""
    aval = getattr(x, "aval", None)
    if isinstance(aval, AbstractType):
        return aval
    if type(x) in _SCALARS:
        return _SCALARS[type(x)]
    dtype = dtype_of(getattr(x, "dtype", None))
    shape = getattr(x, "shape", None)
    if isinstance(x, SymbolicDim):
        operator.index(x)  # raises UnsupportedError, since the dimension is not a known number
    if dtype is None or shape is None:
        raise TypeError(
            f"not an array, a number or a tracer: {brief(x)} of type {type(x).__name__}"
        )
    return ShapedArray(shape, dtype)


def is_inexact(aval: Aval) -> bool:
    """Whether tangents of values of this type have the same type.

    Those of integers and booleans are of dtype float0.
    """
    if type(aval) is ShapedArray and (kind := aval.dtype.kind) != "0":  # float0 is its own tangent
        return kind in "fc"
    return aval.tangent() is aval.strong


def inexact(avals: Iterable[Aval]) -> list[bool]:
    """Return `is_inexact` of each type."""
    return [*map(is_inexact, avals)]


def words_of_key(value: Value) -> Value:
    """Return the words u32[..., n] of an array of keys, ours or JAX's; any other value as it is."""
    dtype = getattr(value, "dtype", None)
    found = dtype_of(dtype)
    if found is None or found.kind != "k":
        return value
    if isinstance(dtype, DType):  # our type: the array holds keys, or their words in a text
        return value.data if hasattr(value, "impl") else value
    jax = sys.modules.get("jax")  # only JAX can read keys that it made
    return value if jax is None else jax.random.key_data(value)


def scalar_lit(value: Value, dtype: DType) -> Lit:
    """Return a rank-0 literal of the given element type; the same object for the same number."""
    # 0.0 and -0.0 are equal, and so are complex numbers with them as parts
    same = value if value and dtype.kind != "c" else repr(value)
    key = value.__class__.__name__, same, dtype
    found = _LITERALS.get(key)
    if found is None:
        found = _scalar_lit(value, dtype)
        if len(_LITERALS) < _MOST_LITERALS:
            _LITERALS[key] = found
    return found


_LITERALS: dict[Any, Lit] = {}
_MOST_LITERALS = 1 << 12


def _scalar_lit(value: Value, dtype: DType) -> Lit:
    kind = dtype.kind
    if kind in "fc" and type(value) is int:
        value = float(value)
    if kind == "c" and type(value) is float:
        value = complex(value)
    return Lit(value, ShapedArray((), dtype))


def full_lower(x: Value) -> Value:
    """Unbox `x` where its tracer adds nothing."""
    return x.full_lower() if isinstance(x, Tracer) else x
