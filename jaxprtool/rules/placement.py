"""Rows of the primitives that place values on devices and in memories; they do not change
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.placement import MEMORY
from jaxprtool.core.rule_table import Maker, unsupported
from jaxprtool.interpreters.batch import elementwise_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.determined import undetermined
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero, linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.memory_spaces import put_in_memory
from jaxprtool.interpreters.transpose import is_linear, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, counted, fail
from jaxprtool.ir.dtypes import DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.ir.sharding import find_mesh, find_spec
from jaxprtool.makers.axes import full
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.stablehlo.text import mlir_type


def _one_device(primitive: str, sharding: Any) -> None:
    """Raise UnsupportedError for a sharding over several devices whose mesh or spec cannot be
    read.
    """
    mesh = find_mesh(sharding)
    if mesh is not None and mesh.size > 1:
        fail(
            UnsupportedError,
            f"{primitive} over several devices, by a sharding that is not read: {sharding}",
            "several-devices",
            help="the evaluation on NumPy, which has no devices, runs it",
        )


# -- device_put ------------------------------------------------------------------------------------


def _put_type(*xs: Aval, devices: Any, srcs: Any, copy_semantics: Any) -> Aval:
    for key, values in (("devices", devices), ("srcs", srcs), ("copy_semantics", copy_semantics)):
        if values and len(values) != len(xs):
            ill_typed(
                f"device_put has {counted(len(xs), 'operand')}, and {key} has {counted(len(values), 'entry')}",
                "param-value",
            )
    if not devices:
        return list(xs)
    return [x.update(memory=_memory(d, x.memory)) for x, d in zip(xs, devices, strict=True)]


def _memory(destination: Any, now: str) -> str:
    """Return the memory that a memory space or a sharding of JAX names: `host`, or "" for the device's own."""
    if isinstance(destination, Record):
        kind = destination.fields.get("memory_kind")
        return now if kind is None else "host" if kind == "pinned_host" else ""
    space = MEMORY.member(destination)
    return now if space is None else "host" if space == "Host" else ""


def _put_jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    moving = [i for i, t in enumerate(tangents) if type(t) is not Zero]
    picked = {k: tuple(v[i] for i in moving) if v else v for k, v in params.items()}
    moved = iter(lax.device_put(*[tangents[i] for i in moving], **picked))
    out = lax.device_put(*primals, **params)
    return out, [t if type(t) is Zero else next(moved) for t in tangents]


def _put_transpose(cts: Sequence[Value], *xs: Value, **_params: ParamValue) -> Value:
    """The transpose rule: cotangents stay where they are, unless the operand is in another memory."""
    return [
        None if not is_linear(x) else ct if type(ct) is Zero else put_in_memory(ct, x.aval.memory)
        for ct, x in zip(cts, xs, strict=True)
    ]


define(
    lax.device_put,
    abstract_eval=_put_type,
    impl=lambda xp, *xs, **_: list(xs),
    jvp=_put_jvp,
    transpose=_put_transpose,
    batch=lambda size, vals, dims, **params: (lax.device_put(*vals, **params), list(dims)),
    lower=lambda ctx, *xs, **_: list(xs),  # as JAX lowers it on the CPU
    cost=FREE,
    memory="rule",
    elements="kept",
)

# -- sharding_constraint, tie ----------------------------------------------------------------------


def _constraint_type(
    x: Aval,
    *,
    sharding: ParamValue,
    layout: ParamValue,
    context_mesh: ParamValue,
    unconstrained_dims: ParamValue,
) -> Aval:
    return x


def _constraint_lower(
    ctx: LoweringContext, x: Value, *, sharding: Any, unconstrained_dims: Any, **_params: Any
) -> Value:
    """Write an sdy.sharding_constraint over the axes of the mesh that are not manual, that is,
    which no surrounding shard_map maps over.
    """
    spec, mesh = find_spec(sharding), find_mesh(sharding)
    if spec is None or mesh is None:
        _one_device("sharding_constraint", sharding)
        return x
    if mesh.size == 1 or all(n in ctx.manual for n in mesh.sizes):
        return x
    axes = [[n for n in names if n not in ctx.manual] for names in spec]
    axes += [[]] * (len(x.aval.shape) - len(axes))
    dims = [", ".join(f'"{n}"' for n in names) for names in axes]
    dims = ["?" if d in unconstrained_dims else names for d, names in enumerate(dims)]
    split = ", ".join(f"{{{names}}}" for names in dims)
    symbol = ctx.module.mesh_symbol(mesh)
    operation = f"sdy.sharding_constraint {x.name} <@{symbol}, [{split}]>"
    return ctx.write(f"{operation} : {mlir_type(x.aval)}", x.aval)


