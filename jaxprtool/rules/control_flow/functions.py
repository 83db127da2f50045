"""The Python functions `scan`, `while_loop` and `fori_loop`, which stage their bodies."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool import ops as lax
from jaxprtool.core.trace import Tracer, get_aval, scalar_lit
from jaxprtool.core.tree import tree_flatten, tree_paths, tree_unflatten
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.functions.jax_functions import call
from jaxprtool.interpreters.functions.parameters import function_name
from jaxprtool.interpreters.stage import argument_names, flatten_fun, hoist_consts, stage
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Value

__all__ = ["fori_loop", "scan", "while_loop"]


def _check_leaves(name: str, init: Value, tree: Any, out_tree: Any, outs: Sequence[Value]) -> None:
    """Raise an error that names the first part of the carry whose type a step changes."""
    if out_tree != tree:
        ill_typed(
            f"{name}: the carry is {tree} before a step, and {out_tree} after it", "carry-type"
        )
    leaves, _ = tree_flatten(init)
    for path, x, out in zip(tree_paths(init), leaves, outs, strict=True):
        before, after = get_aval(x).strong, out.strong
        if before is not after:
            ill_typed(
                f"{name}: the part carry{path} is {before} before a step, and {after} after it",
                "carry-type",
                help="a step has to give back what it takes, with the same shape and dtype",
            )


def _typed(leaves: Sequence[Value]) -> list[Value]:
    """Return the leaves, with Python scalars as literals whose types do not depend on the other
    leaves.
    """
    return [
        scalar_lit(x, get_aval(x).dtype) if type(x) in (bool, int, float, complex) else x
        for x in leaves
    ]


def _length(leaves: Sequence[Value], length: Any) -> int:
    sizes: set[Any] = {get_aval(x).shape[0] if get_aval(x).shape else None for x in leaves}
    if length is not None:
        sizes.add(operator.index(length) if hasattr(length, "__index__") else length)
    if len(sizes) != 1 or None in sizes:
        given = ", ".join(str(get_aval(x)) for x in leaves) or "nothing"
        _usage(f"scan of {given} with length={length}: one number of steps is needed")
    (size,) = sizes
    if not isinstance(size, int) or size < 0:
        _usage(f"scan: length={size} is no number of steps")
    return size


def _pair(result: Any, f: Callable[..., Any]) -> tuple[Value, Value]:
    """Return the carry and the y that a step of a scan returned."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        message = (
            f"scan: a step returns a pair (carry, y), and the result of {function_name(f)} is none"
        )
        fail(UsageError, message, "scan-step", help="return (carry, None) where there is no y")
    return result[0], result[1]


def _usage(message: str) -> NoReturn:
    fail(UsageError, message, "scan-length")


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Value,
    xs: Value = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Value, Value]:
    """Apply f(carry, x) -> (carry, y) to the slices of xs along their first axis, one after the
    other.

    Args:
      f: a function of pytrees; it may close over tracers.
      init: the carry at the start.
      xs: arrays with the same size along their first axes, or None.
      length: the number of steps, where xs does not say it.
      reverse: whether the steps go from the last slice to the first.
      unroll: how many steps one iteration of the compiled loop takes; True means all of them.
    Returns:
      The last carry, and the ys stacked along new first axes.

    Raises:
      UsageError: the number of steps is not known, or not one number; f returns no pair. JaxprTypeError: a step changes the
        structure or a type of the carry; the message names the part.
    """
    carry, carry_tree = tree_flatten(init)
    slices, xs_tree = tree_flatten(xs)
    n = _length(slices, length)
    turn = (max(n, 1) if unroll else 1) if isinstance(unroll, bool) else unroll
    avals = [get_aval(x) for x in slices]
    of_slices = [a.update(shape=a.shape[1:]) for a in avals]
    out_trees: list[Any] = []

    def step(*leaves: Value) -> list[Value]:
        state = tree_unflatten(carry_tree, leaves[: len(carry)])
        result = call(f, (state, tree_unflatten(xs_tree, leaves[len(carry) :])))
        after, y = _pair(result, f)
        after_leaves, after_tree = tree_flatten(after)
        ys, ys_tree = tree_flatten(y)
        out_trees[:] = [after_tree, ys_tree, len(after_leaves)]
        return [*after_leaves, *ys]

    closed = stage(step, [*[get_aval(x).strong for x in carry], *of_slices])
    after_tree, ys_tree, n_after = out_trees
    _check_leaves("scan", init, carry_tree, after_tree, closed.out_avals[:n_after])
    outs = lax.scan_call(
        *closed.const_operands,
        *_typed(carry),
        *slices,
        jaxpr=hoist_consts(closed),
        length=n,
        num_carry=len(carry),
        num_consts=len(closed.consts),
        reverse=reverse,
        unroll=turn,
    )
    k = len(carry)
    return tree_unflatten(carry_tree, outs[:k]), tree_unflatten(ys_tree, outs[k:])


