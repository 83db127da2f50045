"""The primitives of equinox, which programs of diffrax, optimistix, lineax and dynamiqs have too.

Their rules are defined in terms of JAX's own primitives; `equinox_vprim` has the one that applies
others. The text of a program does not have the function that `noinline` calls, which `jaxprtool
trace` writes out.
"""

from __future__ import annotations

import re
from typing import Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.kinds.functions import Text
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.params import Opaque


@jt.primitive(library="equinox")
def unvmap_any(x):
    """Whether any element is true, over all batch axes too: bool[]."""


@jt.primitive(library="equinox")
def unvmap_all(x):
    """Whether all elements are true, over all batch axes too: bool[]."""


@jt.primitive(library="equinox")
def unvmap_max(x):
    """The largest element, over all batch axes too."""


@jt.primitive(library="equinox")
def nonbatchable(x, *, msg: Text, allow_constant_across_batch: bool = jt.shown(False)):
    """x; vmap over x is an error.

    msg: the error message.
    allow_constant_across_batch: whether vmap is allowed where all values of the batch are equal.
    """


@jt.primitive(library="equinox")
def nondifferentiable_backward(x, *, msg: Text, symbolic: bool = jt.shown(True)):
    """x; a cotangent that reaches x is an error.

    msg: the error message.
    symbolic: whether a cotangent whose elements are all 0 is an error too.
    """


@jt.primitive(library="equinox")
def nontraceable(x, *, name: str):
    """x; any transformation of it is an error.

    name: the name in the error message.
    """


@jt.primitive(multiple_results=True, library="equinox")
def announce_jaxpr(*x, stack: tuple, name: str, intermediates: bool, announce: Any):
    """x; while JAX transforms or compiles the program, it calls a Python function with the name.

    stack: the names of the transformations applied so far.
    name: the name with which the function is called.
    intermediates: whether it is called at every transformation.
    announce: the Python function.
    """


@jt.primitive(multiple_results=True, library="equinox")
def branched_error(pred, index, *x, msgs: Any):
    """x; where pred is true, the program fails with msgs[index] (equinox 0.10).

    pred: whether it fails, bool[].
    index: the index of the error message, an integer scalar.
    msgs: the error messages.
    """


@jt.primitive(library="equinox")
def select_if_vmap(pred, x, y):
    """x; under vmap with a batched predicate, x where pred, else y."""


@jt.primitive(library="equinox")
def maybe_set(
    pred,
    xs,
    x,
    *index,
    i_static: Any,
    i_treedef: Any,
    kwargs: tuple,
    makes_false_steps: bool,
):
    """xs with xs[index] = x; unchanged where makes_false_steps and pred is false.

    i_static, i_treedef: equinox's structure of the index.
    kwargs: params of the indexed update.
    makes_false_steps: whether the loop takes steps in which pred is false.
    """


# -- reductions over the batch too -------------------------------------------------------------


def _reduction(op: Any, reduce: Any, dtype: str | None) -> None:
    def expand(in_avals: Any, x: Any) -> Any:
        return reduce(x, axes=tuple(range(len(x.shape)))) if x.shape else x

    def types(x: jt.ShapedArray) -> jt.ShapedArray:
        if dtype is not None and str(x.dtype) != dtype:
            jt.ill_typed(f"{op.primitive} is for {dtype}, and its operand is {x}")
        return jt.ShapedArray((), x.dtype)

    def jvp(primals: Any, tangents: Any) -> Any:
        out = op(*primals)
        return out, jt.Zero(jt.ShapedArray((), out.dtype))

    jt.define(
        op,
        **jt.decomposed(expand),
        abstract_eval=types,
        jvp=jvp,
        transpose=jt.unsupported("it is not linear"),
        batch=lambda axis_size, values, dims: (op(*values), None),
        cost=lambda in_avals, out_avals: in_avals[0].size,
    )


_reduction(unvmap_any, lax.reduce_or, "bool")
_reduction(unvmap_all, lax.reduce_and, "bool")
_reduction(unvmap_max, lax.reduce_max, None)


# -- nonbatchable, nondifferentiable_backward ---------------------------------------------------


def _error_if(x: Any, wrong: Any, msg: str) -> Any:
    """Return x; where an element of `wrong` is true in any example, a callback that cannot be run
    makes the program fail.
    """
    said = re.sub(r"[^\w .,'-]", "", str(msg)).strip()
    params = {"result_avals": (x.aval if hasattr(x, "aval") else jt.ShapedArray(x.shape, x.dtype),)}
    fails = lambda x: lax.pure_callback(callback=Opaque(f"<error: {said}>"), **params)[0]  # noqa: E731
    return jt.cond(unvmap_any(wrong), fails, lambda x: x, x)


