"""Abstract values (avals): the types of values, which are known before the values are.

`ShapedArray` is interned: equal types are the same object, so comparing two is `is` and hashing
one is free. That is what makes checking a jaxpr cheap.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from jaxprtool.ir.diagnostics import Diagnostic, JaxprTypeError, UnsupportedError
from jaxprtool.ir.dtypes import FLOAT0, INT32, SEMAPHORES, UINT32, DType, dtype_of
from jaxprtool.ir.frozen import Frozen, amend

__all__ = [
    "FIX_SIZES",
    "NO_GROUPS",
    "AbstractToken",
    "AbstractType",
    "AxisGroups",
    "FutureType",
    "OpaqueType",
    "RefType",
    "ShapedArray",
    "Spec",
    "SymbolicDim",
]

# For each dimension of an array the axes of a mesh that it is split over: (("x",), (), ("y", "z")).
Spec = tuple[tuple[str, ...], ...]

FIX_SIZES = "give it a number first: jaxprtool opt --passes 'specialise n=8'"


# (operator, a, b) -> a op b, where at least one of a and b is a dimension; None where the result is unknown.
_Arithmetic = Callable[[Callable[[Any, Any], Any], Any, Any], Any]


def _arithmetic(op: Callable[[Any, Any], Any], a: Any, b: Any, /) -> Any:
    return None


def set_dim_arithmetic(compute: _Arithmetic) -> None:
    """Install the function that computes with symbolic dimensions (a layer above this one has it)."""
    global _arithmetic
    _arithmetic = compute


def _refuse(dim: SymbolicDim, other: object = None) -> NoReturn:
    message = f"this needs sizes that are numbers, and the size {dim} is none"
    raise UnsupportedError(Diagnostic(message, "symbolic-dimensions", help=FIX_SIZES))


def _dim_operator(op: Callable[[Any, Any], Any], *, reflected: bool = False) -> Any:
    """Return a method of `SymbolicDim` that applies a numeric operator."""

    def method(self: SymbolicDim, other: object) -> Any:
        if type(other) is not int and not isinstance(other, SymbolicDim):
            if isinstance(other, (str, tuple, list)):
                return NotImplemented
            if not hasattr(other, "__index__"):
                _refuse(self)
            other = operator.index(other)  # type: ignore[arg-type]
        found = _arithmetic(op, other, self) if reflected else _arithmetic(op, self, other)
        return _refuse(self) if found is None else found

    return method


class SymbolicDim(str):
    """A symbolic dimension: a shape polynomial (`2*a + 1`), as JAX prints it.

    Two symbolic dimensions are equal where their texts are. Sums, products, quotients and
    comparisons are computed by JAX, for which each name is an integer >= 1; a result that JAX
    cannot determine raises UnsupportedError. Without JAX, only identities that hold for any number
    are applied: `n + 0`, `n - n`, `n <= n`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def __radd__(self, other: object) -> Any:
        return other + str(self) if isinstance(other, str) else _right_sum(self, other)

    if not TYPE_CHECKING:  # type checkers reject operators that differ from those of `str`
        __lt__, __le__ = _dim_operator(operator.lt), _dim_operator(operator.le)
        __gt__, __ge__ = _dim_operator(operator.gt), _dim_operator(operator.ge)
        __add__, __sub__ = _dim_operator(operator.add), _dim_operator(operator.sub)
        __rsub__ = _dim_operator(operator.sub, reflected=True)
        __mul__ = __rmul__ = _dim_operator(operator.mul)
        __floordiv__, __mod__ = _dim_operator(operator.floordiv), _dim_operator(operator.mod)
        __rfloordiv__ = _dim_operator(operator.floordiv, reflected=True)
        __rmod__ = _dim_operator(operator.mod, reflected=True)
        __divmod__ = _dim_operator(divmod)

        def __neg__(self) -> Any:
            return 0 - self

        def __bool__(self) -> bool:
            return self >= 1

        __truediv__ = __pow__ = _refuse
    __rtruediv__ = __rpow__ = __rdivmod__ = _refuse
    __and__ = __rand__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __index__ = __int__ = __float__ = _refuse


