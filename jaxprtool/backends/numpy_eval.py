"""NumPy: the namespace that impl rules get, and conversion of values."""

from __future__ import annotations

import functools
import types
from typing import Any, NoReturn

import numpy as np

from jaxprtool.backends.combined_rows import combine_rows
from jaxprtool.backends.limits import finfo, type_named
from jaxprtool.core.trace import Tracer, get_aval, words_of_key
from jaxprtool.interpreters.evaluate import run_closed
from jaxprtool.interpreters.evaluation.missing_values import check_literal
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.avals import AbstractToken, RefType, ShapedArray
from jaxprtool.ir.diagnostics import UsageError, brief, fail
from jaxprtool.ir.dtypes import KEYS, DType, dtype_of, find_dtype
from jaxprtool.ir.interface import Interface, argument_label
from jaxprtool.ir.jaxpr import Lit
from jaxprtool.syntax.consts import ArrayBytes, ArrayText

__all__ = ["KeyArray", "float0", "help_on_keys", "load_namespace", "np_dtype", "numbers_of"]

float0 = np.dtype([("float0", np.void, 0)])


@functools.cache
def np_dtype(dtype: DType) -> np.dtype:
    """The NumPy (or ml_dtypes) dtype of an element type."""
    if dtype.kind == "0":
        return float0
    named = type_named(dtype.name)
    if named is None:
        fail(UsageError, f"values of type {dtype} cannot be held by NumPy", "no-numpy-type")
    return np.dtype(named)


_TAGS = {name: tag for tag, (name, _) in KEYS.items() if tag != "urbg"}


class KeyArray:
    """Typed PRNG keys.

    Attributes:
      impl: the generator, as types spell it: `fry` (which JAX calls `threefry2x32` too), `rbg`, `urbg`, `fry4`, `phx2` or `phx4`.
      data: the words, uint32[..., n]; n is 1 for `phx2`, 2 for `fry` and `phx4`, 4 for the others.
    """

    __slots__ = ("data", "dtype", "impl")

    def __init__(self, impl: str, data: Any):
        impl = _TAGS.get(impl, impl)
        found = find_dtype(f"key<{impl}>")
        if found is None:
            fail(UsageError, f"no kind of PRNG keys is called {impl!r}", "key-impl")
        self.impl, self.dtype, self.data = impl, found, np.asarray(data, np.uint32)
        words = found.bits // 32
        if self.data.shape[-1:] != (words,):
            fail(UsageError, f"a key of {impl} has {words} words: {self.data.shape}", "key-shape")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of keys."""
        return self.data.shape[:-1]

    @property
    def ndim(self) -> int:
        return self.data.ndim - 1

    def __getitem__(self, index: Any) -> KeyArray:
        """The keys at an index of leading axes."""
        return KeyArray(self.impl, self.data[index])

    def __repr__(self) -> str:
        return f"KeyArray({self.impl!r}, {self.data.tolist()})"


class Namespace(types.ModuleType):
    """NumPy with the additions that impl rules need.

    value(x, aval=None): x (a literal, Python scalar, array, array-like of another library) as NumPy.
    argument(x, aval, i): a program's argument i, checked against its type.
    dtype_of_aval(dtype): the NumPy dtype of a `DType`.
    token: the value of a token. KeyArray: the class of arrays of keys.
    result(x): a value as a program returns it: NumPy scalars as arrays.
    words(x), keys(words, dtype): keys as u32[..., n], and back; anything else as it is.
    stack_keys(keys, aval): a list of keys as one array of the element type and trailing shape of `aval`.
    run(closed_jaxpr, args): evaluate a jaxpr of a param.
    special, lapack, blas: scipy.special, scipy.linalg.lapack and .blas, imported when first used.
    float0_zeros(shape): zeros of dtype float0.
    finfo_of(dtype): the limits of a floating type, including those of ml_dtypes.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "special":
            import scipy.special  # noqa: PLC0415 (200 ms, and few programs need it)

            self.special = scipy.special
            return scipy.special
        if name in ("lapack", "blas"):
            import scipy.linalg  # noqa: PLC0415 (likewise)

            self.lapack, self.blas = scipy.linalg.lapack, scipy.linalg.blas
            return getattr(self, name)
        raise AttributeError(f"numpy has no attribute {name!r}")


