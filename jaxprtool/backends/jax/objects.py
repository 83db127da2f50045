"""Find JAX's objects by their printed text: members of enums, effects, devices, generators, meshes, shardings.

A text names an object of the running process, such as a device, where the process has one that
prints so.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import numpy as np

from jaxprtool.backends.jax.devices import default_devices
from jaxprtool.backends.jax.private import (
    EMPTY_MESH,
    UNSPECIFIED,
    Effect,
    abstract_device,
    evaluate,
    key_impl,
    param_class,
)
from jaxprtool.backends.jax.releases import loaded_modules
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.frozen import FrozenList
from jaxprtool.ir.params import (
    ElementClass,
    EnumMember,
    Opaque,
    PrintedArray,
    Record,
    Structured,
    Word,
)
from jaxprtool.ir.sharding import Mesh, PartitionSpec
from jaxprtool.ir.trees import TreeDefinition
from jaxprtool.syntax.params import read_value

__all__ = [
    "UNREADABLE",
    "array_of_print",
    "computation_of",
    "object_of_record",
    "object_of_text",
    "symbolic_dim",
]

UNREADABLE: Any = object()  # instead of an object, where the process has none that prints so

_PREFERRED = {  # enums whose members print without the name of the enum
    "precision": (jax.lax.Precision, jax.lax.DotAlgorithmPreset),
    "accuracy": (jax.lax.AccuracyMode,),
    "algorithm": (jax.lax.RandomAlgorithm,),
    "mode": (jax.lax.GatherScatterMode,),
    "fft_type": (jax.lax.FftType,),
}
_CLASS = re.compile(r"<class '(?:([\w.]+)\.)?(\w+)'>")


def object_of_text(key: str, text: str) -> Any:
    """Return the object that a param `key` prints as `text`, or `UNREADABLE`."""
    for read in (_member, _singleton, _type, _number, _device, _compound):
        found = read(key, text)
        if found is not UNREADABLE:
            return found
    return UNREADABLE


def _member(key: str, text: str) -> Any:
    """Return a member of an enum, by its name or with its class's name before it."""
    prefix, _, name = text.rpartition(".")
    classes = (_class_named(prefix),) if prefix else _PREFERRED.get(key, ())
    for cls in classes:
        if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
            return cls[name]
    return UNREADABLE


@functools.cache
def _singletons() -> dict[str, Any]:
    """Return effects and members of enums by their printed text; a text that two of them share is left out."""
    found: dict[str, Any] = {}
    for module in loaded_modules():
        for v in list(vars(module).values()):
            members = list(v) if isinstance(v, enum.EnumMeta) else [v]
            for x in members:
                if isinstance(x, (enum.Enum, Effect)):
                    for text in {str(x), repr(x)}:
                        known = found.setdefault(text, x)
                        if known is not x and known != x:
                            found[text] = UNREADABLE
    return found


def _singleton(key: str, text: str) -> Any:
    if key == "impl" and (impl := key_impl(text)) is not None:
        return impl
    if text == "UnspecifiedValue":
        return UNSPECIFIED
    return _singletons().get(text, UNREADABLE)


def _type(key: str, text: str) -> Any:
    """A class of numbers, `<class 'numpy.float32'>` or one of `jax.numpy`, or a dtype."""
    m = _CLASS.fullmatch(text)
    dtype = find_dtype(m[2] if m else text)
    if dtype is None or dtype.kind in "k?":
        return UNREADABLE
    if m and m[1] == "jax.numpy":
        return getattr(jax.numpy, m[2], UNREADABLE)
    return np_dtype(dtype).type if m else np_dtype(dtype)


_NUMBER = re.compile(r"np\.(bool|float\d+|complex\d+|longdouble)\(([^()]*|\([^()]*\))\)")


def _number(key: str, text: str) -> Any:
    """A scalar of NumPy's, `np.float32(0.5)` or `np.True_`."""
    if text in ("np.True_", "np.False_"):
        return np.bool_(text == "np.True_")
    m = _NUMBER.fullmatch(text)
    try:
        return (
            np.dtype(m[1]).type(complex(m[2]) if m[1][0] == "c" else float(m[2]))
            if m
            else UNREADABLE
        )
    except ValueError:
        return UNREADABLE