def _constant_batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
    """The batch rule of `nonbatchable`: return the first example, where that is allowed and all
    examples are equal.
    """
    if not params["allow_constant_across_batch"]:
        jt.ill_typed(params["msg"], "nonbatchable")
    (x,), (dim,) = values, dims
    least, most = (
        reduce(
            lax.convert_element_type(x, new_dtype=INT32) if str(x.dtype) == "bool" else x,
            axes=(dim,),
        )
        for reduce in (lax.reduce_min, lax.reduce_max)
    )
    x = _error_if(x, lax.ne(least, most), params["msg"])
    starts = tuple(0 for _ in x.shape)
    limits = tuple(1 if i == dim else n for i, n in enumerate(x.shape))
    first = lax.slice(x, start_indices=starts, limit_indices=limits)
    return nonbatchable(lax.squeeze(first, dimensions=(dim,)), **params), None


jt.define(
    nonbatchable,
    abstract_eval=lambda x, **_: x,
    impl=lambda xp, x, **_: x,
    jvp=lambda primals, tangents, **params: (nonbatchable(*primals, **params), tangents[0]),
    transpose=lambda ct, x, **_: [ct],
    batch=_constant_batch,
    lower=lambda ctx, x, **_: x,
    cost=lambda in_avals, out_avals, **_: 0,
)


def _no_cotangent(ct: Any, x: Any, *, msg: Text, symbolic: bool) -> Any:
    if symbolic:
        jt.ill_typed(msg, "not-linear")
    return [_error_if(ct, lax.ne(ct, 0.0), msg)]


def _guarded_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = nondifferentiable_backward(*primals, **params)
    return out, nondifferentiable_backward(*tangents, **params)


jt.define(
    nondifferentiable_backward,
    abstract_eval=lambda x, **_: x,
    impl=lambda xp, x, **_: x,
    jvp=_guarded_jvp,
    transpose=_no_cotangent,
    batch=lambda axis_size, values, dims, **params: (
        nondifferentiable_backward(*values, **params),
        dims[0],
    ),
    lower=lambda ctx, x, **_: x,
    cost=lambda in_avals, out_avals, **_: 0,
)


# -- branched_error ------------------------------------------------------------------------------


def _fails_with(in_avals: Any, pred: Any, index: Any, *xs: Any, msgs: Any) -> Any:
    """Return the operands; where pred is true, a callback named by msgs[index] makes the program
    fail.
    """
    for i, msg in enumerate(msgs):
        chosen = pred if len(msgs) == 1 else lax.and_(pred, lax.eq(index, i))
        xs = (_error_if(xs[0], chosen, msg), *xs[1:])
    if len(msgs) > 1:
        outside = lax.or_(lax.lt(index, 0), lax.ge(index, len(msgs)))
        absent = f"the text has no message beyond {len(msgs)}"
        xs = (_error_if(xs[0], lax.and_(pred, outside), absent), *xs[1:])
    return [*xs]


def _branched_types(pred: Any, index: Any, *xs: Any, msgs: Any) -> Any:
    if str(pred) != "bool[]" or index.shape or index.dtype.kind not in "iu":
        jt.ill_typed(f"branched_error takes bool[] and an integer scalar, not {pred} and {index}")
    if not xs:
        jt.ill_typed("branched_error has no operand to hand on")
    if not isinstance(msgs, (tuple, list)) or not msgs:
        jt.ill_typed(f"branched_error: msgs={msgs} is no list of messages", "bad-param")
    return [*xs]


jt.define(
    branched_error,
    **jt.decomposed(_fails_with),
    abstract_eval=_branched_types,
    jvp=lambda primals, tangents, **params: (
        branched_error(*primals, **params),
        [*tangents[2:]],
    ),
    transpose=lambda cts, pred, index, *xs, msgs: [None, None, *cts],
    batch=lambda axis_size, values, dims, **params: (
        branched_error(unvmap_any(values[0]), unvmap_max(values[1]), *values[2:], **params),
        [*dims[2:]],
    ),
    cost=lambda in_avals, out_avals, **_: 0,
)


# -- nontraceable, announce_jaxpr ---------------------------------------------------------------


def _refused(what: str) -> Any:
    def rule(*_: Any, name: str) -> Any:
        jt.ill_typed(f"{what} of {name}, which is not to be transformed", "nontraceable")

    return rule


jt.define(
    nontraceable,
    abstract_eval=lambda x, **_: x,
    impl=lambda xp, x, **_: x,
    jvp=_refused("differentiation"),
    transpose=_refused("transposition"),
    batch=_refused("batching"),
    lower=lambda ctx, x, **_: x,
    cost=lambda in_avals, out_avals, **_: 0,
)


