"""Jacobians and Hessians of Python functions of pytrees, one row or column for each unit vector, by vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.batch import vmap
from jaxprtool.interpreters.functions.gradients import check_inputs, check_outputs, vjp
from jaxprtool.interpreters.functions.parameters import (
    as_positions,
    is_one,
    named_like,
    of_chosen,
    with_keywords,
)
from jaxprtool.interpreters.jvp import jvp, zeros
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, Value

__all__ = ["hessian", "jacfwd", "jacrev"]


def _basis(aval: Aval) -> Value:
    """Return the unit vectors of a type: shape (size, *shape)."""
    n = aval.size
    rows = lax.iota(dtype=INT32, shape=(n, n), dimension=0)
    columns = lax.iota(dtype=INT32, shape=(n, n), dimension=1)
    eye = lax.convert_element_type(lax.eq(rows, columns), new_dtype=aval.dtype)
    return lax.reshape(eye, new_sizes=(n, *aval.shape))


def _by_argnums(parts: Sequence[Value], argnums: Any) -> Value:
    """Return the item of the only chosen argument, or the tuple of the items of several, as argnums asks."""
    return parts[0] if is_one(argnums) else tuple(parts)


def jacfwd(
    f: Callable[..., Value],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Value]:
    """The Jacobian by forward mode: for each result and argument leaf an array (*out shape, *in shape).

    Args:
      f: a function of pytrees.
      argnums: the argument, or arguments, to differentiate by. For several arguments the Jacobian
        is, for each result, the tuple of those by each of them.
      has_aux: whether f returns a pair whose second part is not differentiated, and is returned
        beside the Jacobian.
      holomorphic: whether f is a holomorphic function of complex arguments, whose complex
        derivative is wanted.

    Raises:
      UsageError: an argument is no real number (no complex one, if holomorphic).
    """

    def jacobian(*args: Value, **keywords: Any) -> Value:
        given, positions = with_keywords(f, keywords), as_positions(argnums, len(args))
        check_inputs("jacfwd", given, args, positions, holomorphic=holomorphic, kinds="f")
        of_these, chosen = of_chosen(given, args, positions)
        leaves, tree = tree_flatten(tuple(chosen))
        columns, aux = [], []
        for i, leaf in enumerate(leaves):
            aval = get_aval(leaf)

            def push(tangent: Value, i: int = i) -> Value:
                ts = [tangent if j == i else zeros(get_aval(x)) for j, x in enumerate(leaves)]
                made = jvp(of_these, chosen, tree_unflatten(tree, ts), has_aux)
                return made[1], made[2] if has_aux else ()

            out, *aux = vmap(push, out_axes=(-1, None))(_basis(aval))
            out_leaves, out_tree = tree_flatten(out)
            if holomorphic:
                check_outputs("jacfwd", [*map(get_aval, out_leaves)], holomorphic=True)
            shaped = [
                lax.reshape(x, new_sizes=(*get_aval(x).shape[:-1], *aval.shape)) for x in out_leaves
            ]
            columns.append((shaped, out_tree))
        rows = zip(*[c for c, _ in columns], strict=True)
        by_each = [_by_argnums(tree_unflatten(tree, r), argnums) for r in rows]
        made = tree_unflatten(columns[0][1], by_each)
        return (made, *aux) if has_aux else made

    return named_like(f, jacobian)


def jacrev(
    f: Callable[..., Value],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Value]:
    """The Jacobian by reverse mode, in the same form as that of `jacfwd`.

    Args:
      f, argnums, has_aux, holomorphic: see `jacfwd`.
      allow_int: whether arguments may be integers or booleans; the Jacobian by them is float0.

    Raises:
      UsageError: an argument is an integer, or a result no real number (no complex one, if
        holomorphic).
    """

    def jacobian(*args: Value, **keywords: Any) -> Value:
        given, positions = with_keywords(f, keywords), as_positions(argnums, len(args))
        check_inputs("jacrev", given, args, positions, holomorphic=holomorphic, allow_int=allow_int)
        of_these, chosen = of_chosen(given, args, positions)
        value, pullback, *aux = vjp(of_these, *chosen, has_aux=has_aux)
        leaves, tree = tree_flatten(value)
        check_outputs("jacrev", [*map(get_aval, leaves)], holomorphic=holomorphic)
        rows = []
        for i, leaf in enumerate(leaves):
            aval = get_aval(leaf)

            def pull(ct: Value, i: int = i) -> Value:
                cts = [ct if j == i else zeros(get_aval(x)) for j, x in enumerate(leaves)]
                return _by_argnums(pullback(tree_unflatten(tree, cts)), argnums)

            out_leaves, out_tree = tree_flatten(vmap(pull)(_basis(aval)))
            shaped = [
                lax.reshape(x, new_sizes=(*aval.shape, *get_aval(x).shape[1:])) for x in out_leaves
            ]
            rows.append(tree_unflatten(out_tree, shaped))
        made = tree_unflatten(tree, rows)
        return (made, *aux) if has_aux else made

    return named_like(f, jacobian)


def hessian(
    f: Callable[..., Value],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Value]:
    """The matrix of second derivatives: forward over reverse. See `jacfwd` for the arguments."""
    return jacfwd(jacrev(f, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