def _device(key: str, text: str) -> Any:
    if "(" not in text or "id=" not in text:
        return UNREADABLE
    return next((d for d in default_devices() if text in (repr(d), str(d))), UNREADABLE)


def _tree(tree: TreeDefinition) -> Any:
    """The structure of a pytree of tuples, lists, dicts and None."""
    try:
        return jax.tree.structure(tree.unflatten(itertools.repeat(0)))
    except ValueError:
        return UNREADABLE


def _compound(key: str, text: str) -> Any:
    """Return an object that holds meshes, shardings or trees."""
    value = read_value(text)
    return _restored(key, value) if isinstance(value, (Record, Structured)) else UNREADABLE


def _restored(key: str, v: Any) -> Any:
    """Return a value that was read, with JAX's objects in it."""
    if type(v) in (tuple, FrozenList, frozenset):
        items = [_restored(key, x) for x in v]
        made = list if isinstance(v, list) else type(v)
        return UNREADABLE if any(x is UNREADABLE for x in items) else made(items)
    if isinstance(v, Record):
        return object_of_record(key, v, functools.partial(_restored, key))
    if isinstance(v, TreeDefinition):
        return _tree(v)
    if isinstance(v, PrintedArray):
        return array_of_print(v)
    if isinstance(v, (Mesh, PartitionSpec)):
        return _placement(v)
    if isinstance(v, (EnumMember, ElementClass)):
        found = _singleton(key, str(v))
        # The number of a member, or the form, may be of another Python.
        if found is UNREADABLE and isinstance(v, EnumMember):
            return _member(key, f"{v.enum}.{v.name}")
        return _type(key, str(v)) if found is UNREADABLE else found
    if isinstance(v, (Word, Opaque)):
        return object_of_text(key, str(v))
    return v


def _placement(v: Any) -> Any:
    """Return a mesh or a partition spec of ours as JAX's; `UNREADABLE` where there are not as many devices."""
    if isinstance(v, PartitionSpec):
        dims = [_unconstrained if isinstance(d, Word) else d for d in v.dims]
        sums: dict[str, Any] = {"unreduced": v.unreduced, "reduced": v.reduced}
        if v.kind:
            kinds = getattr(jax.sharding, "UnreducedKind", None)
            sums["unreduced_kind"] = UNREADABLE if kinds is None else kinds[v.kind]
        return _made(jax.sharding.PartitionSpec, *dims, **sums)
    fields = {k: str(x) if isinstance(x, str) else x for k, x in v.fields.items()}
    types = [getattr(jax.sharding.AxisType, t, UNREADABLE) for t in v.axis_types]
    if UNREADABLE in types:
        return UNREADABLE
    return _made(_MAKERS[v.constructor], dict(v.sizes), tuple(types), **fields)


def _made(make: Callable[..., Any], *args: Any, **fields: Any) -> Any:
    """Call a constructor of JAX's; return `UNREADABLE` where it fails, which it may do with many kinds of errors."""
    # This release makes it in another way, there are no such devices, or the values mean nothing.
    try:
        return make(*args, **fields)
    except Exception:
        return UNREADABLE


_unconstrained = jax.sharding.PartitionSpec.UNCONSTRAINED


def object_of_record(key: str, record: Record, restored: Callable[[Any], Any]) -> Any:
    """Return the object that prints as a call, `Name(field=value, ...)`, or `UNREADABLE`.

    Args:
      key: the param.
      record: the call.
      restored: converts the value of a field to JAX's.
    """
    maker = _MAKERS.get(record.name)
    for read in (_number, _device):
        found = read(key, repr(record))
        if found is not UNREADABLE:
            return found
    cls: Any = _class_named(record.name) if maker is None else None
    if maker is None and (cls is None or record.args):
        return UNREADABLE
    args = [restored(x) for x in record.args]
    fields = {
        k: str(x) if k in _WORDS and x is not None else restored(x)
        for k, x in record.fields.items()
    }
    if any(x is UNREADABLE for x in (*args, *fields.values())):
        return UNREADABLE
    return _made(maker or cls, *args, **fields)