def while_loop(
    cond_fun: Callable[[Value], Value], body_fun: Callable[[Value], Value], init: Value
) -> Value:
    """Return the last carry of: carry = init; while cond_fun(carry): carry = body_fun(carry).

    Args:
      cond_fun: a function of the carry that returns a boolean of rank 0.
      body_fun: a function of the carry that returns the next one; both may close over tracers.
      init: the carry at the start, a pytree.

    Raises:
      JaxprTypeError: the condition is no bool[], or a step changes the structure or a type of the carry.
    """
    leaves, tree = tree_flatten((init,))
    avals = [get_aval(x).strong for x in leaves]
    flat_cond, _ = flatten_fun(cond_fun, tree)
    flat_body, out_tree = flatten_fun(body_fun, tree)
    cond = stage(flat_cond, avals, argument_names(cond_fun, (init,)))
    body = stage(flat_body, avals, argument_names(body_fun, (init,)))
    _, carry_tree = tree_flatten(init)
    _check_leaves("while_loop", init, carry_tree, out_tree[0], body.out_avals)
    outs = lax.while_call(
        *cond.const_operands,
        *body.const_operands,
        *_typed(leaves),
        cond_jaxpr=hoist_consts(cond),
        body_jaxpr=hoist_consts(body),
        cond_nconsts=len(cond.consts),
        body_nconsts=len(body.consts),
    )
    return tree_unflatten(carry_tree, outs)


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init: Value,
    *,
    unroll: int | bool | None = None,
) -> Value:
    """Return the last carry of: carry = init; for i in range(lower, upper): carry = body_fun(i,
    carry).

    Args:
      lower, upper: integers of one type, or Python integers. If both are known while tracing, the
        loop becomes a `scan`, which can be differentiated in reverse mode.
      body_fun: a function of i and the carry.
      init: the carry at the start, a pytree.
      unroll: how many steps one iteration of the compiled loop takes if the number of steps is
        known; True means all of them.

    Raises:
      UsageError: the types of the bounds differ. JaxprTypeError: a step changes the structure or a type of the carry.
    """
    known = [not isinstance(x, Tracer) and hasattr(x, "__index__") for x in (lower, upper)]
    if all(known):
        lower, upper = operator.index(lower), operator.index(upper)
        length = max(upper - lower, 0)

        def step(state: Value, _: Any) -> tuple[Value, Value]:
            i, carry = state
            return (lax.add(i, 1), call(body_fun, (i, carry))), None

        return scan(step, (lower, init), None, length, unroll=unroll or 1)[0][1]
    if type(lower) is int:
        lower = lax.convert_element_type(lower, new_dtype=get_aval(upper).dtype)
    if type(upper) is not int and get_aval(lower).dtype is not get_aval(upper).dtype:
        bounds = f"{get_aval(lower).strong} and {get_aval(upper).strong}"
        fail(
            UsageError, f"fori_loop: the bounds are {bounds}, and have to be of one type", "bounds"
        )

    def advance(state: Value) -> Value:
        i, carry = state
        return lax.add(i, 1), call(body_fun, (i, carry))

    return while_loop(lambda state: lax.lt(state[0], upper), advance, (lower, init))[1]
