"""JAX's primitives by name, including those that the user's process declared itself."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import sys
from typing import Any, NamedTuple

import jax

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.hi_primitives import shown_params
from jaxprtool.backends.jax.linear_calls import LINEAR_CALL
from jaxprtool.backends.jax.live import LivePrimitive
from jaxprtool.backends.jax.plug_ins import of_library, ours_of
from jaxprtool.backends.jax.releases import loaded_modules, named
from jaxprtool.backends.jax.vocabulary import our_name, their_name
from jaxprtool.backends.numpy_eval import KeyArray
from jaxprtool.core.primitive import declared_primitive, known_primitive
from jaxprtool.core.unknown import unknown_primitive
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.ops import pallas

__all__ = [
    "by_own_name",
    "has_primitive",
    "is_of_jax",
    "jax_primitive",
    "key_array",
    "key_generator",
    "live_primitive",
    "primitive_from_jax",
    "primitives_of_process",
]

# By the identity of JAX's primitive, or of the object that it prints as, which each of these keeps alive.
_live: dict[int, LivePrimitive] = {}


def primitive_from_jax(theirs: Any) -> Primitive:
    """Return our primitive for one of JAX's: the declared one of its name, or one that keeps JAX's object.

    JAX's own may lack a declaration too, since later releases have new ones. A primitive that the
    user declared, and that only shares its name with one of JAX's or a library's, is not that one.
    """
    if type(theirs) is _Shown:
        return _shown_primitive(theirs)
    made = ours_of(theirs)
    if made is not None:
        return made
    found = known_primitive(our_name(theirs.name))
    if found is not None and not found.library and not _is_namesake(theirs):
        return found
    return _of_plug_in(theirs) or live_primitive(theirs)


def live_primitive(theirs: Any) -> LivePrimitive:
    """The primitive that keeps JAX's object."""
    if id(theirs) not in _live:
        _live[id(theirs)] = LivePrimitive(theirs)
    return _live[id(theirs)]


def _shown_primitive(theirs: _Shown) -> LivePrimitive:
    """Return the primitive that keeps an object of JAX's, under the name that it prints."""
    held = theirs.given["_prim"]
    if id(held) not in _live:
        _live[id(held)] = LivePrimitive(theirs.value, theirs.name, theirs.given)
    return _live[id(held)]


_plug_ins: dict[Any, Primitive | None] = {}  # by JAX's primitives


def _of_plug_in(theirs: Any) -> Primitive | None:
    """Return a plug-in's declaration of a library's primitive; None for others."""
    if theirs not in _plug_ins:
        found = declared_primitive(theirs.name)
        known = found is not None and found.library and of_library(theirs, found.library)
        _plug_ins[theirs] = found if known else None
    return _plug_ins[theirs]


class _Named(NamedTuple):
    """An equation of one of JAX's primitives that are classes, as if its primitive had the class's name."""

    primitive: Any
    invars: list[Any]
    outvars: list[Any]
    params: dict[str, Any]
    source_info: Any


class _ByName(NamedTuple):
    name: str


class _Shown(NamedTuple):
    """JAX's primitive of an equation that prints the name and the params of an object that it holds."""

    name: str
    value: Any
    given: dict[str, Any]


def by_own_name(eqn: Any) -> Any:
    """Return an equation of JAX's; one whose primitive is a class that we declare by its name, as an equation of ours.

    An equation that holds jaxprs is kept, under the name and with the params that it prints: its
    object knows more about them than these show.
    """
    if eqn.primitive.name != "call_hi_primitive":
        return eqn
    theirs = eqn.params["_prim"]
    name = type(theirs).__name__
    ours = known_primitive(name)
    if ours is None or ours.holds_jaxprs:
        shown = shown_params(theirs)
        if shown is None:
            return eqn
        primitive = _Shown(name, eqn.primitive, dict(eqn.params))
        return _Named(primitive, eqn.invars, eqn.outvars, shown, eqn.source_info)
    if not theirs.params.keys() >= ours.params.keys() - dict(ours.recovered).keys():
        return eqn
    return _Named(_ByName(name), eqn.invars, eqn.outvars, theirs.params, eqn.source_info)


