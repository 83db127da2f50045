"""The Python function `jit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import base_trace, state
from jaxprtool.core.gateways import gateways
from jaxprtool.core.trace import Tracer, get_aval
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.stage import argument_names, flatten_fun, hoist_consts, stage
from jaxprtool.ir.frozen import private_array
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value

__all__ = ["compiled", "jit"]


def compiled(closed: ClosedJaxpr) -> Callable[..., list[Value]]:
    """A jaxpr as a compiled function of values."""
    return gateways.compile_jaxpr(closed)


def jit(f: Callable[..., Value], static_argnums: int | Sequence[int] = ()) -> Callable[..., Value]:
    """f, staged to a jaxpr once for each combination of types, and compiled by XLA.

    Args:
      f: a function of pytrees.
      static_argnums: positions of arguments that are not traced; they have to be hashable, and each
        value is staged anew.

    Returns:
      A function like f. Called on values, it runs the compiled program, and its results stay on
      the device until they are converted; under a transformation, it is one `jit` equation.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    cache: dict[Any, tuple[ClosedJaxpr, list[Any], Any]] = {}
    name = getattr(f, "__name__", "f")

    def jitted(*args: Value) -> Value:
        fixed = {i % len(args): args[i] for i in static}
        dynamic = [x for i, x in enumerate(args) if i not in fixed]
        leaves, in_tree = tree_flatten(dynamic)
        key = (in_tree, tuple(get_aval(x).strong for x in leaves), tuple(fixed.items()))
        if key not in cache:
            cache[key] = _stage_call(_with_static(f, fixed), dynamic, leaves, in_tree)
        closed, consts, out_tree = cache[key]
        operands = [*consts, *leaves]
        if state.trace is base_trace() and not any(isinstance(x, Tracer) for x in operands):
            outs = compiled(closed)(*operands)
        else:
            outs = lax.jit_call(*operands, jaxpr=closed, name=name, backend="xla")
        return tree_unflatten(out_tree, outs)

    return jitted


def _with_static(f: Callable[..., Value], fixed: dict[int, Any]) -> Callable[..., Value]:
    """f with some of its positional arguments fixed."""
    if not fixed:
        return f

    def partial(*dynamic: Value) -> Value:
        rest = iter(dynamic)
        n = len(dynamic) + len(fixed)
        return f(*[fixed[i] if i in fixed else next(rest) for i in range(n)])

    return partial


def _stage_call(
    f: Callable[..., Value], args: Sequence[Value], leaves: Sequence[Value], in_tree: Any
) -> tuple[ClosedJaxpr, list[Value], Value]:
    """The jaxpr of f with what it closes over as leading arguments, their values, f's result tree."""
    flat, out_tree = flatten_fun(f, in_tree)
    closed = stage(flat, [get_aval(x) for x in leaves], argument_names(f, args))
    return hoist_consts(closed), [*map(private_array, closed.const_operands)], out_tree[0]
