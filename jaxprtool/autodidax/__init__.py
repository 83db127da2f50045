"""The names of the Autodidax tutorial ("JAX core from scratch"), so that its programs can be typed as they stand.

    from jaxprtool.autodidax import *
    jaxpr, consts, _ = make_jaxpr(lambda x: sin(x) * 2., raise_to_shaped(get_aval(3.)))
    print(jaxpr)

The functions are those of this package, under the tutorial's names and with its arguments; jaxprs
print as they do there. A name without a counterpart is an `Elsewhere`: its `repr`, and the error
that any use of it raises, name what to use instead. The tutorial's own `map` and `zip`, which
return lists, are here too, but `import *` does not import them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from jaxprtool import lax
from jaxprtool.autodidax.elsewhere import SENTENCES
from jaxprtool.autodidax.elsewhere import Elsewhere as Elsewhere
from jaxprtool.core import bind as core_bind
from jaxprtool.core.partition import merge_lists, partition_list, split_list, unzip2
from jaxprtool.core.primitive import known_primitive, primitive_of
from jaxprtool.core.trace import Trace, Tracer, full_lower, get_aval
from jaxprtool.core.tree import PyTreeDef, register_pytree_node, tree_flatten, tree_unflatten
from jaxprtool.interpreters import batch, check, evaluate, partial_eval, stage
from jaxprtool.interpreters import jvp as jvps
from jaxprtool.interpreters import transpose as transposing
from jaxprtool.interpreters.batch import BatchTrace, BatchTracer, moveaxis
from jaxprtool.interpreters.evaluate import EvalTrace
from jaxprtool.interpreters.functions import gradients, jacobians
from jaxprtool.interpreters.jvp import JVPTrace, JVPTracer
from jaxprtool.interpreters.partial_eval import PartialEvalTrace
from jaxprtool.interpreters.stage import JaxprTrace, JaxprTracer
from jaxprtool.interpreters.transpose import UndefPrimal
from jaxprtool.ir import jaxpr as ir
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Lit, Primitive, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.rules.control_flow.cond import cond
from jaxprtool.rules.jit import jit
from jaxprtool.syntax.print import format_jaxpr

# -- part 1: primitives, evaluation, jvp, vmap ---------------------------------------------------

add_p, mul_p, neg_p, sin_p, cos_p = map(primitive_of, (lax.add, lax.mul, lax.neg, lax.sin, lax.cos))
greater_p, less_p = primitive_of(lax.gt), primitive_of(lax.lt)
reduce_sum_p, transpose_p = primitive_of(lax.reduce_sum), primitive_of(lax.transpose)
broadcast_p = primitive_of(lax.broadcast_in_dim)
xla_call_p, cond_p = primitive_of(lax.jit_call), primitive_of(lax.cond_call)

add, mul, neg, sin, cos, greater, less = (
    lax.add, lax.mul, lax.neg, lax.sin, lax.cos, lax.gt, lax.lt
)  # fmt: skip


def transpose(x: Any, perm: Sequence[int]) -> Any:
    """Return x with its axes permuted: axis i of the result is axis perm[i] of x."""
    return lax.transpose(x, permutation=tuple(perm))


def broadcast(x: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """Return x broadcast to `shape`; `axes` are the positions of the new axes in the result."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return lax.broadcast_in_dim(x, shape=tuple(shape), broadcast_dimensions=kept)