def _axis_types(sizes: Any, types: Any) -> Any:
    return types if types is not None else (jax.sharding.AxisType.Auto,) * len(sizes)


def _mesh(sizes: dict[str, int] | None = None, axis_types: Any = None, **_: Any) -> Any:
    """Return a mesh of the first devices; raises ValueError where there are too few."""
    if not sizes:
        return EMPTY_MESH
    shape = tuple(sizes.values())
    n = int(np.prod(shape, dtype=int))
    found = default_devices()
    if len(found) < n:
        raise ValueError(f"the mesh has {n} devices")
    devices = np.asarray(found[:n]).reshape(shape)
    return jax.sharding.Mesh(devices, tuple(sizes), axis_types=_axis_types(sizes, axis_types))


def _abstract_mesh(
    sizes: dict[str, int] | None = None,
    axis_types: Any = None,
    device_kind: str = "",
    num_cores: int | None = None,
    platform: str = "",
    num_tpu_cores: int | None = None,  # of releases before 0.8, where a CPU has 0
) -> Any:
    sizes = sizes or {}
    types = _axis_types(sizes, axis_types)
    kind: dict[str, Any] = {}
    if device_kind:
        kind["abstract_device"] = abstract_device(
            device_kind, num_cores or num_tpu_cores or None, platform
        )
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes), types, **kind)


def _hashable(array: Any) -> Any:
    """Return an array among attributes of a `composite` or an `ffi_call`; the module of its class
    differs by release.
    """
    return _class_named("HashableArray")(array)


def _sharding_rule(operands: Any, results: Any, sizes: Any) -> Any:
    """Return the rule of a `custom_partitioning`; its mappings print as tuples of factors, and of
    tuples of factors.
    """
    mapping, compound = _class_named("ArrayMapping"), _class_named("CompoundFactor")

    def mappings(given: Any) -> tuple[Any, ...]:
        return tuple(
            mapping(*[d if isinstance(d, str) else compound(*d) for d in m]) for m in given
        )

    return _class_named("SdyShardingRule")(mappings(operands), mappings(results), **sizes)


def array_of_print(array: PrintedArray) -> Any:
    """Return the NumPy array that prints so, or `UNREADABLE` where the print leaves out elements."""
    dtype = find_dtype(str(array.fields.get("dtype", "")))
    found = _made(np.array, array.rows, None if dtype is None else np_dtype(dtype))
    if found is UNREADABLE or found.dtype == object:
        return UNREADABLE
    return _made(found.reshape, array.fields.get("shape", found.shape))


_WORDS = frozenset({"memory_kind", "device_kind", "platform"})  # fields that are text to JAX too


_MAKERS: dict[str, Callable[..., Any]] = {
    "AbstractMesh": _abstract_mesh,
    "HashableArray": _hashable,
    "Mesh": _mesh,
    "NamedSharding": jax.sharding.NamedSharding,
    "SdyShardingRule": _sharding_rule,
    "SingleDeviceSharding": jax.sharding.SingleDeviceSharding,
    "dtype": lambda name: np_dtype(find_dtype(name)),
}


@functools.cache
def _class_named(name: str) -> Any:
    """Return a class of JAX's that occurs in params, by its name with or without its module; None
    where there is none.
    """
    return param_class(name.rpartition(".")[2])


_SCOPE: Any = functools.cache(jax.export.SymbolicScope)


@functools.cache
def symbolic_dim(text: str) -> Any:
    """Return a size that is a polynomial, `2*a + 1`, as JAX's.

    All are of one scope, without constraints.

    Raises:
      UnsupportedError: JAX cannot read it.
    """
    try:
        return jax.export.symbolic_shape(text, scope=_SCOPE())[0]
    except ValueError as e:
        return fail(UnsupportedError, f"JAX does not read the size {text}: {e}", "opaque-type")


def computation_of(jaxpr: Any) -> Callable[..., Any]:
    """Return the function that `reduce` and similar primitives hold beside their jaxpr."""

    def computation(*args: Any) -> Any:
        outs = evaluate(jaxpr, *args)
        return outs[0] if len(outs) == 1 else outs

    return computation
