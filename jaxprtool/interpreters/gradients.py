"""linearize, vjp, grad and Jacobians of Python functions of pytrees."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import set_current_trace, state
from jaxprtool.core.trace import get_aval, is_inexact, scalar_lit
from jaxprtool.core.tree import tree_flatten, tree_leaves, tree_unflatten
from jaxprtool.interpreters.batch import vmap
from jaxprtool.interpreters.evaluate import as_value, jaxpr_as_fun
from jaxprtool.interpreters.jvp import (
    Zero,
    check_tangent,
    instantiate,
    jvp,
    jvp_flat,
    tangent_of,
    zeros,
)
from jaxprtool.interpreters.linearize import check_known
from jaxprtool.interpreters.origins import within_jaxpr
from jaxprtool.interpreters.partial_eval import PartialEvalTrace
from jaxprtool.interpreters.stage import argument_names, flatten_fun
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value

__all__ = ["grad", "hessian", "jacfwd", "jacrev", "linearize", "value_and_grad", "vjp"]


def _linearize_flat(
    f: Callable[..., Sequence[Value]], primals: Sequence[Value]
) -> tuple[list[Value], ClosedJaxpr]:
    """The results of f, and its linear part: (tangents) -> (tangents of the results), without symbolic zeros."""
    trace = PartialEvalTrace(state.trace)
    avals = [get_aval(x) for x in primals]
    inputs = [trace.new_input(a.tangent()) for a in avals]
    tangents = [t if is_inexact(a) else Zero(a) for t, a in zip(inputs, avals, strict=True)]
    with set_current_trace(trace):
        outs, out_tangents = jvp_flat(f, primals, tangents)
        results = [instantiate(t) for t in out_tangents]
    check_known(trace, outs)
    return outs, trace.finish(results)


def linearize(f: Callable[..., Value], *primals: Value) -> tuple[Value, Callable[..., Value]]:
    """The value of f at a point, and its derivative at that point as a linear function.

    Args:
      f: a function of pytrees; Python control flow on concrete primals is fine.
      primals: the arguments.

    Returns:
      f(*primals), and f_lin with f_lin(*tangents) = jvp(f, primals, tangents)[1]. `f_lin.program` is its jaxpr, with
      residuals as constants.
    """
    leaves, in_tree = tree_flatten(primals)
    flat, out_tree = flatten_fun(f, in_tree)
    outs, linear = _linearize_flat(flat, leaves)
    run, avals, result_tree = jaxpr_as_fun(linear), [get_aval(x) for x in leaves], out_tree[0]

    def f_lin(*tangents: Value) -> Value:
        tangent_leaves, tangent_tree = tree_flatten(tangents)
        if tangent_tree != in_tree:
            fail(
                UsageError,
                f"the tangents are {tangent_tree}, the primals {in_tree}",
                "tangent-tree",
            )
        checked = [
            instantiate(check_tangent(t, a, lambda i=i: tangent_of(f, primals, i)))
            for i, (t, a) in enumerate(zip(tangent_leaves, avals, strict=True))
        ]
        return tree_unflatten(result_tree, run(*checked))

    f_lin.program = linear  # type: ignore[attr-defined]
    return tree_unflatten(out_tree[0], outs), f_lin


def vjp(f: Callable[..., Value], *primals: Value) -> tuple[Value, Callable[..., tuple[Value, ...]]]:
    """The value of f at a point, and the function that pulls cotangents back.

    Args:
      f: a function of pytrees.
      primals: the arguments.

    Returns:
      f(*primals), and f_vjp with f_vjp(*cotangents) a tuple with the cotangent of each argument. It takes the
      cotangents of f's result as one pytree of the result's structure, or, where the result is a
      list or tuple, also one by one. Cotangents of integers and booleans are float0.
    """
    leaves, in_tree = tree_flatten(primals)
    flat, out_tree = flatten_fun(f, in_tree)
    outs, linear = _linearize_flat(flat, leaves)
    out_avals, result_tree = [get_aval(x) for x in outs], out_tree[0]

    def f_vjp(*cotangents: Value) -> tuple[Value, ...]:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        ct_leaves, ct_tree = tree_flatten(given)
        if ct_tree != result_tree:
            ct_leaves = tree_leaves(cotangents)
        if len(ct_leaves) != len(out_avals):
            fail(
                UsageError,
                f"the results are {result_tree}, the cotangents {ct_tree}",
                "cotangent-tree",
            )
        cts = [
            check_tangent(ct, a, lambda i=i: f"cotangent {i}")
            for i, (ct, a) in enumerate(zip(ct_leaves, out_avals, strict=True))
        ]
        undef = [UndefPrimal(v.aval) for v in linear.jaxpr.in_binders]
        back = within_jaxpr(linear.jaxpr, "transpose")
        out = backward_pass(back, [*linear.const_operands, *undef], cts)
        return tree_unflatten(in_tree, [as_value(instantiate(ct)) for ct in out])

    return tree_unflatten(out_tree[0], outs), f_vjp


def _is_one(argnums: Any) -> bool:
    """Whether argnums is one position, and no tuple of some."""
    return not isinstance(argnums, (tuple, list, range))


def _positions(argnums: Any, args: Sequence[Value]) -> list[int]:
    """The positions of arguments, counted from the start. Raises UsageError where there are no such arguments."""
    found: list[int] = []
    for i in [argnums] if _is_one(argnums) else argnums:
        try:
            position = operator.index(i)
        except TypeError:
            message = f"argnums has {i!r}, and positions of arguments are needed"
            fail(UsageError, message, "argnums")
        if not -len(args) <= position < len(args):
            message = f"argnums {i} is out of range for {counted(len(args), 'argument')}"
            fail(UsageError, message, "argnums")
        found.append(position % len(args))
    return found


def value_and_grad(
    f: Callable[..., Value], argnums: int | Sequence[int] = 0
) -> Callable[..., Value]:
    """Like `grad`, with the value of f in front of its gradient."""

    def value_and_grad_f(*args: Value) -> tuple[Value, Value]:
        positions = _positions(argnums, args)
        _check_differentiable(f, args, positions)

        def of_chosen(*chosen: Value) -> Value:
            full = list(args)
            for i, x in zip(positions, chosen, strict=True):
                full[i] = x
            return f(*full)

        of_chosen.__name__ = getattr(f, "__name__", type(f).__name__)
        value, pullback = vjp(of_chosen, *[args[i] for i in positions])
        grads = pullback(_unit_cotangent(value))
        return value, grads[0] if _is_one(argnums) else grads

    return value_and_grad_f


def _check_differentiable(
    f: Callable[..., Value], args: Sequence[Value], positions: Sequence[int]
) -> None:
    """Raise UsageError for a leaf of the arguments at these positions that is not real."""
    start = 0
    for i, arg in enumerate(args):
        avals = [get_aval(leaf) for leaf in tree_leaves(arg)] if i in positions else []
        for k, aval in enumerate(avals, start):
            if aval.dtype.kind != "f":
                fail(
                    UsageError,
                    f"grad needs real floating arguments, and {argument_names(f, args)[k]} is {aval}",
                    "grad-input",
                    help="use vjp for other types, or choose other arguments with argnums",
                )
        start += len(tree_leaves(arg))


def _unit_cotangent(value: Value) -> Value:
    leaves = tree_leaves(value)
    aval = get_aval(leaves[0]) if len(leaves) == 1 else None
    if aval is None or aval.shape != () or aval.dtype.kind != "f":
        what = f"{counted(len(leaves), 'result')}" if aval is None else f"a result of type {aval}"
        fail(
            UsageError,
            f"grad needs a function with one real floating scalar as its result, and this has {what}",
            "grad-output",
            help="sum the result, or use vjp, jacrev or jacfwd",
        )
    return tree_unflatten(tree_flatten(value)[1], [scalar_lit(1.0, aval.dtype)])


def grad(f: Callable[..., Value], argnums: int | Sequence[int] = 0) -> Callable[..., Value]:
    """The gradient of a function with one real scalar result.

    Args:
      f: a function of pytrees.
      argnums: the argument, or arguments, to differentiate by.

    Returns:
      A function like f that returns the gradient, in the structure of the argument; a tuple for several.

    Raises:
      UsageError: the result is no real scalar, or an argument is not real.
    """
    both = value_and_grad(f, argnums)
    return lambda *args: both(*args)[1]


def _basis(aval: Aval) -> Value:
    """The unit vectors of a type: shape (size, *shape)."""
    n = aval.size
    rows = lax.iota(dtype=INT32, shape=(n, n), dimension=0)
    columns = lax.iota(dtype=INT32, shape=(n, n), dimension=1)
    eye = lax.convert_element_type(lax.eq(rows, columns), new_dtype=aval.dtype)
    return lax.reshape(eye, new_sizes=(n, *aval.shape))


def _of_chosen(
    f: Callable[..., Value], args: Sequence[Value], argnums: int | Sequence[int]
) -> tuple[Callable[[Value], Value], Value]:
    """`f` as a function of the argument that argnums is, or of the tuple of those that it has; and that argument."""
    one, positions = _is_one(argnums), _positions(argnums, args)

    def of_chosen(x: Value) -> Value:
        new = dict(zip(positions, [x] if one else x, strict=True))
        return f(*[new.get(i, a) for i, a in enumerate(args)])

    return of_chosen, args[positions[0]] if one else tuple([args[i] for i in positions])


def jacfwd(f: Callable[..., Value], argnums: int | Sequence[int] = 0) -> Callable[..., Value]:
    """The Jacobian by forward mode: for each result and argument leaf an array (*out shape, *in shape).

    Of several arguments it is, for each result, the tuple of those by each of them.
    """

    def jacobian(*args: Value) -> Value:
        of_arg, chosen = _of_chosen(f, args, argnums)
        leaves, tree = tree_flatten(chosen)
        columns = []
        for i, leaf in enumerate(leaves):
            aval = get_aval(leaf)

            def push(tangent: Value, i: int = i) -> Value:
                ts = [tangent if j == i else zeros(get_aval(x)) for j, x in enumerate(leaves)]
                return jvp(of_arg, (chosen,), (tree_unflatten(tree, ts),))[1]

            out = vmap(push, out_axes=-1)(_basis(aval))
            out_leaves, out_tree = tree_flatten(out)
            shaped = [
                lax.reshape(x, new_sizes=(*get_aval(x).shape[:-1], *aval.shape)) for x in out_leaves
            ]
            columns.append((shaped, out_tree))
        rows = zip(*[c for c, _ in columns], strict=True)
        return tree_unflatten(columns[0][1], [tree_unflatten(tree, list(r)) for r in rows])

    return jacobian


def jacrev(f: Callable[..., Value], argnums: int | Sequence[int] = 0) -> Callable[..., Value]:
    """The Jacobian by reverse mode, in the form of `jacfwd`'s."""

    def jacobian(*args: Value) -> Value:
        value, pullback = vjp(*_of_chosen(f, args, argnums))
        leaves, tree = tree_flatten(value)
        rows = []
        for i, leaf in enumerate(leaves):
            aval = get_aval(leaf)

            def pull(ct: Value, i: int = i) -> Value:
                cts = [ct if j == i else zeros(get_aval(x)) for j, x in enumerate(leaves)]
                return pullback(tree_unflatten(tree, cts))[0]

            out_leaves, out_tree = tree_flatten(vmap(pull)(_basis(aval)))
            shaped = [
                lax.reshape(x, new_sizes=(*aval.shape, *get_aval(x).shape[1:])) for x in out_leaves
            ]
            rows.append(tree_unflatten(out_tree, shaped))
        return tree_unflatten(tree, rows)

    return jacobian


def hessian(f: Callable[..., Value], argnums: int | Sequence[int] = 0) -> Callable[..., Value]:
    """The matrix of second derivatives: forward over reverse."""
    return jacfwd(jacrev(f, argnums), argnums)
