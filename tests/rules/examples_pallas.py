"""Sample operands of kernels of Pallas, whose params JAX makes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from tests.rules.example import Example, arg


def _params(f: Callable[..., Any], types: tuple[str, ...]) -> dict[str, Any]:
    """The params of the only kernel that a function of JAX's calls."""
    import jax
    import numpy as np

    import jaxprtool as jt

    specs = [
        jax.ShapeDtypeStruct(a.shape, np.dtype(a.dtype.name)) for a in (arg(t).aval for t in types)
    ]
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(f)(*specs)
        program = jt.from_jax(closed)
    (eqn,) = [e for e in program.jaxpr.eqns if e.primitive is lax.pallas_call.primitive]
    (theirs,) = [e for e in closed.eqns if e.primitive.name == "pallas_call"]
    # what a kernel writes is not what it reads: JAX drops that in the outermost jaxpr alone
    return {**eqn.params, "jaxpr": jt.from_jax(theirs.params["jaxpr"])}


def _call(kernel: Any, out: str, **fields: Any) -> Callable[..., Any]:
    """A kernel that runs as a loop on the CPU."""
    import jax
    import numpy as np
    from jax.experimental import pallas as pl

    aval = arg(out).aval
    shape = jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype.name))
    return pl.pallas_call(kernel, out_shape=shape, interpret=True, **fields)


def _kernel(f: Callable[..., Any], *types: str, **fields: Any) -> Example:
    return Example(
        lax.pallas_call,
        tuple(map(arg, types)),
        _params(f, types),
        jax=lambda *xs, **_: [f(*xs)],
        reverse=False,
        **fields,
    )


def _spec(shape: tuple[int | None, ...], place: Any) -> Any:
    from jax.experimental import pallas as pl

    return pl.BlockSpec(shape, place)


def _products(x: Any, y: Any) -> Any:
    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = x[...] * y[...] + x[...]

    block = _spec((2, 3), lambda i, j: (i, j))
    fields = {"grid": (2, 1), "in_specs": [block] * 2, "out_specs": block}
    return _call(kernel, "f64[4,3]", **fields)(x, y)


def _ragged(x: Any) -> Any:
    def kernel(x: Any, out: Any) -> None:
        out[...] = x[...] * 2

    block = _spec((2, 2), lambda i, j: (i, j))
    return _call(kernel, "f64[5,3]", grid=(3, 2), in_specs=[block], out_specs=block)(x)


def _rows(x: Any) -> Any:
    def kernel(x: Any, out: Any) -> None:
        import jax.numpy as jnp

        out[...] = jnp.sin(x[...])

    row = _spec((None, 3), lambda i: (i, 0))
    return _call(kernel, "f64[2,3]", grid=(2,), in_specs=[row], out_specs=row)(x)


def _whole(x: Any) -> Any:
    def kernel(x: Any, out: Any) -> None:
        out[...] = x[...] * x[...]

    return _call(kernel, "f64[2,3]")(x)


def _rolled(
    x: Any, shift: Any, *, axis: int, stride: int | None = None, stride_axis: int | None = None
) -> Any:
    import jax.numpy as jnp

    if stride is None or stride_axis is None:
        return jnp.roll(x, shift, axis)
    parts = jnp.split(x, x.shape[stride_axis], stride_axis)
    turned = [jnp.roll(part, shift + i * stride, axis) for i, part in enumerate(parts)]
    return jnp.concatenate(turned, stride_axis)


def _repeated(x: Any, *, axis: int, repeats: int) -> Any:
    import jax.numpy as jnp

    return jnp.concatenate([x] * repeats, axis)


def _reciprocal(x: Any, *, approx: bool) -> Any:
    import jax

    del approx  # it may be less precise, and is not
    return jax.lax.reciprocal(x)


def _unchanged(x: Any, **_: Any) -> Any:
    import jax.numpy as jnp

    return jnp.copy(x)


EXAMPLES = [
    _kernel(_products, "f64[4,3]", "f64[4,3]", label="products"),
    _kernel(_ragged, "f64[5,3]", label="ragged"),
    _kernel(_rows, "f64[2,3]", label="rows"),
    _kernel(_whole, "f64[2,3]", label="whole"),
    Example(
        lax.roll,
        (arg("f64[3,4]"), arg("i32[]", "small")),
        {"axis": 1},
        jax=functools.partial(_rolled, axis=1),
    ),
    Example(
        lax.roll,
        (arg("f32[3,4]"), arg("i32[]", "small")),
        {"axis": 1, "stride": 2, "stride_axis": 0},
        jax=functools.partial(_rolled, axis=1, stride=2, stride_axis=0),
    ),
    Example(
        lax.repeat,
        (arg("f64[2,3]"),),
        {"axis": 0, "repeats": 3},
        jax=functools.partial(_repeated, axis=0, repeats=3),
    ),
    Example(
        lax.roll,
        (arg("f64[3,4]"), arg("i32[]", "small")),
        {"axis": 0},
        jax=functools.partial(_rolled, axis=0),
    ),
    Example(
        lax.repeat,
        (arg("f64[2,3]"),),
        {"axis": 1, "repeats": 2},
        jax=functools.partial(_repeated, axis=1, repeats=2),
    ),
    Example(lax.reciprocal, (arg("f32[3]"),), {"approx": False}, jax=_reciprocal),
    Example(lax.reciprocal, (arg("f64[2,3]"),), {"approx": False}, jax=_reciprocal),
    Example(lax.max_contiguous, (arg("i32[4]"),), {"values": (4,)}, jax=_unchanged),
    Example(lax.max_contiguous, (arg("i32[2,4]"),), {"values": (1, 4)}, jax=_unchanged),
]