_right_sum = _dim_operator(operator.add, reflected=True)


class AbstractType(Frozen):
    """Base class of abstract values (avals), such as the type that a binder declares after its colon.

    Attributes:
      annotated: whether the type has a sharding, varying axes or a memory space, beside shape and
        element type.
    """

    __slots__ = ()
    annotated: bool

    @property
    def strong(self) -> AbstractType:
        """This type without the weak-type mark. Types are compared without it."""
        return self

    @property
    def physical(self) -> AbstractType:
        """The type of the array that stores a value of this type."""
        return self

    def tangent(self) -> AbstractType:
        """The type of a tangent of a value of this type."""
        return self

    def cotangent(self) -> AbstractType:
        """The type of a cotangent: the tangent type, with reduced and unreduced axes swapped."""
        return self.tangent()


MAX_RANK = 64  # NumPy's limit
MAX_BYTES = (1 << 63) - 1
ARRAY_LIMIT = "array-limit"


def _check_limits(shape: tuple[Any, ...], dtype: DType) -> None:
    """Raise JaxprTypeError for a shape that no array can have, not even an empty one."""
    rank = len(shape) + (dtype.kind == "k")  # the words of a key take one more axis
    numbers = [d for d in shape if isinstance(d, int)]
    nbytes = max(dtype.itemsize, 1) * math.prod(d for d in numbers if d)
    if rank <= MAX_RANK and nbytes <= MAX_BYTES and min(numbers, default=0) >= 0:
        return
    text = f"{dtype}[{','.join(map(str, shape))}]"
    text = text if len(text) <= 80 else f"{text[:76]}...]"
    if min(numbers, default=0) < 0:
        why = "dimensions are not negative"
    elif rank > MAX_RANK:
        why = f"an array has at most {MAX_RANK - (dtype.kind == 'k')} dimensions, this one {len(shape)}"
    else:
        why = "dimensions other than 0, and the bytes of an element, multiply to less than 2^63"
    raise JaxprTypeError(Diagnostic(f"there is no array of type {text}: {why}", ARRAY_LIMIT))


class AxisGroups(Frozen):
    """The mesh axes in the braces of a type, apart from its sharding: `{V:(i,j), U:k, R:l}`.

    Equal groups are one object.

    Attributes:
      varying: the axes of a `shard_map` along which the value varies.
      unreduced: the axes over which the value still has to be summed.
      reduced: the axes over which the value was summed.
      kind: "max" or "min" where the unreduced axes are reduced by a maximum or minimum instead of a
        sum: `{U_max:k}`; "" for a sum.
    """

    __slots__ = ("kind", "reduced", "unreduced", "varying")
    varying: tuple[str, ...]
    unreduced: tuple[str, ...]
    reduced: tuple[str, ...]
    kind: str
    _pool: ClassVar[dict[tuple[Any, ...], AxisGroups]] = {}

    def __new__(
        cls,
        varying: Iterable[str] = (),
        unreduced: Iterable[str] = (),
        reduced: Iterable[str] = (),
        kind: str = "",
    ) -> AxisGroups:
        key = tuple(varying), tuple(unreduced), tuple(reduced), ""
        if key[1]:
            key = (*key[:3], kind)
        found = cls._pool.get(key)
        if found is None:
            found = cls._pool[key] = object.__new__(cls)
            amend(found, varying=key[0], unreduced=key[1], reduced=key[2], kind=key[3])
        return found

    def replace_varying(self, names: Iterable[str]) -> AxisGroups:
        """Return these groups with other varying axes."""
        return AxisGroups(names, self.unreduced, self.reduced, self.kind)

    @property
    def dual(self) -> AxisGroups:
        """The groups of the cotangent of a value with these groups: unreduced and reduced axes swapped."""
        return AxisGroups(self.varying, self.reduced, self.unreduced)

    def __reduce__(self):
        kind = (self.kind,) if self.kind else ()
        return AxisGroups, (self.varying, self.unreduced, self.reduced, *kind)

    def __bool__(self) -> bool:
        return self is not NO_GROUPS

    def __repr__(self) -> str:
        to_come = f"U_{self.kind}" if self.kind else "U"
        groups = (("V", self.varying), (to_come, self.unreduced), ("R", self.reduced))
        texts = [f"{letter}:{_axes_text(axes)}" for letter, axes in groups if axes]
        return f"{{{', '.join(texts)}}}" if self else ""


