"""Trace functions of any pytrees with JAX, on types or example values."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import jax

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.containers import node_of
from jaxprtool.backends.jax.expansion import expanded
from jaxprtool.backends.jax.from_jax import as_struct, from_jax
from jaxprtool.core.axes import current_axes
from jaxprtool.core.trace import Tracer
from jaxprtool.core.tree import check_depth
from jaxprtool.interpreters.evaluate import jaxpr_as_fun
from jaxprtool.interpreters.stage import leaf_aval
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.interface import Node, Tree, interface_of, leaf_names, named_arguments, tree_of
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["apply_jax_function", "forget_traces", "trace_with_jax", "traced_leaves", "with_x64"]

_CODE = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)


def with_x64(make: Callable[[], Any], x64: bool | None) -> Any:
    """Call a function with 64-bit types switched on or off in JAX; None leaves the setting as it is."""
    if x64 is None:
        return make()
    with jax.enable_x64(x64):
        return make()


def forget_traces() -> None:
    """Clear JAX's caches of traces, such as those of functions under `jit`, so that it traces again."""
    jax.clear_caches()


def trace_with_jax(
    f: Callable[..., Any], args: tuple[Any, ...], x64: bool | None = None, rules: bool = True
) -> ClosedJaxpr:
    """Return the program of a JAX function.

    Primitives that only this process knows become calls of their implementation, where JAX traces it.

    Args:
      f: the function.
      args: its arguments: pytrees of `ShapedArray`s, of JAX's `ShapeDtypeStruct`s, and of values, of
        which only the types matter. Other leaves (functions, strings) are passed on unchanged; so are
        the numbers in a module of equinox, as in its own transformations.
      x64: whether 64-bit types are on meanwhile (else they become 32-bit ones); None: if a type among
        the arguments is one, or the user's own code has turned them on.
      rules: whether the program holds the derivative rules of custom functions and such primitives.

    Returns:
      The program; its arguments are the array leaves, its `interface` has None in the others' place.

    Raises:
      UsageError: an argument holds arrays in an object that is no pytree, or is nested too deeply.
    """
    check_depth(args)
    leaves, tree = jax.tree_util.tree_flatten_with_path(args, is_leaf=_is_type)
    if x64 is None:
        wide = jax.dtypes.canonicalize_dtype("float64") == "float64"
        x64 = wide or any(_is_wide(leaf) for _, leaf in leaves)
    modules = _equinox_modules(args)
    traced = [_is_traced(leaf, path, modules) for path, leaf in leaves]
    named = named_arguments(f, args)
    names = leaf_names(named, _node)
    for (_, leaf), name, known in zip(leaves, names, traced, strict=False):
        if not known:
            _refuse_arrays_in(leaf, name)

    specs = [as_struct(x) if _is_type(x) else x for _, x in leaves]

    result: list[Tree | None] = []

    @functools.wraps(f)
    def whole(*given: Any) -> Any:
        found = f(*given)
        result[:] = [tree_of(found, _node)]
        return found

    def flat(*values: Any) -> Any:
        given = iter(values)
        mixed = [next(given) if t else x for x, t in zip(specs, traced, strict=True)]
        return whole(*jax.tree_util.tree_unflatten(tree, mixed))

    with jax.enable_x64(x64):
        if all(traced):  # with f's own parameters, so that messages of JAX's name them
            jaxpr = jax.make_jaxpr(whole)(*jax.tree_util.tree_unflatten(tree, specs))
        else:
            flat_f = functools.wraps(f)(flat)
            jaxpr = jax.make_jaxpr(flat_f)(*[x for x, t in zip(specs, traced, strict=True) if t])
        program = expanded(from_jax(jaxpr, rules=rules), rules)
    interface = interface_of(named, result[0], _node)
    return program.replace(interface=interface and interface.of_leaves(traced))


def traced_leaves(args: tuple[Any, ...]) -> list[Any]:
    """Return the values in pytrees that `trace_with_jax` makes arguments of the program, in their order."""
    check_depth(args)
    leaves, _ = jax.tree_util.tree_flatten_with_path(args, is_leaf=_is_type)
    modules = _equinox_modules(args)
    return [leaf for path, leaf in leaves if _is_traced(leaf, path, modules)]


def _node(x: Any) -> Node | None:
    """Return one level of a pytree; None for a leaf, such as a type of ours."""
    return None if _is_type(x) else node_of(x)


def apply_jax_function(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return `f(*args)`, by evaluating the program that JAX traces of `f` for the types of the arguments.

    Args:
      f: a function that is written with JAX.
      args: pytrees of values and tracers of ours.

    Returns:
      A pytree with the structure of the result of `f`.
    """
    leaves, in_tree = jax.tree_util.tree_flatten(tuple(args))
    trees: list[Any] = []

    @functools.wraps(f)
    def flat(*given: Any) -> list[Any]:
        outs, tree = jax.tree_util.tree_flatten(f(*given))
        trees.append(tree)
        return outs

    avals = [leaf_aval(x) if isinstance(x, Tracer) or hasattr(x, "dtype") else x for x in leaves]
    with private.bound_axes([*current_axes().sizes.items()]):
        program = trace_with_jax(flat, jax.tree_util.tree_unflatten(in_tree, avals))
    taken = [x for x in leaves if _is_traced(x, (), set())]
    return jax.tree_util.tree_unflatten(trees[-1], jaxpr_as_fun(program)(*taken))


def _is_type(x: Any) -> bool:
    return isinstance(x, ShapedArray)


def _is_wide(x: Any) -> bool:
    return _is_type(x) and x.dtype.kind in "iufc" and x.dtype.real.bits == 64


def _equinox_modules(args: Any) -> set[Any]:
    """The paths of the modules of equinox in a pytree, where that library is loaded."""
    equinox = sys.modules.get("equinox")
    if equinox is None:
        return set()
    found, _ = jax.tree_util.tree_flatten_with_path(
        args, is_leaf=lambda x: _is_type(x) or isinstance(x, equinox.Module)
    )
    return {path for path, x in found if isinstance(x, equinox.Module)}


def _is_traced(x: Any, path: Sequence[Any], modules: set[Any]) -> bool:
    """Whether a leaf becomes an argument of the program."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return True
    if not isinstance(x, (bool, int, float, complex)):
        return False
    return not any(tuple(path[:n]) in modules for n in range(1, len(path) + 1))


def _refuse_arrays_in(x: Any, name: str) -> None:
    """Raise UsageError for an object that JAX takes for a leaf, although arrays are among its attributes."""
    if isinstance(x, _CODE) or not hasattr(x, "__dict__"):
        return
    if any(hasattr(v, "shape") and hasattr(v, "dtype") for v in vars(x).values()):
        kind = type(x).__name__
        fail(
            UsageError,
            f"the argument {name} is of the class {kind}, which holds arrays and is no pytree",
            "not-a-pytree",
            help=f"register it, with jax.tree_util.register_dataclass({kind}) for example",
        )
