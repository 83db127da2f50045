"""equinox's `vprim`: another primitive, applied to each example of a batch.

Its transformations are those of the primitive, applied to each example: the derivative of
`linear_solve`, say, is not that of the operations that compute it. So its rules make `vprim` of the
primitive again, of any order. Of primitives that are not known here, the text has no more than the
name; `jaxprtool trace` writes out what they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.bind import bind
from jaxprtool.core.kinds.numbers import Size
from jaxprtool.core.primitive import declared_primitive
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.ir.params import Word
from jaxprtool.makers.decomposed import function_of
from jaxprtool.plugins.expanded import row

__all__ = ["of_each"]


@jt.primitive(multiple_results=True, library="equinox")
def vprim(
    *operands, prim: Any, params: Any, __axis_name: Any, __axis_size: Size, __batch_axes: tuple
):
    """vmap(prim)(*operands); the batch is the first axis of each result.

    prim: the name of the primitive.
    params: its params, as pairs of name and value.
    __axis_name: the name of the batch axis.
    __axis_size: the size of the batch.
    __batch_axes: the batch axis of each operand; None for one that is not batched.
    """


_APPLIED = {"linear_solve", "maybe_set", "vprim"}  # those that a `vprim` applies


def of_each(
    name: str, params: dict[str, Any], axis_size: int, values: Sequence[Any], dims: Sequence[Any]
) -> list[Any]:
    """Apply a primitive to each example of a batch, as its `batch` rule.

    Args:
      name: the name of the primitive.
      params: its params.
      axis_size: the size of the batch.
      values, dims: the operands, and the batch axis of each; None for one that is not batched.

    Returns:
      The results; the batch is the first axis of each.
    """
    batch = {"__axis_name": None, "__axis_size": axis_size, "__batch_axes": tuple(dims)}
    return list(bind(vprim.primitive, *values, prim=Word(name), params=(*params.items(),), **batch))


def _primitive(prim: Any) -> Any:
    """Return the primitive of a name; None where a `vprim` of it is not supported."""
    return declared_primitive(str(prim)) if str(prim) in _APPLIED else None


def _given(prim: Any, params: Any) -> dict[str, Any]:
    """Return the params of the applied primitive by name, with the defaults of those that are not
    given.
    """
    return {
        **_primitive(prim).defaults,
        **{str(name): value for name, value in dict(params).items()},
    }


def _one(prim: Any, params: Any) -> Callable[..., list[Any]]:
    """Return the function that applies the primitive to one example; its results are a list."""
    op, given = _primitive(prim), _given(prim, params)

    def one(*xs: Any) -> list[Any]:
        found = bind(op, *xs, **given)
        return list(found) if op.multiple_results else [found]

    return one


def _expanded(
    in_avals: Any,
    *operands: Any,
    prim: Any,
    params: Any,
    __axis_size: int,
    __batch_axes: Any,
    **_: Any,
) -> Any:
    """The values: vmap of the operations that compute the primitive."""
    op, given = _primitive(prim), _given(prim, params)
    expansion = function_of(impl_rules[op])
    assert expansion is not None  # each of them is defined by others

    def one(*xs: Any) -> Any:
        found = expansion([get_aval(x) for x in xs], *xs, **given)
        return found if op.multiple_results else [found]

    return jt.vmap(one, in_axes=(*__batch_axes,), axis_size=__axis_size)(*operands)


def _types(
    *avals: Any, prim: Any, params: Any, __axis_size: int, __batch_axes: Any, **_: Any
) -> Any:
    if _primitive(prim) is None:
        jt.ill_typed(f"vprim: {prim} is not known here", "bad-param")
    if len(__batch_axes) != len(avals):
        jt.ill_typed(f"vprim has {len(__batch_axes)} axes for {len(avals)} operands", "bad-param")
    examples: list[Any] = []
    for aval, d in zip(avals, __batch_axes, strict=True):
        if d is not None and aval.shape[d : d + 1] != (__axis_size,):
            jt.ill_typed(f"vprim takes {__axis_size} examples along dimension {d} of {aval}")
        shape = aval.shape if d is None else (*aval.shape[:d], *aval.shape[d + 1 :])
        examples.append(aval.update(shape=shape))
    outs = abstract_eval(_primitive(prim), examples, _given(prim, params))
    return [out.update(shape=(__axis_size, *out.shape)) for out in outs]


def _jvp(primals: Any, tangents: Any, **of: Any) -> Any:
    one, axes = _one(of["prim"], of["params"]), of["__batch_axes"]
    out = list(bind(vprim.primitive, *primals, **of))
    zeros = [jt.Zero(jt.ShapedArray(x.shape, x.dtype)) for x in map(get_aval, out)]
    live = [i for i, t in enumerate(tangents) if type(t) is not jt.Zero]
    moving = [i for i, z in enumerate(zeros) if z.aval.dtype.kind in "fc"]
    if not live or not moving:
        return out, zeros

    def moved(*values: Any) -> list[Any]:
        xs, ts = values[: len(primals)], values[len(primals) :]

        def of_live(*given: Any) -> list[Any]:
            full = list(xs)
            for i, x in zip(live, given, strict=True):
                full[i] = x
            outs = one(*full)
            return [outs[i] for i in moving]

        return list(jt.jvp(of_live, tuple(xs[i] for i in live), tuple(ts))[1])

    found = jt.vmap(moved, in_axes=(*axes, *(axes[i] for i in live)), axis_size=of["__axis_size"])(
        *primals, *(tangents[i] for i in live)
    )
    for i, t in zip(moving, found, strict=True):
        zeros[i] = t
    return out, zeros


def _transpose(cts: Any, *operands: Any, **of: Any) -> list[Any]:
    """Of each example, by the `transpose` rule of the primitive; summed for what is not batched."""
    one, axes, found = _one(of["prim"], of["params"]), of["__batch_axes"], [None] * len(operands)
    linear = [i for i, x in enumerate(operands) if jt.is_linear(x)]
    live = [i for i, ct in enumerate(cts) if type(ct) is not jt.Zero]
    if not linear or not live:
        return found
    others = [i for i in range(len(operands)) if i not in linear]
    zeros = [jt.instantiate(jt.Zero(operands[i].aval)) for i in linear]

    def pulled(*values: Any) -> list[Any]:
        full: list[Any] = [None] * len(operands)
        for i, x in zip([*others, *linear], values, strict=False):
            full[i] = x

        def of_linear(*xs: Any) -> list[Any]:
            for i, x in zip(linear, xs, strict=True):
                full[i] = x
            outs = one(*full)
            return [outs[i] for i in live]

        at = [full[i] for i in linear]
        return list(jt.vjp(of_linear, *at)[1]([*values[len(operands) :]]))

    given = [*[operands[i] for i in others], *zeros, *[cts[i] for i in live]]
    in_axes = (*[axes[i] for i in (*others, *linear)], *[0] * len(live))
    pulls = jt.vmap(pulled, in_axes=in_axes, axis_size=of["__axis_size"])(*given)
    for i, ct in zip(linear, pulls, strict=True):
        if axes[i] is None:
            ct = lax.reduce_sum(ct, axes=(0,))
        elif axes[i]:
            order = [*range(1, len(get_aval(ct).shape))]
            ct = lax.transpose(ct, permutation=(*order[: axes[i]], 0, *order[axes[i] :]))
        found[i] = ct
    return found


def _batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
    outs = of_each("vprim", params, axis_size, values, dims)
    return outs, [0] * len(outs)


row(vprim, _types, _expanded, jvp=_jvp, transpose=_transpose, batch=_batch)
