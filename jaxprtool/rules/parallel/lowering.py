"""Collectives in StableHLO; the groups of devices that take part are written in the same form as by
JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import UINT32, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.sharding import Mesh
from jaxprtool.rules.parallel.groups import axis_groups
from jaxprtool.rules.parallel.shard_layout import Split
from jaxprtool.stablehlo.builder import types_of
from jaxprtool.stablehlo.text import mlir_type

__all__ = [
    "GLOBAL_IDS",
    "all_reduce",
    "channel",
    "device_groups",
    "device_number",
    "manual_computation",
    "mesh_groups",
    "pairs_text",
    "reducer",
]

# All collectives identify devices by their number in the mesh, and use XLA's one channel between
# devices.
channel = "#stablehlo.channel_handle<handle = 1, type = 1>"
GLOBAL_IDS = {"channel_handle": channel, "use_global_device_ids": "unit"}


def pairs_text(rows: Sequence[Sequence[int]]) -> str:
    """Return a matrix of integers as the MLIR text of an attribute."""
    width = len(rows[0]) if rows else 2
    inner = ", ".join(f"[{', '.join(map(str, r))}]" for r in rows)
    return f"dense<{f'[{inner}]' if rows else ''}> : tensor<{len(rows)}x{width}xi64>"


def mesh_groups(
    ctx: LoweringContext, name: str, names: Sequence[str], index_groups: Any
) -> list[list[int]]:
    """Return the groups of devices of a collective, which has to be inside a shard_map that binds its axes."""
    sizes = ctx.mesh.sizes if ctx.mesh is not None else {}
    for n in names:
        if n not in sizes:
            ill_typed(f"{name}: no axis is called {n} here", "unbound-axis")
    return axis_groups(sizes, names, index_groups)


def device_groups(
    ctx: LoweringContext, name: str, names: Sequence[str], index_groups: Any = None
) -> str:
    """Return the attribute `replica_groups`."""
    return pairs_text(mesh_groups(ctx, name, names, index_groups))


def reducer(ctx: LoweringContext, body: Any, dtype: DType) -> str:
    """Write the region of a reduction of scalars; `body` is the name of an operation, or a function
    that writes it.
    """
    scalar = ShapedArray((), dtype)
    apply = (lambda a, b: ctx.op(body, a, b, out=scalar)) if isinstance(body, str) else body
    return ctx.region([scalar, scalar], apply)


def all_reduce(
    ctx: LoweringContext, x: HloValue, names: Sequence[str], body: Any, index_groups: Any = None
) -> HloValue:
    """Write the reduction of x over the members of named axes."""
    return ctx.op(
        "all_reduce",
        x,
        out=x.aval,
        regions=[reducer(ctx, body, x.aval.dtype)],
        replica_groups=device_groups(ctx, "psum", names, index_groups),
        **GLOBAL_IDS,
    )


def device_number(ctx: Value) -> Value:
    """Write the number of the device in the mesh, u32[].

    XLA has the operation only where all axes of the mesh are manual. Elsewhere it is wrapped in a
    manual computation over the remaining axes.
    """
    number = ShapedArray((), UINT32)
    rest = [a for a in ctx.mesh.sizes if a not in ctx.manual]
    if not rest:
        return ctx.op("partition_id", out=number)
    write = manual_computation(ctx, ctx.mesh, rest, [], [], [Split(())], [number])
    return write(lambda: [ctx.op("partition_id", out=number)])[0]


def sharding_text(symbol: str, split: Split, ndim: int, rest: Sequence[str] = ()) -> str:
    """Return a sharding in Shardy's syntax.

    If some axes of the mesh are not manual (`rest`), dimensions are left open: they may be split
    further.
    """
    dims, spec = [], split.spec
    for i in range(ndim):
        parts = [f'"{a}"' for a in (spec[i] if i < len(spec) else ())]
        dims.append(f"{{{', '.join([*parts, '?'] if rest else parts)}}}")
    parts = ", ".join(f'"{a}"' for a in split.sums.unreduced)
    kind = split.sums.kind
    to_come = f", unreduced={kind}{{{parts}}}" if parts else ""
    return f"<@{symbol}, [{', '.join(dims)}]{to_come}>"


def _kept_to_sum(ctx: LoweringContext, x: HloValue, sharding: str) -> HloValue:
    """Write a constraint that keeps an unreduced value unreduced: the Shardy of JAX 0.12 rejects a
    manual computation that would sum it.
    """
    return ctx.write(f"sdy.sharding_constraint {x.name} {sharding} : {mlir_type(x.aval)}", x.aval)


def manual_computation(
    ctx: LoweringContext,
    mesh: Mesh,
    names: Sequence[str],
    operands: Sequence[HloValue],
    ins: Sequence[Split],
    outs: Sequence[Split],
    out_avals: Sequence[Aval],
) -> Callable[..., list[HloValue]]:
    """Return a function that writes an `sdy.manual_computation`, which computes on each device's
    shards.

    Args:
      ctx: the context.
      mesh: the mesh.
      names: the axes that become manual.
      operands, ins: the whole values, and how each is split.
      outs, out_avals: how each result is split, and its whole type.

    Returns:
      A function of the body and of the types of the shards, which writes the computation and
        returns its results.
    """
    symbol = ctx.module.mesh_symbol(mesh)

    def write(
        body: Callable[..., Sequence[Value]], local_avals: Sequence[Value] = ()
    ) -> list[Value]:
        previous = ctx.mesh, ctx.manual
        ctx.mesh, ctx.manual = mesh, (*ctx.manual, *names)
        if (
            mesh.size == 1
        ):  # nothing is split; XLA of JAX before 0.10 rejects a manual computation for one device
            results = [*body(*operands)]
            ctx.mesh, ctx.manual = previous
            return results
        rest = [a for a in mesh.sizes if a not in ctx.manual]
        args, inner = ctx.block(local_avals, body, "sdy.return")
        ctx.mesh, ctx.manual = previous
        split = [
            sharding_text(symbol, s, x.aval.ndim, rest) for s, x in zip(ins, operands, strict=True)
        ]
        joined = [
            sharding_text(symbol, s, a.ndim, rest) for s, a in zip(outs, out_avals, strict=True)
        ]
        given = [
            _kept_to_sum(ctx, x, text) if s.sums.unreduced else x
            for x, s, text in zip(operands, ins, split, strict=True)
        ]
        manual = ", ".join(f'"{n}"' for n in names)
        header = ", ".join(f"{x.name}: {mlir_type(x.aval)}" for x in args)
        text = (
            f"sdy.manual_computation({', '.join(x.name for x in given)}) "
            f"in_shardings=[{', '.join(split)}] out_shardings=[{', '.join(joined)}] "
            f"manual_axes={{{manual}}} ({header}) {{\n{inner}\n{ctx.indent}}} "
            f": ({types_of(operands)}) -> ({', '.join(mlir_type(a) for a in out_avals)})"
        )
        return ctx.write_many(text, out_avals)

    return write
