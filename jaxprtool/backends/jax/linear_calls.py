"""A `linear_call` for JAX that can be batched, and differentiated by its residuals: JAX's own has no rules for these.

It has the name and the params of JAX's, so that it prints alike, and it does the same under every
other transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.live import Named
from jaxprtool.backends.jax.private import NoTangent, evaluate, instantiated
from jaxprtool.core.partition import split_list

__all__ = ["LINEAR_CALL"]


class _Rules:
    """JAX's rules of the primitive."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        n_fixed = params["num_callee_consts"] + params["num_res"]
        fixed, _ = split_list(primals, n_fixed)
        fixed_dots, dots = split_list(tangents, n_fixed)
        given = list(map(instantiated, dots))
        if all(type(t) is NoTangent for t in fixed_dots):
            return LINEAR_CALL.bind(*primals, **params), LINEAR_CALL.bind(*fixed, *given, **params)
        callee, all_dots = params["callee"], [*map(instantiated, fixed_dots), *given]
        return jax.jvp(lambda *xs: evaluate(callee, *xs), list(primals), all_dots)

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        """Do as JAX's: the transpose of the transpose is the function itself."""
        n_consts, n_res = params["num_callee_consts"], params["num_res"]
        callee, (back, consts) = params["callee"], params["transpose_thunk"]()
        fixed, residuals, linear = split_list(args, n_consts, n_res)
        given = list(map(instantiated, cts))
        thunk = _shown(lambda: (callee, fixed), params)
        counts = {"num_callee_consts": len(consts), "num_res": n_res}
        found = LINEAR_CALL.bind(
            *consts, *residuals, *given, callee=back, transpose_thunk=thunk, **counts
        )
        pairs = zip(found, linear, strict=True)
        cts_of_linear = [ct if private.is_unknown(x) else None for ct, x in pairs]
        return [None] * (n_consts + n_res) + cts_of_linear

    def batch(self, values: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        """Batch all linear operands where any operand is batched, because their cotangents are batched then."""
        n_consts, n_res = params["num_callee_consts"], params["num_res"]
        size = next(x.shape[d] for x, d in zip(values, dims, strict=True) if d is not None)
        fixed, linear = split_list(values, n_consts + n_res)
        fixed_dims, linear_dims = split_list(dims, n_consts + n_res)
        in_front = [_in_front(x, d, size) for x, d in zip(linear, linear_dims, strict=True)]
        callee = params["callee"]
        batched = _batched(callee, [*fixed_dims, *[0] * len(linear)], [*fixed, *in_front], size)
        structs = [*map(_struct, fixed[n_consts:])]
        outs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in batched.out_avals]

        def thunk() -> Any:
            back, consts = params["transpose_thunk"]()
            axes = [*[None] * len(consts), *fixed_dims[n_consts:], *[0] * len(outs)]
            given = [*map(_struct, consts), *structs, *outs]
            return _batched(back, axes, given, size), consts

        given = {**params, "callee": batched, "transpose_thunk": _shown(thunk, params)}
        return LINEAR_CALL.bind(*fixed, *in_front, **given), [0] * len(outs)


def _shown(thunk: Callable[[], Any], params: dict[str, Any]) -> Named:
    return Named(thunk, str(params["transpose_thunk"]))


def _struct(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _in_front(x: Any, dim: int | None, size: int) -> Any:
    """Return an operand with the batch axis in front, also where it had none."""
    if dim is None:
        return jax.numpy.broadcast_to(x, (size, *x.shape))
    return jax.numpy.moveaxis(x, dim, 0)


def _batched(closed: Any, dims: Sequence[int | None], given: Sequence[Any], size: int) -> Any:
    """Return a program of JAX's with a batch axis at these positions of the arguments, and in front of all results."""

    def call(*xs: Any) -> tuple[Any, ...]:
        return tuple(evaluate(closed, *xs))

    return jax.make_jaxpr(jax.vmap(call, in_axes=tuple(dims), axis_size=size))(*given)


def _call(*args: Any, callee: Any, **_: Any) -> list[Any]:
    return evaluate(callee, *args)


def _types(*_avals: Any, callee: Any, **_: Any) -> list[Any]:
    return callee.out_avals


LINEAR_CALL: Any = private.new_primitive("linear_call", True, _call, _types, _Rules())
