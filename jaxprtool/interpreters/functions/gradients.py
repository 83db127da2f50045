"""linearize, vjp and grad of Python functions of pytrees.

A function with `has_aux` returns a pair. Its first part is differentiated; the second is returned
unchanged beside the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.bind import set_current_trace, state
from jaxprtool.core.trace import get_aval, is_inexact, scalar_lit
from jaxprtool.core.tree import PyTreeDef, tree_flatten, tree_leaves, tree_unflatten
from jaxprtool.interpreters.evaluate import as_value, jaxpr_as_fun
from jaxprtool.interpreters.functions.parameters import (
    as_positions,
    is_one,
    named_like,
    of_chosen,
    of_pair,
    with_keywords,
)
from jaxprtool.interpreters.jvp import (
    Zero,
    check_tangent,
    instantiate,
    jvp_flat,
    tangent_of,
)
from jaxprtool.interpreters.linearize import check_known
from jaxprtool.interpreters.origins import within_jaxpr
from jaxprtool.interpreters.partial_eval import PartialEvalTrace
from jaxprtool.interpreters.stage import argument_names, flatten_fun
from jaxprtool.interpreters.transpose import UndefPrimal, backward_pass
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value

__all__ = ["check_inputs", "check_outputs", "grad", "linearize", "value_and_grad", "vjp"]


class _Linear(NamedTuple):
    """A function linearized at a point.

    Attributes:
      value: its result, or the first part of it.
      aux: the second part; None where there is none.
      program: (tangents of the leaves of the arguments) -> (tangents of the leaves of `value`),
        without symbolic zeros.
      avals: the types of the leaves of `value`.
      tree: the structure of `value`.
    """

    value: Value
    aux: Value
    program: ClosedJaxpr
    avals: list[Aval]
    tree: PyTreeDef


def _linearized(
    f: Callable[..., Value], leaves: Sequence[Value], in_tree: PyTreeDef, has_aux: bool
) -> _Linear:
    trace = PartialEvalTrace(state.trace)
    avals = [get_aval(x) for x in leaves]
    inputs = [trace.new_input(a.tangent()) for a in avals]
    tangents = [t if is_inexact(a) else Zero(a) for t, a in zip(inputs, avals, strict=True)]
    flat, out_tree = flatten_fun(f, in_tree)
    with set_current_trace(trace):
        outs, out_tangents = jvp_flat(flat, leaves, tangents)
        whole = tree_unflatten(out_tree[0], outs)
        value, aux = of_pair(whole, f) if has_aux else (whole, None)
        results, tree = tree_flatten(value)
        kept = [instantiate(t) for t in out_tangents[: len(results)]]
    check_known(trace, outs)
    return _Linear(value, aux, trace.finish(kept), [*map(get_aval, results)], tree)


def linearize(f: Callable[..., Value], *primals: Value, has_aux: bool = False) -> Any:
    """Return the value of f at a point, and its derivative at that point as a linear function.

    Args:
      f: a function of pytrees; Python control flow on concrete primals is fine.
      primals: the arguments.
      has_aux: whether f returns a pair whose second part is not differentiated.

    Returns:
      f(*primals), and f_lin with f_lin(*tangents) = jvp(f, primals, tangents)[1]; with `has_aux`
        also the second part. `f_lin.program` is the jaxpr of f_lin, with residuals as constants.
    """
    leaves, in_tree = tree_flatten(primals)
    linear = _linearized(f, leaves, in_tree, has_aux)
    run, avals = jaxpr_as_fun(linear.program), [get_aval(x) for x in leaves]

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
        return tree_unflatten(linear.tree, run(*checked))

    f_lin.program = linear.program  # type: ignore[attr-defined]
    return (linear.value, f_lin, linear.aux) if has_aux else (linear.value, f_lin)


def vjp(f: Callable[..., Value], *primals: Value, has_aux: bool = False) -> Any:
    """Return the value of f at a point, and the function that pulls cotangents back.

    Args:
      f: a function of pytrees.
      primals: the arguments.
      has_aux: whether f returns a pair whose second part is not differentiated.

    Returns:
      f(*primals), and f_vjp with f_vjp(*cotangents) a tuple with the cotangent of each argument;
        with `has_aux` also the second part. f_vjp takes the cotangents of f's result as one pytree
        of the result's structure, or, where the result is a list or tuple, also one by one.
        Cotangents of integers and booleans are float0.
    """
    leaves, in_tree = tree_flatten(primals)
    linear = _linearized(f, leaves, in_tree, has_aux)
    back = within_jaxpr(linear.program.jaxpr, "transpose")

    def f_vjp(*cotangents: Value) -> tuple[Value, ...]:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        ct_leaves, ct_tree = tree_flatten(given)
        if ct_tree != linear.tree:
            ct_leaves = tree_leaves(cotangents)
        if len(ct_leaves) != len(linear.avals):
            fail(
                UsageError,
                f"the results are {linear.tree}, the cotangents {ct_tree}",
                "cotangent-tree",
            )
        cts = [
            check_tangent(ct, a, lambda i=i: f"cotangent {i}")
            for i, (ct, a) in enumerate(zip(ct_leaves, linear.avals, strict=True))
        ]
        undef = [UndefPrimal(v.aval) for v in back.in_binders]
        out = backward_pass(back, [*linear.program.const_operands, *undef], cts)
        return tree_unflatten(in_tree, [as_value(instantiate(ct)) for ct in out])

    return (linear.value, f_vjp, linear.aux) if has_aux else (linear.value, f_vjp)


def value_and_grad(
    f: Callable[..., Value],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Value]:
    """Do as `grad`, with the value of f before its gradient: (value, gradient), or ((value, aux), gradient)."""

    def value_and_grad_f(*args: Value, **keywords: Any) -> tuple[Value, Value]:
        positions, of_args = as_positions(argnums, len(args)), with_keywords(f, keywords)
        check_inputs("grad", of_args, args, positions, holomorphic=holomorphic, allow_int=allow_int)
        of_these, chosen = of_chosen(of_args, args, positions)
        value, pullback, *aux = vjp(of_these, *chosen, has_aux=has_aux)
        grads = pullback(_unit_cotangent(value, holomorphic))
        return (value, *aux) if has_aux else value, grads[0] if is_one(argnums) else grads

    return named_like(f, value_and_grad_f)


def check_inputs(
    verb: str,
    f: Callable[..., Value],
    args: Sequence[Value],
    positions: Sequence[int],
    *,
    holomorphic: bool,
    allow_int: bool = False,
    kinds: str = "fc",
) -> None:
    """Raise UsageError for a leaf of an argument that cannot be differentiated by.

    Args:
      verb: the name of the transformation, for the message.
      f: the function.
      args: its arguments.
      positions: the positions of the arguments to differentiate by.
      holomorphic: whether they have to be complex.
      allow_int: whether they may be integers or booleans, whose tangents are float0.
      kinds: the kinds of element types that are allowed otherwise: "f" real, "c" complex, or both.
    """
    kinds = "c" if holomorphic else kinds
    needed = {"c": "complex", "f": "real floating", "fc": "real or complex floating"}[kinds]
    start = 0
    for i, arg in enumerate(args):
        avals = [get_aval(leaf) for leaf in tree_leaves(arg)] if i in positions else []
        for k, aval in enumerate(avals, start):
            if aval.dtype.kind not in kinds and not (allow_int and not is_inexact(aval)):
                label = argument_names(f, args)[k]
                complex_too = aval.dtype.kind == "c"
                way = " holomorphic=True for a holomorphic function, or" if complex_too else ""
                fail(
                    UsageError,
                    f"{verb} needs {needed} arguments, and {label} is {aval}",
                    "grad-input",
                    help=f"use{way} jvp or vjp for other types, or choose other arguments with argnums",
                )
        start += len(tree_leaves(arg))


def check_outputs(verb: str, avals: Sequence[Aval], *, holomorphic: bool) -> None:
    """Raise UsageError for results whose types reverse mode does not differentiate.

    They have to be real floating, or complex if holomorphic.
    """
    kind, needed = ("c", "complex") if holomorphic else ("f", "real floating")
    for aval in avals:
        if aval.dtype.kind != kind:
            complex_too = aval.dtype.kind == "c"
            way = "holomorphic=True for a holomorphic function, or " if complex_too else ""
            fail(
                UsageError,
                f"{verb} needs a function of {needed} results, and this has one of type {aval}",
                "grad-output",
                help=f"use {way}vjp for other types",
            )


def _unit_cotangent(value: Value, holomorphic: bool) -> Value:
    leaves, tree = tree_flatten(value)
    aval = get_aval(leaves[0]) if len(leaves) == 1 else None
    kind, needed = ("c", "complex") if holomorphic else ("f", "real floating")
    if aval is None or aval.shape != () or aval.dtype.kind != kind:
        what = f"{counted(len(leaves), 'result')}" if aval is None else f"a result of type {aval}"
        fail(
            UsageError,
            f"grad needs a function with one {needed} scalar as its result, and this has {what}",
            "grad-output",
            help="sum the result, or use vjp, jacrev or jacfwd",
        )
    return tree_unflatten(tree, [scalar_lit(1.0, aval.dtype)])


def grad(
    f: Callable[..., Value],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Value]:
    """Return the gradient function of a function with one real scalar result.

    Args:
      f: a function of pytrees.
      argnums: the argument, or arguments, to differentiate by; never keyword arguments.
      has_aux: whether f returns a pair whose second part is not differentiated.
      holomorphic: whether f is a holomorphic function of complex arguments, whose complex
        derivative is wanted.
      allow_int: whether arguments may be integers or booleans; the gradient by them is float0.

    Returns:
      A function like f that returns the gradient, in the structure of the argument; a tuple for
        several. With `has_aux` it returns the gradient and the second part. The gradient by a
        complex argument x + iy is df/dx - i df/dy, as JAX's.

    Raises:
      UsageError: the result is no real scalar, or an argument is an integer.
    """
    both = value_and_grad(f, argnums, has_aux, holomorphic, allow_int)

    def grad_f(*args: Value, **keywords: Any) -> Value:
        value, gradient = both(*args, **keywords)
        return (gradient, value[1]) if has_aux else gradient

    return named_like(f, grad_f)