def reduce_sum(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Return the sum of x over some of its axes, or over all of them."""
    if axis is None:
        axis = range(len(get_aval(x).shape))
    return lax.reduce_sum(x, axes=(axis,) if isinstance(axis, int) else tuple(axis))


_BY_PARAMS = {reduce_sum_p: reduce_sum, transpose_p: transpose, broadcast_p: broadcast}


def bind(prim: Primitive, *args: Any, **params: Any) -> list[Any]:
    """Return the results of a primitive, as a list. Takes the tutorial's params or those of this
    package.

    Raises:
      UsageError: the primitive is not declared.
    """
    if known_primitive(prim.name) is not prim:
        fail(
            UsageError,
            f"the primitive {prim} has no rules",
            "autodidax",
            help="jaxprtool.primitive declares one, and jaxprtool.define gives it its rules",
        )
    function = _BY_PARAMS.get(prim)
    if (
        function is not None
        and params.keys() & {"axis", "perm", "axes", "shape"}
        and not (params.keys() <= prim.params.keys())
    ):
        return [function(*args, **params)]
    out = core_bind.bind(prim, *args, **params)
    return list(out) if prim.multiple_results else [out]


def bind1(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Return the single result of a primitive."""
    (out,) = bind(prim, *args, **params)
    return out


def swap(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return f with its two arguments exchanged."""
    return lambda x, y: f(y, x)


def raise_to_shaped(aval: Any) -> Any:
    """Return a type without its weak-type flag."""
    return aval.strong


def full_raise(trace: Trace, val: Any) -> Any:
    """Return a value as a tracer of `trace`."""
    if not isinstance(val, Tracer):
        return trace.pure(val)
    return val if val._trace is trace else trace.lift(val)


def find_top_trace(xs: Sequence[Any]) -> Trace:
    """Return the current trace; it does not depend on xs here."""
    del xs
    return core_bind.state.trace


def zeros_like(val: Any) -> Any:
    """Return zeros of the shape and element type of val."""
    return lax.zeros_like(val)


def _list_map(f: Callable[..., Any], *xs: Iterable[Any]) -> list[Any]:
    return list(builtins.map(f, *xs))


def _list_zip(*xs: Iterable[Any]) -> list[Any]:
    return list(builtins.zip(*builtins.map(list, xs), strict=True))


jvp = jvp_v1 = jvp_flat = jvps.jvp
not_mapped, NotMapped, BatchAxis = None, type(None), int | None


def deriv(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the derivative of a function of one number."""
    return lambda x: jvp(f, (x,), (1.0,))[1]


def flatten_fun(
    f: Callable[..., Any], in_tree: Any
) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """Return f as a function of flat lists, and a function that returns the tree of f's result once
    f was called.
    """
    flat, out_tree = stage.flatten_fun(f, in_tree)
    return flat, lambda: out_tree[0]


def mapped_aval(batch_dim: int, aval: ShapedArray) -> ShapedArray:
    """Return the type of one example of a batch."""
    return aval.update(shape=aval.shape[:batch_dim] + aval.shape[batch_dim + 1 :])


def unmapped_aval(axis_size: int, batch_dim: int | None, aval: ShapedArray) -> ShapedArray:
    """Return the type of a batch of examples."""
    if batch_dim is None:
        return aval
    shape = aval.shape
    return aval.update(shape=(*shape[:batch_dim], axis_size, *shape[batch_dim:]))


def move_batch_axis(axis_size: int, src: int | None, dst: int, x: Any) -> Any:
    """Return x with its batch axis moved to `dst`; x is broadcast where it has none."""
    return batch.materialize(x, src, axis_size, dst)


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Return f mapped over an axis of each argument; None in `in_axes` marks arguments that are not
    mapped.
    """
    return batch.vmap(f, in_axes, out_axes)


def vmap_flat(f: Callable[..., Any], in_axes: Sequence[int | None], *args: Any) -> list[Any]:
    """Apply vmap(f), for an f that returns a list; the results are batched along their first
    axes.
    """
    return list(batch.vmap(f, tuple(in_axes))(*args))


def jacfwd(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the Jacobian of f at x, computed column by column."""
    return jacobians.jacfwd(f)(x)


# -- part 2: jaxprs ------------------------------------------------------------------------------


class Jaxpr(ir.Jaxpr):
    """A jaxpr in the tutorial's form: constants are its first arguments, and it prints in the
    tutorial's notation.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return pp_jaxpr(self)


class JaxprType(ir.JaxprType):
    """The type of a jaxpr, printed as in the tutorial: `(float64[]) -> (float64[])`."""

    __slots__ = ()

    def __repr__(self) -> str:
        ins, outs = (", ".join(a.str_short() for a in types) for types in self)
        return f"({ins}) -> ({outs})"


def _jaxpr(closed: ClosedJaxpr) -> Jaxpr:
    inner = closed.jaxpr
    return Jaxpr(inner.all_binders, inner.eqns, inner.outs)


def _closed(jaxpr: ir.Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr

    def make() -> ClosedJaxpr:
        return ClosedJaxpr(ir.Jaxpr(jaxpr.all_binders, jaxpr.eqns, jaxpr.outs))

    return _CLOSED.of(jaxpr, make)


_CLOSED = Memo[ClosedJaxpr]("closed")


def make_jaxpr(f: Callable[..., Any], *avals_in: Any) -> tuple[Jaxpr, list[Any], Any]:
    """Trace f.

    Args:
      f: a function of pytrees.
      avals_in: for each argument a pytree of types.
    Returns:
      The jaxpr (*constants, *arguments) -> results; the constants; the tree of the results.
    """
    closed, out_tree = stage.make_jaxpr(f, return_tree=True)(*avals_in)
    return _jaxpr(closed), list(closed.consts), out_tree


def make_jaxpr_v1(f: Callable[..., Any], *avals_in: Any) -> tuple[Jaxpr, list[Any], Any]:
    """`make_jaxpr` without omnistaging: only what depends on an argument is traced; the rest is
    computed at once.
    """
    leaves, in_tree = tree_flatten(avals_in)
    flat, out_tree = stage.flatten_fun(f, in_tree)
    pvals, closed = _partial_eval(flat, [*map(PartialVal.unknown, leaves)])
    unknown = iter(closed.jaxpr.outs)
    outs = [
        Lit(full_lower(p.const), get_aval(p.const)) if p.is_known else next(unknown) for p in pvals
    ]
    kept = ir.Jaxpr(closed.jaxpr.in_binders, closed.eqns, outs, closed.jaxpr.const_binders)
    return _jaxpr(ClosedJaxpr(kept, closed.consts)), list(closed.consts), out_tree[0]


def typecheck_jaxpr(jaxpr: ir.Jaxpr | ClosedJaxpr) -> JaxprType:
    """Return the type of a jaxpr. Raises JaxprTypeError, a TypeError, which lists all errors."""
    return JaxprType(*check.typecheck_jaxpr(jaxpr))


def typecheck_partial_eval_jaxpr(
    jaxpr: Any, unks_in: Any, unks_out: Any, jaxpr1: Any, jaxpr2: Any
) -> None:
    """Check that the known and unknown parts of a partially evaluated jaxpr fit the whole."""
    whole, known, unknown = _closed(jaxpr), _closed(jaxpr1), _closed(jaxpr2)
    check.typecheck_partial_eval_jaxpr(whole.jaxpr, unks_in, unks_out, known.jaxpr, unknown.jaxpr)


def jaxpr_as_fun(jaxpr: ir.Jaxpr | ClosedJaxpr) -> Callable[..., list[Any]]:
    """Return the function that a jaxpr computes; every transformation can be applied to it."""
    return evaluate.jaxpr_as_fun(_closed(jaxpr))


def eval_jaxpr(jaxpr: ir.Jaxpr | ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Return the results of a jaxpr for these arguments (constants first), which may be tracers."""
    return jaxpr_as_fun(jaxpr)(*args)


def pp_jaxpr(jaxpr: ir.Jaxpr | ClosedJaxpr) -> str:
    """Return the text of a jaxpr in the tutorial's notation."""
    return format_jaxpr(_closed(jaxpr), "autodidax")


# -- parts 3 to 5: jit, linearize, vjp, cond ------------------------------------------------------


def jvp_jaxpr(jaxpr: ir.Jaxpr | ClosedJaxpr) -> tuple[Jaxpr, list[Any]]:
    """Return the jaxpr (*primals, *tangents) -> (*primals out, *tangents out), and its
    constants.
    """
    made, _ = jvps.jvp_jaxpr(_closed(jaxpr))
    return _jaxpr(made), list(made.consts)


def vmap_jaxpr(
    jaxpr: ir.Jaxpr | ClosedJaxpr, axis_size: int, bdims_in: Sequence[int | None]
) -> tuple[Jaxpr, list[Any]]:
    """Return the vmapped jaxpr, whose results are batched along their first axes, and its
    constants.
    """
    made, _ = batch.vmap_jaxpr(_closed(jaxpr), axis_size, bdims_in)
    return _jaxpr(made), list(made.consts)


def split_half(xs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the first and the second half of a list of even length."""
    if len(xs) % 2:
        fail(UsageError, f"a list of {len(xs)} has no halves", "autodidax")
    return list(xs[: len(xs) // 2]), list(xs[len(xs) // 2 :])


def vspace(aval: Any) -> Any:
    """Return the type of tangents of a type."""
    return aval.tangent()


linearize = linearize_flat = gradients.linearize
vjp, grad = gradients.vjp, gradients.grad


def vjp_flat(f: Callable[..., Sequence[Any]], *primals_in: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the results of a function that returns a list, and its vjp: cotangents of results ->
    those of arguments.
    """
    outs, pull = vjp(f, *primals_in)
    return outs, lambda *cts: list(pull(type(outs)(cts)))


class PartialVal:
    """A known value (`const`), or an unknown one, of which only the type (`aval`) is known."""

    __slots__ = ("aval", "const", "is_known")

    def __init__(self, aval: Any, is_known: bool, const: Any = None):
        self.aval, self.is_known, self.const = aval, is_known, const

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        """Return a known value."""
        return cls(get_aval(value), True, value)

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        """Return an unknown value of a type."""
        return cls(aval, False)

    @property
    def is_unknown(self) -> bool:
        """Return whether only the type is known."""
        return not self.is_known

    def __repr__(self) -> str:
        return f"known({self.const})" if self.is_known else f"unknown({self.aval})"


def partial_eval_flat(
    f: Callable[..., Sequence[Any]], pvals_in: Sequence[PartialVal]
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluate f as far as its arguments are known.

    Returns:
      The jaxpr of the rest; f's results as partial values; the residuals.
    """
    pvals_out, closed = _partial_eval(f, pvals_in)
    return _jaxpr(closed), pvals_out, list(closed.consts)


def _partial_eval(
    f: Callable[..., Sequence[Any]], pvals: Sequence[PartialVal]
) -> tuple[list[PartialVal], ClosedJaxpr]:
    """Return f's results as partial values, and the jaxpr of the unknown ones, with the residuals
    as its constants.
    """
    trace = PartialEvalTrace(core_bind.state.trace)
    args = [pv.const if pv.is_known else trace.new_input(pv.aval) for pv in pvals]
    with core_bind.set_current_trace(trace):
        outs = f(*args)
    unknown = [x for x in outs if trace.is_unknown(x)]
    results = [
        PartialVal.unknown(x.aval) if trace.is_unknown(x) else PartialVal.known(x) for x in outs
    ]
    return results, trace.finish(unknown)


def partial_eval_jaxpr(
    jaxpr: ir.Jaxpr | ClosedJaxpr, in_unknowns: Sequence[bool], instantiate: Any = None
) -> tuple[Jaxpr, Jaxpr, list[bool], int]:
    """Split a jaxpr by known and unknown arguments.

    Returns:
      The known part a1 -> (b1, res); the unknown part (res, a2) -> b2; which results are unknown;
      the number of residuals.
    """
    known, unknown, out_unknowns, num_res = partial_eval.partial_eval_jaxpr(
        _closed(jaxpr), in_unknowns, instantiate or False
    )
    return _jaxpr(known), _jaxpr(unknown), out_unknowns, num_res


def eval_jaxpr_transposed(
    jaxpr: ir.Jaxpr | ClosedJaxpr, args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of the arguments that are `UndefPrimal`, from those of the results."""
    cts = transposing.backward_pass(_closed(jaxpr).jaxpr, args, cotangents)
    return [
        jvps.instantiate(ct) for ct, x in zip(cts, args, strict=True) if isinstance(x, UndefPrimal)
    ]


def transpose_jaxpr(
    jaxpr: ir.Jaxpr | ClosedJaxpr, undef_primals: Sequence[bool]
) -> tuple[Jaxpr, list[Any]]:
    """Return the jaxpr (residuals, cotangents of results) -> cotangents of linear arguments, and
    its constants.
    """
    made, _ = transposing.transpose_jaxpr(_closed(jaxpr), undef_primals)
    return _jaxpr(made), list(made.consts)


# -- the names that have no counterpart ----------------------------------------------------------

_ELSEWHERE = {name: Elsewhere(name, text) for name, text in SENTENCES.items()}
_HERE = {"map": _list_map, "zip": _list_zip}


def __getattr__(name: str) -> Any:
    found = _HERE.get(name) or _ELSEWHERE.get(name)
    if found is None:
        _unknown(name)
    return found


def _unknown(name: str) -> NoReturn:
    raise AttributeError(f"the tutorial has no name {name!r}, and so jaxprtool.autodidax has none")


__all__ = [
    "Atom", "BatchAxis", "BatchTrace", "BatchTracer", "EvalTrace", "JVPTrace", "JVPTracer", "Jaxpr", "JaxprEqn",
    "JaxprTrace", "JaxprTracer", "JaxprType", "Lit", "NotMapped", "PartialEvalTrace", "PartialVal", "Primitive",
    "PyTreeDef", "ShapedArray", "Trace", "Tracer", "UndefPrimal", "Var", "add", "add_p", "bind", "bind1", "broadcast",
    "broadcast_p", "cond", "cond_p", "cos", "cos_p", "deriv", "eval_jaxpr", "eval_jaxpr_transposed", "find_top_trace",
    "flatten_fun", "full_lower", "full_raise", "get_aval", "grad", "greater", "greater_p", "jacfwd", "jaxpr_as_fun", "jit",
    "jvp", "jvp_flat", "jvp_jaxpr", "jvp_v1", "less", "less_p", "linearize", "linearize_flat", "make_jaxpr",
    "make_jaxpr_v1", "mapped_aval", "merge_lists", "move_batch_axis", "moveaxis", "mul", "mul_p", "neg", "neg_p",
    "not_mapped", "partial_eval_flat", "partial_eval_jaxpr", "partition_list", "pp_jaxpr", "raise_to_shaped", "reduce_sum",
    "reduce_sum_p", "register_pytree_node", "sin", "sin_p", "split_half", "split_list", "swap", "transpose",
    "transpose_jaxpr", "transpose_p", "tree_flatten", "tree_unflatten", "typecheck_jaxpr", "typecheck_partial_eval_jaxpr",
    "unmapped_aval", "unzip2", "vjp", "vjp_flat", "vmap", "vmap_flat", "vmap_jaxpr", "vspace", "xla_call_p", "zeros_like",
    *_ELSEWHERE,  # pyright: ignore[reportUnsupportedDunderAll]
]  # fmt: skip