def _axes_text(axes: Sequence[str]) -> str:
    """`x`, or `(x,y)` for several."""
    return axes[0] if len(axes) == 1 else f"({','.join(axes)})"


NO_GROUPS = AxisGroups()

_FIELDS = ("shape", "dtype", "weak_type", "spec", "memory", "vary")
_Fields = tuple[Sequence[Any], Any, bool, Spec, str, AxisGroups]


class ShapedArray(AbstractType):
    """The type of an array: shape, element type and annotations; interned.

    Attributes:
      shape: tuple of dimensions (ints; `SymbolicDim` in shape-polymorphic programs).
      dtype: the `DType`.
      weak_type: True for a value that came from a bare Python scalar (JAX's promotion looks at it).
      spec: for each dimension the mesh axes that it is split over; () when no dimension is split.
      memory: the memory space (`host`), or "".
      vary: the axes in braces after the type (`{V:i}`).
      size: the number of elements; -1 where a dimension is symbolic.
      ndim: the number of dimensions.
      annotated: whether `spec`, `memory` or `vary` is set.
      text: the type as JAX prints it, `f32[2,3]`.
    """

    __slots__ = (
        "annotated",
        "dtype",
        "memory",
        "ndim",
        "shape",
        "size",
        "spec",
        "strong",  # pyright: ignore[reportIncompatibleMethodOverride] (a slot is read faster)
        "text",
        "vary",
        "weak_type",
    )
    shape: tuple[Any, ...]
    dtype: DType
    weak_type: bool
    spec: Spec
    memory: str
    vary: AxisGroups
    ndim: int
    size: int
    strong: ShapedArray
    text: str
    _interned: ClassVar[dict[_Fields, ShapedArray]] = {}

    def __new__(
        cls,
        shape: Sequence[Any],
        dtype: Any,
        weak_type: bool = False,
        spec: Spec = (),
        memory: str = "",
        vary: AxisGroups = NO_GROUPS,
    ) -> ShapedArray:
        key = (shape, dtype, weak_type, spec, memory, vary)
        try:
            return cls._interned[key]
        except (KeyError, TypeError):
            return cls._make(key)

    @classmethod
    def _make(cls, key: _Fields) -> ShapedArray:
        shape, dtype, weak_type, spec, memory, vary = key
        shape = tuple(d if isinstance(d, SymbolicDim) else operator.index(d) for d in shape)
        found = dtype_of(dtype)
        if found is None:
            raise TypeError(f"not an element type: {dtype!r}")
        _check_limits(shape, found)
        canonical = (shape, found, bool(weak_type), tuple(spec), memory, vary)
        self = cls._interned.get(canonical)
        if self is None:
            self = object.__new__(cls)
            known = [d for d in shape if isinstance(d, int)]
            amend(
                self,
                **dict(zip(_FIELDS, canonical, strict=True)),
                annotated=bool(vary or spec or memory),
                ndim=len(shape),
                size=math.prod(known) if len(known) == len(shape) else -1,
                strong=cls(*canonical[:2], False, *canonical[3:]) if weak_type else self,
            )
            amend(self, text=self._text(found.short))
            cls._interned[canonical] = self
        return self

    def __reduce__(self):
        return ShapedArray, (
            self.shape,
            self.dtype,
            self.weak_type,
            self.spec,
            self.memory,
            self.vary,
        )

    def str_short(self) -> str:
        """The type with the long name of its element type, as the Autodidax tutorial spells it: `float64[2,3]`."""
        return self._text(self.dtype.name)

    def update(
        self,
        *,
        shape: Sequence[Any] | None = None,
        dtype: Any = None,
        weak_type: bool | None = None,
        spec: Spec | None = None,
        memory: str | None = None,
        vary: AxisGroups | None = None,
    ) -> ShapedArray:
        """Return this type with some fields replaced; with a new shape, `spec` is dropped unless one is given."""
        if spec is None:
            spec = self.spec if shape is None or shape == self.shape else ()
        return ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            spec,
            self.memory if memory is None else memory,
            self.vary if vary is None else vary,
        )

    @property
    def physical(self) -> ShapedArray:
        """The type of the array that stores a value of this type: words, u32[..., n], for PRNG
        keys; else this type.
        """
        if self.dtype.kind != "k":
            return self.strong
        return ShapedArray((*self.shape, self.dtype.bits // 32), UINT32)

    @property
    def nbytes(self) -> int:
        """The number of bytes of a value of this type."""
        return max(self.size, 0) * self.dtype.itemsize

    def tangent(self) -> ShapedArray:
        """The type of a tangent: this type for floats, float0 of the same shape for other element types."""
        if self.dtype.kind in "fc":
            return self.strong
        return ShapedArray(self.shape, FLOAT0, vary=self.vary)

    def cotangent(self) -> ShapedArray:
        found = self.tangent()
        vary = found.vary
        return found.update(vary=vary.dual) if vary.unreduced or vary.reduced else found

    def __repr__(self) -> str:
        return self.text

    def _text(self, element: str) -> str:
        dims = ",".join(
            f"{d}@{_axes_text(axes)}" if axes else str(d)
            for d, axes in zip(self.shape, self.spec or ((),) * self.ndim, strict=True)
        )
        memory = f"<{self.memory}>" if self.memory else ""
        return f"{element}{memory}[{dims}]{self.vary}"


class _Interned(AbstractType):
    """Base of types that are interned: types of one class with equal fields are one object."""

    __slots__ = ()
    _pool: ClassVar[dict[tuple[Any, ...], AbstractType]] = {}
    annotated = False

    @classmethod
    def _get(cls, *fields: Any) -> Any:
        found = cls._pool.get((cls, *fields))
        if found is None:
            found = object.__new__(cls)
            amend(found, **dict(zip(cls.__slots__, fields, strict=True)))
            cls._pool[(cls, *fields)] = found
        return found

    def __reduce__(self):
        return type(self), tuple(getattr(self, s) for s in self.__slots__)


class AbstractToken(_Interned):
    """The type of a token, printed `Tok`."""

    __slots__ = ()

    def __new__(cls) -> AbstractToken:
        return cls._get()

    def __repr__(self) -> str:
        return "Tok"


class RefType(_Interned):
    """A mutable reference, printed `Ref{f32[3]}` or `Ref<space>{f32[3]}`."""

    __slots__ = ("inner", "space")
    inner: AbstractType
    space: str

    def __new__(cls, inner: AbstractType, space: str = "") -> RefType:
        return cls._get(inner, space)

    @property
    def strong(self) -> RefType:
        return RefType(self.inner.strong, self.space)

    @property
    def held(self) -> ShapedArray | None:
        """The type of the array in the cell, i32 for semaphores; None where the cell holds no array."""
        inner = self.inner
        if not isinstance(inner, ShapedArray):
            return None
        return ShapedArray(inner.shape, INT32) if inner.dtype.name in SEMAPHORES else inner.strong

    def __repr__(self) -> str:
        return f"Ref{f'<{self.space}>' if self.space else ''}{{{self.inner}}}"


class FutureType(_Interned):
    """The type of a value that an asynchronous operation has not delivered yet, printed `AbstractFuture{f32[3]}`."""

    __slots__ = ("inner",)
    inner: AbstractType

    def __new__(cls, inner: AbstractType) -> FutureType:
        return cls._get(inner.strong)

    @property
    def physical(self) -> AbstractType:
        return self.inner.physical

    def tangent(self) -> AbstractType:
        return self.inner.tangent()

    def __repr__(self) -> str:
        return f"AbstractFuture{{{self.inner}}}"


class OpaqueType(_Interned):
    """A type of which only the text is known.

    It prints unchanged; a program with such a type cannot be run.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> OpaqueType:
        return cls._get(text)

    def __repr__(self) -> str:
        return self.text