def _is_namesake(theirs: Any) -> bool:
    """Whether JAX has primitives of this name, and this is none of them."""
    own = _registry().get(theirs.name, ())
    if not own or theirs in own:
        return False
    _registry.cache_clear()  # a module with further primitives may have been loaded since
    return theirs not in _registry().get(theirs.name, ())


def is_of_jax(theirs: Any) -> bool:
    """Whether a primitive belongs to one of JAX's own loaded modules."""
    return theirs in _registry().get(theirs.name, ())


@functools.cache
def _registry() -> dict[str, list[Any]]:
    """Return JAX's primitives by name: those of its loaded modules, public ones first."""
    found: dict[str, list[Any]] = {}
    for module in [private.primitives, *loaded_modules()]:
        for v in list(vars(module).values()):
            if isinstance(v, private.Primitive) and v not in found.setdefault(v.name, []):
                found[v.name].append(v)
    for name, v in _WITH_MORE_RULES.items():  # what we gave JAX comes back as its own
        found.setdefault(name, []).append(v)
    return found


def key_array(keys: KeyArray) -> Any:
    """Return keys as JAX's array of keys."""
    data = jax.numpy.asarray(keys.data)
    return jax.random.wrap_key_data(data, impl=key_generator(keys.dtype).name)


def key_generator(dtype: DType) -> Any:
    """Return JAX's generator of keys of a kind.

    Raises UnsupportedError where the installed JAX has none.
    """
    name = dtype.name.removeprefix("key<").removesuffix(">")
    found = private.key_impl(name)
    if found is None:
        fail(UnsupportedError, f"{named()} has no keys of the kind {name}", "unknown-primitive")
    return found


def has_primitive(name: str) -> bool:
    """Whether the installed JAX has this primitive of ours."""
    if their_name(name) not in _registry():
        _load_module_of(name)
    return _registry_entry(their_name(name)) is not None


# Modules that declare primitives of another name than their own.
_MODULES = {
    "fused_call": "fused",
    "xla_metadata_call": "scheduling_groups",
    "xla_metadata_value": "xla_metadata",
}


def _load_module_of(name: str) -> None:
    """Import the part of JAX that declares a primitive of ours, where `import jax` does not import it."""
    declared = known_primitive(name)
    if declared is not None:  # no name that a file may make up
        with contextlib.suppress(ImportError):  # most are in no module of their own
            importlib.import_module(f"jax.experimental.{_MODULES.get(name, name)}")
    if name.startswith("masked_") or (declared and declared.stub.__module__ == pallas.__name__):
        private.own_module("pallas.pallas_call")


# Used in place of JAX's own primitives that lack rules in JAX.
_WITH_MORE_RULES = {"linear_call": LINEAR_CALL}


def jax_primitive(name: str) -> Any:
    """Return the primitive of this name: JAX's, else that of a module of this process, else any that exists.

    Raises:
      UnsupportedError: there is none, or there are several in no module.
    """
    if name in _WITH_MORE_RULES:
        return _WITH_MORE_RULES[name]
    if their_name(name) not in _registry():
        _load_module_of(name)
    for find in (_registry_entry, _in_modules, _anywhere):
        found = find(their_name(name))
        if found is not None:
            return found
    if known_primitive(name) is None:
        why = f"{named()} has none of this name"
        raise UnsupportedError(unknown_primitive(name, why, module=" MODULE"))
    return fail(UnsupportedError, f"{named()} has no primitive {name}", "unknown-primitive")


def _registry_entry(name: str) -> Any:
    if name not in _registry():
        _registry.cache_clear()
    return next(iter(_registry().get(name, ())), None)


def _in_modules(name: str) -> Any:
    """A primitive that is a global of a module."""
    for module in list(sys.modules.values()):
        for v in list(getattr(module, "__dict__", {}).values()):
            if isinstance(v, private.Primitive) and v.name == name:
                return v
    return None


def primitives_of_process() -> list[Any]:
    """Return all primitives of JAX's that exist, including those that only a function or an object holds."""
    return [v for v in gc.get_objects() if issubclass(type(v), private.Primitive)]


def _anywhere(name: str) -> Any:
    """Return a primitive that is no global of a module; JAX's tables of rules keep it alive."""
    found = [v for v in primitives_of_process() if v.name == name]
    if len(found) > 1:
        message = f"this process has {len(found)} primitives named {name}"
        fail(UnsupportedError, message, "unknown-primitive", help="make one of them a global")
    return found[0] if found else None
