"""Make NumPy arrays from words and files, and write results as text and files.

Element types that NumPy lacks (bf16, f8, i4) are those of ml_dtypes. A `.npy` or `.npz` file has no
name for them and keeps their bytes as type `V2` or `V1`; reading takes such bytes as the type that
the program asks for. PRNG keys are kept as their words, u32[..., n].
"""

from __future__ import annotations

import functools
import io
import math
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jaxprtool.backends.keys import is_key, key_of_words, keys_of_seeds, of_words
from jaxprtool.backends.npz import Member, Npz, npz_bytes, open_regular
from jaxprtool.backends.numpy_eval import KeyArray, float0, np_dtype
from jaxprtool.backends.numpy_eval import value as as_value
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.dtypes import BOOL, COMPLEX64, FLOAT32, INT32, INT64, dtype_of
from jaxprtool.ir.frozen import private_array
from jaxprtool.ir.jaxpr import Var

__all__ = [
    "Slot",
    "fit",
    "from_literal",
    "generate",
    "load_member",
    "load_named",
    "load_npy",
    "load_npz",
    "member_names",
    "pack",
    "result_json",
    "result_text",
    "type_name",
    "word_of",
]

_NAMES_SHOWN = 12


def type_name(array: Any) -> str:
    """The type of an array, spelt as in a jaxpr: `f32[2,3]`."""
    return spelt(array.dtype, array.shape)


def spelt(dtype: Any, shape: Sequence[int]) -> str:
    """A type of arrays, as in a jaxpr."""
    return f"{_spelt(dtype)}[{','.join(map(str, shape))}]"


@functools.cache
def _spelt(dtype: Any) -> str:
    return str(dtype_of(dtype) or dtype)


class Slot(NamedTuple):
    """The argument or constant for which a value is given.

    Attributes:
      position: its position among the arguments; -1 for a constant.
      var: the binder.
      label: its name in messages: `argument params["w"]`.
    """

    position: int
    var: Var
    label: str

    @classmethod
    def constant(cls, v: Var) -> Slot:
        """Return the slot of a constant; raises UsageError for one that is no array."""
        slot = cls(-1, v, f"the constant ({v.name})" if v.name else "the constant")
        if not isinstance(v.aval, ShapedArray):
            message = f"{slot.label} is declared as {v.aval}, of which no value can be given"
            fail(UsageError, message, "argument-type", span=v.span)
        return slot

    def of_words(self) -> Slot:
        """Return the slot of the words of keys."""
        return self._replace(var=of_words(self.var))


def _mismatch(slot: Slot, got: str, help: str = "") -> NoReturn:
    message = f"{slot.label} is {slot.var.aval}, and {got} is given"
    fail(UsageError, message, "argument-type", span=slot.var.span, help=help)


def fit(array: np.ndarray, slot: Slot, name: str) -> Any:
    """Return an array as the value for a slot; raises UsageError when it has another type.

    Bytes without a type (see the module's docstring) are taken as that type, and words as keys.
    """
    aval = slot.var.aval
    if is_key(aval):
        return key_of_words(fit(array, slot.of_words(), name), aval)
    wanted = np_dtype(aval.dtype)
    if (
        array.dtype.kind == "V"
        and not array.dtype.names
        and array.dtype.itemsize == wanted.itemsize
    ):
        array = array.view(wanted)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    if array.shape != aval.shape or array.dtype != wanted:
        help = (
            "" if array.dtype == wanted else f"convert it with numpy: x.astype({aval.dtype.name!r})"
        )
        _mismatch(slot, f"{type_name(array)} from {name}", help)
    return array


_LITERAL_TYPES = ((complex, COMPLEX64), (float, FLOAT32), (int, INT32), (bool, BOOL))


def from_literal(literal: Any, slot: Slot) -> Any:
    """Convert a number or nested list to an array of the type of a slot; for a key it is its seed or its words."""
    aval, shape = slot.var.aval, _literal_shape(literal)
    if shape is None:
        fail(UsageError, f"{slot.label}: the lists in it have different lengths", "bad-value")
    if is_key(aval):
        return _key_from_literal(literal, shape, slot)
    if shape != aval.shape:
        what = (
            f"a list of shape [{','.join(map(str, shape))}]" if shape else f"the number {literal}"
        )
        help = "zeros, ones, ramp and random:SEED give an array of any shape" if not shape else ""
        _mismatch(slot, what, help)
    flat = _flatten(literal)
    for x in flat:
        _check_scalar(x, slot)
    dtype = np_dtype(aval.dtype)
    if aval.dtype.kind == "b":
        flat = [bool(x) for x in flat]
    return np.array(flat, dtype).reshape(shape)


def literal_type(literal: Any) -> ShapedArray:
    """Return the type that JAX gives to a Python number or nested list.

    Raises UsageError for lists of different lengths.
    """
    shape = _literal_shape(literal)
    if shape is None:
        fail(UsageError, f"{literal}: the lists in it have different lengths", "bad-value")
    kinds = {type(x) for x in _flatten(literal)} or {float}
    found = next(dtype for kind, dtype in _LITERAL_TYPES if kind in kinds)
    return ShapedArray(shape, found)


