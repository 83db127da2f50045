"""The Python function `jit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import base_trace, state
from jaxprtool.core.gateways import gateways
from jaxprtool.core.trace import Tracer, get_aval
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.functions.parameters import (
    Statics,
    by_position,
    function_name,
    named_like,
)
from jaxprtool.interpreters.stage import argument_names, flatten_fun, hoist_consts, stage
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.exact_keys import kind_of
from jaxprtool.ir.frozen import private_array
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["compiled", "jit"]


def compiled(closed: ClosedJaxpr) -> Callable[..., list[Value]]:
    """Return the function of values that evaluates a jaxpr compiled by XLA."""
    return gateways.compile_jaxpr(closed)


def jit(
    f: Callable[..., Value],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Value]:
    """Return f traced to a jaxpr once for each combination of argument types, and compiled by XLA.

    Args:
      f: a function of pytrees.
      static_argnums: positions of arguments that are not traced; they have to be hashable, and f is
        traced anew for each value.
      static_argnames: names of such arguments. If one of the two is given, the other is derived
        from f's signature.

    Returns:
      A function like f. Called on values, it runs the compiled program, and its results stay on
      the device until they are converted; under a transformation, it is one `jit` equation.

    Raises:
      UsageError: f has no such argument; a static argument is not hashable.
    """
    statics = Statics.of(f, static_argnums, static_argnames)
    cache: dict[Any, tuple[ClosedJaxpr, list[Any], Any]] = {}
    name = function_name(f)

    def jitted(*given: Value, **keywords: Value) -> Value:
        of_args, left, keywords, fixed = statics.apart(f, given, keywords)
        of_args, args = by_position(of_args, left, keywords)
        leaves, in_tree = tree_flatten(args)
        types = tuple([get_aval(x).strong for x in leaves])
        key = (in_tree, types, tuple(sorted(keywords)), _key_of(fixed, f))
        if key not in cache:
            cache[key] = _stage_call(of_args, args, leaves, in_tree)
        closed, consts, out_tree = cache[key]
        operands = [*consts, *leaves]
        if state.trace is base_trace() and not any(isinstance(x, Tracer) for x in operands):
            outs = compiled(closed)(*operands)
        else:
            outs = lax.jit_call(*operands, jaxpr=closed, name=name, backend="xla")
        return tree_unflatten(out_tree, outs)

    return named_like(f, jitted)


def _key_of(fixed: Mapping[int | str, Any], f: Callable[..., Value]) -> frozenset[Any]:
    """Return a cache key for static arguments.

    It tells apart what is equal to Python but gives different programs, as 1, 1.0 and True.
    """
    for where, value in fixed.items():
        try:
            hash(value)
        except TypeError:
            label = where if isinstance(where, str) else f"argument {where}"
            message = f"{label} of {function_name(f)} is static, and {type(value).__name__} is not hashable"
            fail(
                UsageError,
                message,
                "static-argument",
                help="give a tuple, or another hashable value",
            )
    return frozenset([(where, kind_of(value), value) for where, value in fixed.items()])


def _stage_call(
    f: Callable[..., Value], args: Sequence[Value], leaves: Sequence[Value], in_tree: Any
) -> tuple[ClosedJaxpr, list[Value], Value]:
    """Trace f.

    Returns:
      Its jaxpr, with the values that f closes over as leading arguments.
      Those values.
      The tree of f's result.
    """
    flat, out_tree = flatten_fun(f, in_tree)
    closed = stage(flat, [get_aval(x) for x in leaves], argument_names(f, args))
    return hoist_consts(closed), [*map(private_array, closed.const_operands)], out_tree[0]