@Maker
def _constraint_batch(_op: Any) -> Value:
    """Return the batch rule, which drops the constraint, since it says nothing about the batch
    axis.
    """
    return lambda _size, vals, dims, **_params: (vals[0], dims[0])


define(
    lax.sharding_constraint,
    abstract_eval=_constraint_type,
    impl=lambda xp, x, **_: x,
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval, **params: lax.sharding_constraint(ct, **params)),
    batch=_constraint_batch,
    lower=_constraint_lower,
    cost=FREE,
    elements="kept",
)


define(
    lax.layout_constraint,
    abstract_eval=lambda x, *, layout: x,
    impl=lambda xp, x, *, layout: x,
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval, **params: lax.layout_constraint(ct, **params)),
    batch=_constraint_batch,
    lower=lambda ctx, x, *, layout: (
        x
    ),  # on one CPU nothing depends on the layout of an intermediate value
    cost=FREE,
    elements="kept",
)


def _tie_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    return lax.tie(*primals), tangents[1]


def _tie_batch(axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]) -> OutAndDim:
    """The batch rule: the result is batched where the second operand is, which it equals."""
    return lax.tie(*vals), dims[1]


define(
    lax.tie,
    abstract_eval=lambda first, second: second,
    impl=lambda xp, first, second: second,
    jvp=_tie_jvp,
    transpose=lambda ct, first, second: [None, ct if is_linear(second) else None],
    batch=_tie_batch,
    lower=lambda ctx, first, second: second,
    cost=FREE,
)


def _metadata_transpose(ct: Value, x: Value, *, xla_metadata_kvs: ParamValue) -> list[Value]:
    """The transpose rule: as in JAX, operations on cotangents get no attributes."""
    return [ct if is_linear(x) else None]


define(
    lax.xla_metadata_value,
    abstract_eval=lambda x, *, xla_metadata_kvs: x,
    impl=lambda xp, x, *, xla_metadata_kvs: x,
    jvp=linear,
    transpose=_metadata_transpose,
    batch=elementwise_batch,
    lower=lambda ctx, x, *, xla_metadata_kvs: x,  # no attribute changes a value
    cost=FREE,
    elements="kept",
    earlier=lambda x, **_: lambda v: v,
)

# -- empty -----------------------------------------------------------------------------------------


def _element_type(primitive: str, dtype: DType) -> Aval:
    """Return the element type that a param names."""
    found = dtype_of(dtype)
    if found is None or found.kind in "0?":
        ill_typed(f"{primitive} dtype {dtype} is not an element type of arrays", "param-value")
    return found


def _empty_type(*, shape: Sequence[int], dtype: DType, out_sharding: ParamValue) -> Aval:
    found = _element_type("empty", dtype)
    if any(n < 0 for n in shape):
        ill_typed(f"empty shape {tuple(shape)} has a negative size", "negative-size")
    return ShapedArray(tuple(shape), found)


def _scalar_type(*, dtype: DType, memory_space: ParamValue) -> Aval:
    return ShapedArray((), _element_type("empty2", dtype))


def _zeros(xp: Namespace, aval: Aval) -> Value:
    held = aval.physical
    out = xp.zeros(held.shape, xp.dtype_of_aval(held.dtype))
    return xp.keys(out, aval.dtype) if aval.dtype.kind == "k" else out


def _zeros_lower(ctx: LoweringContext, **_params: ParamValue) -> HloValue:
    return ctx.constant(0, ctx.out_aval.physical)


for _op, _type in ((lax.empty, _empty_type), (lax.empty2, _scalar_type)):
    define(
        _op,
        abstract_eval=_type,
        impl=lambda xp, _type=_type, **params: _zeros(xp, _type(**params)),
        **LOCALLY_CONSTANT,
        batch=unsupported("it has no operands"),
        lower=_zeros_lower,
        cost=FREE,
        determined=undetermined,
        earlier=lambda _type=_type, **params: lambda: full(_type(**params), 0),
    )