def value(x: Any, aval: Any = None) -> Any:
    """Return a value as NumPy holds it: an array (not of a subclass, such as a memory map), or a NumPy scalar."""
    if isinstance(x, (np.ndarray, np.generic, KeyArray, Cell, Token)):
        return x.view(np.ndarray) if isinstance(x, np.memmap) else x
    if type(x) is Lit:
        if not x.cached:
            check_literal(x)
            dtype = np_dtype(x.aval.dtype)
            if dtype == float0:
                x.cached.append(np.zeros(x.aval.shape, dtype))
            else:
                number = _scalar(x.val, dtype)
                shape = x.aval.shape  # `0.0:f32[3]`: that number everywhere, in the memory of one
                x.cached.append(np.broadcast_to(number, shape) if shape else number)
        return x.cached[0]
    if isinstance(x, Tracer):
        fail(
            UsageError,
            f"a value that is traced, of type {x.aval}, is given where values are computed with",
            "traced-value",
            help="jt.jaxpr_as_fun(program) is a function to call in what is transformed",
        )
    if isinstance(x, ArrayText):
        if x.dtype.kind == "k":
            shape = (*x.shape, x.dtype.bits // 32)
            return KeyArray(x.dtype.name[4:-1], np.asarray(x.values, np.uint32).reshape(shape))
        if x.dtype.kind == "0":
            return np.zeros(x.shape, float0)
        return np.asarray(x.values, np_dtype(x.dtype)).reshape(x.shape)[()]
    if isinstance(x, ArrayBytes):
        return _from_bytes(x)
    words = words_of_key(x)
    if words is not x:  # keys of JAX's
        return KeyArray(x.dtype.name[4:-1], np.asarray(words))
    dtype = (
        None
        if aval is None and not isinstance(x, (bool, int, float, complex))
        else np_dtype((aval or get_aval(x)).dtype)
    )
    return np.asarray(x) if dtype is None else np.asarray(x, dtype)[()]


def _scalar(value: Any, dtype: np.dtype) -> Any:
    """Return the value of a literal: a NumPy scalar for a number.

    A NaN converted to bf16 loses its payload.
    """
    if dtype.name == "bfloat16" and np.ndim(value) == 0 and value != value:
        upper = np.asarray(value, np.float32).view(np.uint32) >> np.uint32(16)
        return upper.astype(np.uint16).view(dtype)[()]
    return np.asarray(value, dtype)[()]


def _from_bytes(x: ArrayBytes) -> Any:
    """The array, or the keys, whose bytes a file held."""
    if x.dtype.kind == "0":
        return np.zeros(x.shape, float0)
    is_keys = x.dtype.kind == "k"
    dtype = np.dtype(np.uint32 if is_keys else np_dtype(x.dtype)).newbyteorder("<")
    shape = (*x.shape, x.dtype.bits // 32) if is_keys else x.shape
    data = np.frombuffer(x.data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    return keys(data, x.dtype) if is_keys else data[()]


def argument(
    x: Any, aval: Any, position: int, name: str | None, interface: Interface | None
) -> Any:
    """Return an argument of a program as an array of its type.

    Args:
      x: an array of the dtype; or Python numbers, or nested lists of them, which are converted.
        Keys may be given by their words, u32[..., n].
      aval: its type.
      position, name, interface: identify the argument in messages (see `argument_label`).

    Raises:
      UsageError: it has another shape or dtype, or cannot be converted; or no value of the type can
        be given.
    """

    is_keys = isinstance(aval, ShapedArray) and aval.dtype.kind == "k"

    def refuse(message: str) -> NoReturn:
        label = argument_label(position, name, interface)
        help = help_on_keys(aval) if is_keys else ""
        fail(UsageError, f"{label} {message}", "argument-type", help=help)

    if not isinstance(aval, ShapedArray):
        if isinstance(x, {AbstractToken: Token, RefType: Cell}.get(type(aval), ())):
            return x
        refuse(f"is declared as {aval}, of which no value can be given")
    if isinstance(x, (bool, int, float, complex, list, tuple)):
        try:
            x = numbers_of(x, aval)
        except (TypeError, ValueError, OverflowError):
            refuse(f"is {brief(x)}, which is no {aval}")
    array = value(x)
    if is_keys and array.dtype == np.uint32 and array.shape == aval.physical.shape:
        return keys(array, aval.dtype)
    dtype = dtype_of(array.dtype)
    if array.dtype == object:
        refuse(f"is {brief(x)}, which is no {aval}")
    if array.shape != aval.shape or dtype is not aval.dtype:
        shape = ",".join(map(str, array.shape))
        refuse(f"has type {dtype or array.dtype}[{shape}], and {aval} is needed")
    return array


def numbers_of(x: Any, aval: ShapedArray) -> Any:
    """Return a Python number, or nested lists of numbers, as an array of an element type; for keys
    the lists are words.

    Raises:
      TypeError, ValueError, OverflowError: they are no such values.
    """
    if aval.dtype.kind != "k":
        return np.asarray(x, np_dtype(aval.dtype))
    if not isinstance(x, (list, tuple)):
        raise TypeError("a number is no key")
    return np.asarray(x, np.uint32)


def help_on_keys(aval: ShapedArray) -> str:
    """How keys of a type are given."""
    return f"give keys of JAX (`jax.random.key(7)`), or their words, {aval.physical}"


def words(x: Any) -> Any:
    """Keys as their words; any other value as it is."""
    return x.data if type(x) is KeyArray else x


def keys(data: Any, dtype: DType) -> KeyArray:
    """The keys of an element type whose words are `data`."""
    return KeyArray(dtype.name[4:-1], data)


def stack_keys(parts: list[Any], aval: Any) -> KeyArray:
    """Keys along a new first axis; `aval` is the type of one part."""
    shape = (len(parts), *aval.physical.shape)
    data = np.stack([x.data for x in parts]) if parts else np.zeros(shape, np.uint32)
    return keys(data, aval.dtype)


def result(x: Any) -> Any:
    """Return a value as programs return it: an array, or keys."""
    return x if isinstance(x, (KeyArray, Token)) else np.asarray(x)


def load_namespace() -> Namespace:
    """Make the namespace."""
    xp = Namespace("jaxprtool.numpy")
    xp.__dict__.update(vars(np))
    xp.__dict__.update(
        value=value,
        argument=argument,
        dtype_of_aval=np_dtype,
        run=run_closed,
        result=result,
        words=words,
        combine_rows=combine_rows,
        keys=keys,
        stack_keys=stack_keys,
        KeyArray=KeyArray,
        float0_zeros=lambda shape: np.zeros(shape, float0),
        finfo_of=finfo,
    )
    return xp