def _announced(after: str, operands: Any, params: Any) -> Any:
    """Bind `announce_jaxpr` with one more transformation, `after`, in its stack; symbolic zeros are
    returned as they are.
    """
    stack = params["stack"] if isinstance(params["stack"], tuple) else ()
    given = [x for x in operands if type(x) is not jt.Zero]
    rest = iter(announce_jaxpr(*given, **{**params, "stack": (*stack, after)}) if given else ())
    return [x if type(x) is jt.Zero else next(rest) for x in operands]


jt.define(
    announce_jaxpr,
    abstract_eval=lambda *xs, **_: [*xs],
    impl=lambda xp, *xs, **_: [*xs],
    jvp=lambda primals, tangents, **params: (
        _announced("jvp_p", primals, params),
        _announced("jvp_t", tangents, params),
    ),
    transpose=lambda cts, *xs, **params: _announced("transpose", cts, params),
    batch=lambda axis_size, values, dims, **params: (
        _announced("vmap", values, params),
        [*dims],
    ),
    lower=lambda ctx, *xs, **_: [*xs],
    cost=lambda in_avals, out_avals, **_: 0,
)


# -- select_if_vmap ----------------------------------------------------------------------------


def _select_types(pred: Any, x: Any, y: Any) -> Any:
    if x is not y:
        jt.ill_typed(f"select_if_vmap chooses between {x} and {y}; one type is needed")
    return x


def _select_jvp(primals: Any, tangents: Any) -> Any:
    pred, x, y = primals
    _, dx, dy = tangents
    return select_if_vmap(pred, x, y), select_if_vmap(pred, jt.instantiate(dx), jt.instantiate(dy))


def _select_transpose(ct: Any, pred: Any, x: Any, y: Any) -> Any:
    zeros = jt.instantiate(jt.Zero(jt.ShapedArray(ct.shape, ct.dtype)))
    return [
        None,
        select_if_vmap(pred, ct, zeros) if jt.is_linear(x) else None,
        select_if_vmap(pred, zeros, ct) if jt.is_linear(y) else None,
    ]


def _select_batch(axis_size: int, values: Any, dims: Any) -> Any:
    pred, x, y = values
    x, y = (jt.materialize(v, d, axis_size) for v, d in zip((x, y), dims[1:], strict=True))
    if dims[0] is None:
        return select_if_vmap(pred, x, y), 0
    if len(x.shape) > 1:
        pred = lax.broadcast_in_dim(pred, shape=x.shape, broadcast_dimensions=(0,))
    return lax.select_n(pred, y, x), 0


jt.define(
    select_if_vmap,
    abstract_eval=_select_types,
    impl=lambda xp, pred, x, y: x,
    jvp=_select_jvp,
    transpose=_select_transpose,
    batch=_select_batch,
    lower=lambda ctx, pred, x, y: x,
    cost=lambda in_avals, out_avals: 0,
)


# -- maybe_set ---------------------------------------------------------------------------------


def _place(xs: Any, index: Any) -> tuple[Any, Any]:
    """Return the start indices of xs[index] (negative indices count from the end), and whether they
    are inside xs.
    """
    starts: list[Any] = []
    inside: Any = None
    for i, n in zip(index, xs.shape, strict=False):
        i = lax.select_n(lax.lt(i, 0), i, lax.add(i, n))
        ok = lax.and_(lax.ge(i, 0), lax.lt(i, n))
        inside = ok if inside is None else lax.and_(inside, ok)
        starts.append(i)
    zero = lax.sub(starts[0], starts[0])
    return starts + [zero] * (len(xs.shape) - len(starts)), inside


def _row(xs: Any, index: Any) -> Any:
    starts, _ = _place(xs, index)
    sizes = (*[1] * len(index), *xs.shape[len(index) :])
    part = lax.dynamic_slice(xs, *starts, slice_sizes=sizes)
    return lax.squeeze(part, dimensions=tuple(range(len(index))))


def _chosen(pred: Any, x: Any, y: Any, makes_false_steps: bool) -> Any:
    """Return x where pred, else y. Without false steps an unbatched pred is always true, so that a
    vmap alone selects.
    """
    return lax.select_n(pred, y, x) if makes_false_steps else select_if_vmap(pred, x, y)


def _set(pred: Any, xs: Any, x: Any, *index: Any, makes_false_steps: bool, **_: Any) -> Any:
    """Return the updated array, computed by JAX's primitives; an index outside changes nothing."""
    starts, inside = _place(xs, index)
    row = _row(xs, index)
    new = _chosen(pred, x, row, makes_false_steps)
    new = lax.select_n(inside, row, new)
    shaped = lax.reshape(new, new_sizes=(*[1] * len(index), *new.shape))
    return lax.dynamic_update_slice(xs, shaped, *starts)


def _set_expanded(in_avals: Any, *operands: Any, **params: Any) -> Any:
    return _set(*operands, **params)


# Params of an indexed update that do not change its result where each position is written once.
_HINTS = {"indices_are_sorted", "unique_indices"}


