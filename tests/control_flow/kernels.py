"""Kernels of Pallas, as JAX programs with sample operands: a name for each, the function, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from tests.releases import SERIES

try:
    from jax.experimental.pallas import tpu as pltpu
except ImportError:  # releases that have it for accelerators alone
    pltpu = None

__all__ = ["KERNELS", "Program"]

F32, I32 = np.float32, np.int32
X = np.arange(64, dtype=F32).reshape(8, 8) / 7


class Program(NamedTuple):
    """A function, its sample operands, and what of JAX it has: derivatives, batches."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    jvp: bool
    vmap: bool


KERNELS: dict[str, Program] = {}


def _program(
    *args: Any,
    jvp: bool = True,
    vmap: bool = True,
    needs_tpu: bool = False,
    since: tuple[int, ...] = (),
) -> Any:
    """Adds a function to `KERNELS`, by its name.

    Args:
      args: its operands.
      jvp: whether JAX differentiates it.
      vmap: whether JAX maps it.
      needs_tpu: whether it uses what is for TPUs, which not every release has on a CPU.
      since: the first release that prints all that it says.
    """

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        if (pltpu is not None or not needs_tpu) and since <= SERIES:
            KERNELS[f.__name__.strip("_")] = Program(f, args, jvp, vmap)
        return f

    return add


def _call(kernel: Any, *shapes: Any, **fields: Any) -> Any:
    """A kernel that runs as a loop on the CPU; results are f32, or of the dtype that comes first."""
    out = [
        jax.ShapeDtypeStruct(s[1:], s[0])
        if isinstance(s[0], type)
        else jax.ShapeDtypeStruct(s, F32)
        for s in shapes
    ]
    return pl.pallas_call(kernel, out_shape=out, interpret=True, **fields)


def _blocks(*shape: int | None, at: Any) -> Any:
    return pl.BlockSpec(shape, at)


@_program(X, X + 1)
def elementwise(x, y):
    def kernel(x, y, out):
        out[...] = x[...] * 2 + y[...]

    block = _blocks(4, 2, at=lambda i, j: (i, j))
    return _call(kernel, (8, 8), grid=(2, 4), in_specs=[block] * 2, out_specs=[block])(x, y)


@_program(X)
def without_a_grid(x):
    def kernel(x, out):
        out[...] = jnp.sin(x[...]) + x[2, 3]

    return _call(kernel, (8, 8))(x)


@_program(X, X + 1, jvp=False)
def matrix_product(x, y):
    def kernel(x, y, out):
        @pl.when(pl.program_id(2) == 0)
        def start():
            out[...] = jnp.zeros_like(out)

        out[...] += x[...] @ y[...]

    specs = [_blocks(4, 2, at=lambda i, j, k: (i, k)), _blocks(2, 4, at=lambda i, j, k: (k, j))]
    block = _blocks(4, 4, at=lambda i, j, k: (i, j))
    return _call(kernel, (8, 8), grid=(2, 2, 4), in_specs=specs, out_specs=[block])(x, y)


@_program(X[:7, :5], jvp=False)
def ragged(x):
    def kernel(x, out):
        out[...] = x[...] + pl.program_id(0) * 10 + pl.num_programs(1)

    block = _blocks(4, 2, at=lambda i, j: (i, j))
    return _call(kernel, (7, 5), grid=(2, 3), in_specs=[block], out_specs=[block])(x)


@_program(X[:7])
def what_is_beyond_the_end_is_nan(x):
    def kernel(x, out):
        out[...] = jnp.nansum(x[...], 0, keepdims=True) + jnp.isnan(x[...]).sum()

    spec, block = _blocks(4, 8, at=lambda i: (i, 0)), _blocks(1, 8, at=lambda i: (i, 0))
    return _call(kernel, (2, 8), grid=(2,), in_specs=[spec], out_specs=[block])(x)


@_program(X, jvp=False, needs_tpu=True)
def scratch(x):
    def kernel(x, out, total):
        @pl.when(pl.program_id(0) == 0)
        def start():
            total[...] = jnp.zeros_like(total)

        total[...] += x[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def end():
            out[...] = total[...]

    spec, block = _blocks(2, 8, at=lambda i: (i, 0)), _blocks(2, 8, at=lambda i: (0, 0))
    cells = [pltpu.VMEM((2, 8), F32)]
    fields = {"grid": (4,), "in_specs": [spec], "out_specs": [block]}
    return _call(kernel, (2, 8), **fields, scratch_shapes=cells)(x)


@_program(np.array([3, 1, 0, 2], I32), X, jvp=False, needs_tpu=True)
def blocks_that_an_operand_chooses(order, x):
    def kernel(order, x, out):
        out[...] = x[...] + order[pl.program_id(0)]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[_blocks(2, 8, at=lambda i, order: (order[i], 0))],
        out_specs=[_blocks(2, 8, at=lambda i, order: (i, 0))],
    )
    return _call(kernel, (8, 8), grid_spec=grid)(order, x)


@_program(X, X * 2, jvp=False)
def aliases(x, y):
    def kernel(x, y, out):
        @pl.when(pl.program_id(0) > 0)
        def add():
            out[...] = out[...] + x[...]

    block = _blocks(4, 8, at=lambda i: (i, 0))
    fields = {"grid": (2,), "in_specs": [block] * 2, "out_specs": [block]}
    return _call(kernel, (8, 8), **fields, input_output_aliases={1: 0})(x, y)