def _key_from_literal(literal: Any, shape: tuple[int, ...], slot: Slot) -> KeyArray:
    aval, words = slot.var.aval, slot.of_words()
    if shape == words.var.aval.shape:
        return key_of_words(from_literal(literal, words), aval)
    flat = _flatten(literal)
    if shape != aval.shape or any(type(x) is not int or x.bit_length() > 63 for x in flat):
        got = f"{literal}" if not shape else f"a list of shape [{','.join(map(str, shape))}]"
        help = f"a key is given by its seed, an integer, or by its words, {words.var.aval}"
        _mismatch(slot, got, help)
    return keys_of_seeds(literal, aval)


def _literal_shape(x: Any) -> tuple[int, ...] | None:
    if not isinstance(x, list):
        return ()
    inner = {_literal_shape(y) for y in x} or {()}
    one = inner.pop()
    return None if inner or one is None else (len(x), *one)


def _flatten(x: Any) -> list[Any]:
    return [z for y in x for z in _flatten(y)] if isinstance(x, list) else [x]


def _check_scalar(x: Any, slot: Slot) -> None:
    dtype = slot.var.aval.dtype
    kind = dtype.kind
    fits = {
        "b": x in (0, 1),
        "i": type(x) is int,
        "u": type(x) is int,
        "f": type(x) in (int, float),
        "c": type(x) in (int, float, complex),
    }
    if not fits.get(kind, False):
        _mismatch(slot, f"the {type(x).__name__} {str(x).lower() if x is True else x}")
    if kind in "iu":
        low, high = (
            (0, 1 << dtype.bits) if kind == "u" else (-1 << dtype.bits - 1, 1 << dtype.bits - 1)
        )
        if not low <= x < high:
            _mismatch(slot, f"{x}", f"{dtype} holds {low} to {high - 1}")


def generate(kind: str, seed: int, position: int, aval: Any, below: int | None = None) -> Any:
    """Return an array of a type.

    Args:
      kind: `zeros`, `ones`, `ramp` (0, 1, 2, ... in C order), or `random`: standard normal for
        floats and complex numbers, uniform from 0 to 9 for integers, fair coins for booleans. For
        keys these are the seeds, random ones being uniform over 32 bits.
      seed: the seed of the random numbers; each position of an argument has a stream of its own.
      position: the position of the argument.
      aval: the type.
      below: an upper bound (exclusive) of random integers.
    """
    if is_key(aval):
        if kind != "random":
            return keys_of_seeds(generate(kind, seed, position, aval.update(dtype=INT64)), aval)
        drawn = np.random.default_rng([seed, position]).integers(0, 1 << 32, aval.shape)
        return keys_of_seeds(drawn, aval)
    dtype = np_dtype(aval.dtype)
    if dtype == float0 or kind == "zeros":
        return np.zeros(aval.shape, dtype)
    if kind == "ones":
        return np.ones(aval.shape, dtype)
    if kind == "ramp":
        count = np.arange(math.prod(aval.shape)).reshape(aval.shape)
        return (count % 2 if aval.dtype.kind == "b" else count).astype(dtype)
    rng = np.random.default_rng([seed, position])
    if aval.dtype.kind == "b":
        return rng.integers(0, 2, aval.shape).astype(dtype)
    if aval.dtype.kind in "iu":
        top = min(10, 1 << (aval.dtype.bits - (aval.dtype.kind == "i")))
        top = top if below is None else min(top, below)
        return rng.integers(0, top, aval.shape).astype(dtype)
    drawn = rng.standard_normal(aval.shape)
    if aval.dtype.kind == "c":
        drawn = drawn + 1j * rng.standard_normal(aval.shape)
    return np.asarray(drawn).astype(dtype)


def load_npy(path: str) -> np.ndarray:
    """The array of a `.npy` file; Python objects are refused. Raises UsageError."""
    with open_regular(path) as f:
        held = _load(f, path)
    if not isinstance(held, np.ndarray):
        fail(UsageError, f"cannot read {path}: not a .npy file", "unreadable-file")
    return held