def _set_types(
    pred: Any, xs: Any, x: Any, *index: Any, i_static: Any, kwargs: Any, **_: Any
) -> Any:
    scalars = all(i.shape == () and i.dtype.kind in "iu" for i in index)
    if not index or i_static is not None or not scalars:
        jt.ill_typed("maybe_set: only an index of integer scalars is known here", "bad-param")
    if not {k for k, _ in kwargs} <= _HINTS:
        jt.ill_typed(f"maybe_set: kwargs={kwargs} is not known here", "bad-param")
    if x.shape != xs.shape[len(index) :] or x.dtype is not xs.dtype:
        jt.ill_typed(f"maybe_set puts {x} into {xs}, indexed by {len(index)} scalars")
    return xs


def _set_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    pred, _, _, *index = primals
    _, dxs, dx, *_ = tangents
    out = maybe_set(*primals, **params)
    if type(dxs) is jt.Zero and type(dx) is jt.Zero:
        return out, dxs
    return out, maybe_set(pred, jt.instantiate(dxs), jt.instantiate(dx), *index, **params)


def _set_transpose(ct: Any, pred: Any, xs: Any, x: Any, *index: Any, **params: Any) -> Any:
    """The transpose rule of equinox: xs gets all of ct, since each position is assumed to be
    written once and not read before.
    """
    shape = ct.shape[len(index) :]
    zeros = jt.instantiate(jt.Zero(jt.ShapedArray(shape, ct.dtype)))
    to_x = _chosen(pred, _row(ct, index), zeros, params["makes_false_steps"])
    return [
        None,
        ct if jt.is_linear(xs) else None,
        to_x if jt.is_linear(x) else None,
        *[None] * len(index),
    ]


def _set_batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
    """The batch rule: one update for all examples where predicate and index are not batched, else
    one for each example.

    With a batched predicate, makes_false_steps is set: examples whose predicate is false keep their
    values. The updates of the examples are a `linear_call` with the batched `_set_transpose`, since
    the transposes of the primitives that they consist of would give xs no cotangent where it is
    overwritten.
    """
    pred, xs, x, *index = values
    shared = [d is None for d in (dims[0], *dims[3:])]
    if all(shared):
        xs, x = (jt.materialize(v, d, axis_size) for v, d in zip((xs, x), dims[1:3], strict=True))
        n = len(index)
        moved = lax.transpose(xs, permutation=(*range(1, n + 1), 0, *range(n + 1, len(xs.shape))))
        return maybe_set(pred, moved, x, *index, **params), n
    fields = {**params, "makes_false_steps": params["makes_false_steps"] or not shared[0]}
    fixed = (dims[0], *dims[3:])

    def one(p: Any, *rest: Any) -> Any:
        return _set(p, *rest[-2:], *rest[:-2], **fields)

    def to_one(p: Any, *rest: Any) -> Any:
        row = _row(rest[-1], rest[:-1])
        zeros = jt.instantiate(jt.Zero(jt.ShapedArray(row.shape, row.dtype)))
        return _chosen(p, row, zeros, fields["makes_false_steps"])

    def update(*ys: Any) -> Any:
        p, *rest = ys
        return jt.vmap(one, in_axes=(*fixed, *dims[1:3]))(p, *rest)

    given = (pred, *index, xs, x)
    if str(xs.dtype.kind) not in "fc":
        return update(*given), 0

    def back(*ys: Any) -> Any:
        p, *rest, ct = ys
        to_x = jt.vmap(to_one, in_axes=(*fixed, 0))(p, *rest, ct)
        return [_summed(t, d) for t, d in zip((ct, to_x), dims[1:3], strict=True)]

    avals = [jt.ShapedArray(v.shape, v.dtype) for v in given]
    callee = jt.make_jaxpr(update)(*avals)
    transpose = jt.make_jaxpr(back)(*avals[:-2], callee.out_avals[0])
    params = {"callee": callee, "transpose_jaxpr": transpose, "transpose_thunk": None}
    counts = {"num_callee_consts": 0, "num_res": len(given) - 2}
    return lax.linear_call(*given, **params, **counts)[0], 0


def _summed(ct: Any, dim: int | None) -> Any:
    """Move the batch axis of a cotangent from 0 to `dim`; sum over it where `dim` is None."""
    if dim is None:
        return lax.reduce_sum(ct, axes=(0,))
    order = [*range(1, len(ct.shape))]
    return lax.transpose(ct, permutation=(*order[:dim], 0, *order[dim:]))


jt.define(
    maybe_set,
    **jt.decomposed(_set_expanded),
    abstract_eval=_set_types,
    jvp=_set_jvp,
    transpose=_set_transpose,
    batch=_set_batch,
    cost=lambda in_avals, out_avals, **_: in_avals[2].size,
)