@_program(X[:5], jvp=False, needs_tpu=True, since=(0, 10))
def masks(x):
    def kernel(x, out):
        start = pl.program_id(0) * 4
        rows = jnp.broadcast_to((start + jnp.arange(4) < 5)[:, None], (4, 8))
        part = pltpu.load(x.at[pl.ds(start, 4)], mask=rows)
        pltpu.store(out.at[pl.ds(start, 4)], jnp.where(rows, part, 0) + 1, mask=rows)

    return _call(kernel, (5, 8), grid=(2,))(x)


@_program(X, jvp=False)
def counted_loop(x):
    def kernel(x, out):
        step = pl.program_id(0).astype(F32) + 1

        def body(i, factor):
            out[i, :] = x[i, :] * factor
            return factor + step

        jax.lax.fori_loop(0, 4, body, F32(1))

    block = _blocks(4, 8, at=lambda i: (i, 0))
    return _call(kernel, (8, 8), grid=(2,), in_specs=[block], out_specs=[block])(x)


@_program(X)
def open_loop(x):
    def kernel(x, out):
        out[...] = jnp.zeros_like(out)

        def body(carry):
            i, total = carry
            out[i, :] = x[i, :]
            return i + 1, total + x[i, 7]

        _, total = jax.lax.while_loop(lambda c: c[1] < 20, body, (0, F32(0)))
        out[7, :] = jnp.full(8, total)

    return _call(kernel, (8, 8))(x)


@_program(X, jvp=False)
def several_results(x):
    def kernel(x, total, most, place):
        total[...] = jnp.sum(x[...], 1)
        most[...] = jnp.max(x[...], 1, keepdims=True)
        place[...] = jnp.argmax(x[...], 1).astype(I32)

    spec, row = _blocks(2, 8, at=lambda i: (i, 0)), _blocks(2, at=lambda i: (i,))
    specs = [row, _blocks(2, 1, at=lambda i: (i, 0)), row]
    fields = {"grid": (4,), "in_specs": [spec], "out_specs": specs}
    return _call(kernel, (8,), (8, 1), (I32, 8), **fields)(x)


@_program(X)
def rows_in_reverse(x):
    def kernel(x, out):
        out[...] = x[...] * 2

    spec, row = _blocks(None, 8, at=lambda i: (7 - i, 0)), _blocks(None, 8, at=lambda i: (i, 0))
    return _call(kernel, (8, 8), grid=(8,), in_specs=[spec], out_specs=[row])(x)


@_program(X)
def overlapping_blocks(x):
    def kernel(x, out):
        out[...] = x[0:2, :] + x[2:4, :]

    spec = pl.BlockSpec((pl.Element(4, (1, 1)), pl.Element(8)), lambda i: (i * 2, 0))
    block = _blocks(2, 8, at=lambda i: (i, 0))
    return _call(kernel, (8, 8), grid=(4,), in_specs=[spec], out_specs=[block])(x)


@_program(X, jvp=False, needs_tpu=True)
def cells_of_its_own(x):
    def kernel(x, out):
        def inner(cell):
            cell[...] = x[...] + 1
            out[...] = cell[...] * cell[...]

        pl.run_scoped(inner, pltpu.VMEM((8, 8), F32))

    return _call(kernel, (8, 8))(x)


@_program(X)
def what_is_not_written(x):
    def kernel(x, out, number):
        out[0, :] = x[0, :]

    return _call(kernel, (8, 8), (I32, 3))(x)


@_program(np.array(3, I32), X, jvp=False, vmap=False)
def sizes_that_are_computed(n, x):
    def kernel(x, out):
        out[...] = x[...] + pl.program_id(0) + pl.num_programs(0)

    block = _blocks(2, 8, at=lambda i: (i, 0))
    return _call(kernel, (8, 8), grid=(n,), in_specs=[block], out_specs=[block])(x)


@_program(np.stack([X, X + 1, X * 2]), X, jvp=False)
def mapped(x, y):
    def kernel(x, y, out):
        out[...] = x[...] * y[...] + pl.program_id(0)

    block = _blocks(4, 2, at=lambda i, j: (i, j))
    f = _call(kernel, (8, 8), grid=(2, 4), in_specs=[block] * 2, out_specs=[block])
    return jax.vmap(f, in_axes=(0, None))(x, y)


@_program(X, X + 1)
def differentiated(x, t):
    def kernel(x, out):
        out[...] = jnp.sin(x[...]) * x[...]

    block = _blocks(4, 2, at=lambda i, j: (i, j))
    f = _call(kernel, (8, 8), grid=(2, 4), in_specs=[block], out_specs=[block])
    return jax.jvp(f, (x,), (t,))


@_program(X)
def hints(x):
    def kernel(x, out):
        start = pl.multiple_of(jnp.argmax(x[:, 7]) - 3, 4)
        out[...] = x[pl.ds(start, 4), :]

    return _call(kernel, (4, 8))(x)


@_program(X, jvp=False, since=(0, 9))
def views(x):
    def kernel(x, out):
        bits = x.bitcast(jnp.int32)[...]
        out[...] = bits.astype(F32) + x.reshape(4, 2, 8)[1, :, :][0]

    return _call(kernel, (8, 8))(x)