def _load(f: Any, path: str) -> Any:
    try:
        return np.load(f, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        objects = "pickle" in str(e) or "Object arrays" in str(e)
        reason = "it holds Python objects" if objects else "not a NumPy file, or damaged"
        fail(UsageError, f"cannot read {path}: {reason}", "unreadable-file")


def load_npz(path: str, left: Sequence[Slot]) -> list[Any]:
    """Return the arrays of an `.npz` file for the first of the arguments that are left.

    Arrays are found by the arguments' names (`a`, `b`), else by `arg0`, `arg1`, ..., else taken in
    order.

    Args:
      path: the path of the file.
      left: the arguments that have no value yet.
    """
    with Npz(path) as members:
        named = zip(left, _assign(list(members), left, path), strict=False)
        return [_fit_member(members[key], slot, f"{key} of {path}") for slot, key in named]


def member_names(path: str) -> set[str]:
    """The names of the arrays in an `.npz` file."""
    with Npz(path) as members:
        return set(members)


def load_member(path: str, key: str, v: Var) -> Any:
    """Return the array `key` of an `.npz` file, for the constant that `v` binds."""
    return load_named(path, key, Slot.constant(v))


def load_named(path: str, key: str, slot: Slot) -> Any:
    """Return the array `key` of an `.npz` file.

    Raises UsageError where there is none, or one of another type.
    """
    with Npz(path) as members:
        if key not in members:
            held = ", ".join([*members][:_NAMES_SHOWN]) or "nothing"
            held += ", ..." if len(members) > _NAMES_SHOWN else ""
            fail(
                UsageError,
                f"{path} holds no array named {key}",
                "no-such-array",
                help=f"it holds {held}",
            )
        return _fit_member(members[key], slot, f"{key} of {path}")


def constant(value: Any, v: Var) -> Any:
    """Convert a value given for the constant that `v` binds: an array or keys of its type, a list, or a number."""
    slot = Slot.constant(v)
    if isinstance(value, (bool, int, float, complex, list)):
        return from_literal(value, slot)
    held = as_value(value)
    if not isinstance(held, KeyArray):
        return private_array(fit(np.asarray(held), slot, "what is given"))
    if held.shape != v.aval.shape or held.dtype is not v.aval.dtype:
        _mismatch(slot, type_name(held))
    return held


def _fit_member(member: Member, slot: Slot, name: str) -> Any:
    """Return the array of a member for a slot.

    Its data are read only after its type was checked.
    """
    fit(member.like(), slot.of_words() if is_key(slot.var.aval) else slot, name)
    return fit(member.read(), slot, name)


def _assign(names: Sequence[str], left: Sequence[Slot], path: str) -> Sequence[str]:
    """Assign members to the arguments that are left, in order."""
    by_name = [slot.var.name or "" for slot in left]
    by_position = [f"arg{slot.position}" for slot in left]
    for keys in (by_name, by_position):
        if keys and set(keys) == set(names):
            return keys
    if len(names) > len(left):
        are = "is" if len(left) == 1 else "are"
        fail(
            UsageError,
            f"{path} holds {counted(len(names), 'array')}, and {counted(len(left), 'argument')} {are} left",
            "argument-count",
        )
    return names


def pack(arrays: Sequence[Any], path: str, names: Sequence[str]) -> bytes:
    """Return the bytes of a `.npy` file (when `path` ends so; there must be one array), or of an
    `.npz` file of named arrays.
    """
    values = [_held(x) for x in arrays]
    buffer = io.BytesIO()
    if path.endswith(".npy"):
        if len(values) != 1:
            fail(
                UsageError,
                f"{path}: the program has {counted(len(values), 'result')}, and a .npy file holds one",
                "output-count",
                help="write an .npz file",
            )
        np.save(buffer, values[0], allow_pickle=False)
    else:
        return npz_bytes(dict(zip(names, values, strict=True)))
    return buffer.getvalue()


def _held(x: Any) -> np.ndarray:
    """Return a result as a NumPy array; keys as their words."""
    return x.data if isinstance(x, KeyArray) else np.asarray(x)


def result_text(array: Any) -> str:
    """Return a result as text for people: its type, and the value as NumPy prints it; for keys, the words."""
    value = _held(array)
    head = f"{type_name(array if isinstance(array, KeyArray) else value)} "
    if value.dtype == float0:
        return head + "(no value)"
    body = np.array2string(value, separator=", ", prefix=head) if value.ndim else str(value[()])
    if value.dtype.kind == "V":
        body = str(value.tolist())
    return head + body


def result_json(array: Any) -> dict[str, Any]:
    """A result as `{"dtype", "shape", "data"}`: nested lists; complex numbers as [re, im], keys as their words,
    nan and inf as strings."""
    value = array if isinstance(array, KeyArray) else np.asarray(array)
    dtype = dtype_of(value.dtype)
    data = [] if value.dtype == float0 else _plain(_held(value).tolist())
    return {"dtype": str(dtype or value.dtype), "shape": list(value.shape), "data": data}


def word_of(array: Any) -> str:
    """Return a value as a word of the command line: a number or nested lists; for keys the words; "" for float0."""
    value = _held(array)
    return "" if value.dtype == float0 else _word(value)


def _word(value: np.ndarray) -> str:
    if value.ndim:
        return f"[{','.join(map(_word, value))}]"
    text = str(value[()]) if value.dtype.kind in "fcV" else str(value.item())
    return "-0.0" if text == "-0" else text.strip("()").lower()  # an integer has no sign of zero


def _plain(x: Any) -> Any:
    if isinstance(x, list):
        return [_plain(y) for y in x]
    if isinstance(x, complex):
        return [_plain(x.real), _plain(x.imag)]
    if isinstance(x, (bool, int)):
        return x
    number = float(x)
    return number if math.isfinite(number) else str(number)
