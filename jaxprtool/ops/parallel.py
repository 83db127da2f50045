"""Collectives along named axes, and the primitives that map a function over the devices of a mesh.

The members of a named axis are the devices, or the slices under `vmap` and `xmap`, that evaluate
the same program. x_k is the value of x at member k. The params `axis_name` and `axes` are a name or
a tuple of names; members of several axes are counted in row-major order: the index along the first
axis changes slowest.
"""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.axes import AxisEnv, current_axes
from jaxprtool.core.inner import Arguments, slice_of
from jaxprtool.core.kinds.enums import Precision
from jaxprtool.core.kinds.numbers import Axis, Size
from jaxprtool.core.kinds.objects import Bookkeeping, Flags, ValueType
from jaxprtool.core.kinds.placement import (
    AxesByName,
    AxisNames,
    AxisSet,
    AxisSizes,
    Groups,
    MappedAxes,
    Mesh,
    Names,
    Pairs,
    Sharding,
    Specs,
    numbers_of_names,
)
from jaxprtool.core.primitive import param, primitive, shown
from jaxprtool.ir.avals import OpaqueType, ShapedArray, Spec
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.placement import placement_of
from jaxprtool.ir.sharding import (
    known_mesh,
    mentioned,
    mesh_axes,
    shard_shape,
    specs_of,
    varying_axes,
    with_varying,
)

__all__ = [
    "all_gather",
    "all_gather_invariant",
    "all_gather_reduced",
    "all_to_all",
    "axis_index",
    "pbroadcast",
    "pbroadcast_dynamic",
    "pdot",
    "pgather",
    "pmax",
    "pmin",
    "ppermute",
    "precv",
    "preduced",
    "psend",
    "psum",
    "psum_invariant",
    "pvary",
    "ragged_all_to_all",
    "reduce_scatter",
    "reduced_vary_cast_p",
    "reshard",
    "shard_map",
    "unreduced_pmax",
    "unreduced_pmin",
    "unreduced_psum",
    "unreduced_reduce_scatter",
    "vary_unreduced_cast_p",
    "xla_pmap",
    "xmap",
]


@primitive
def psum(
    operand,
    *,
    axes: AxisNames = param(acts_along=True),
    axis_index_groups: Groups | None = shown(None),
):
    """sum of operand_k over the members k of named axes, and over positional axes, which are
    removed.

    axes: names of axes, and numbers of positional axes.
    axis_index_groups: groups of members that are reduced separately; None for one group of all.
    """


@primitive(like=psum)
def pmax():
    """max of operand_k over the members k of named axes, and over positional axes, which are
    removed.
    """


@primitive(like=psum)
def pmin():
    """min of operand_k over the members k of named axes, and over positional axes, which are
    removed.
    """


@primitive
def psum_invariant(operand, *, axes: AxisNames = param(acts_along=True)):
    """sum of operand_k over the members k of named axes; the type of the result does not vary along
    them.

    axes: names of axes along which the type of operand varies.
    """


@primitive
def pvary(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand; its type varies along further named axes.

    axes: names of axes along which the type of operand does not vary.
    """


@primitive
def ppermute(operand, *, axis_name: Names = param(acts_along=True), perm: Pairs):
    """operand_s at each member d for which (s, d) is in perm; zeros at the other members.

    axis_name: the axis.
    perm: pairs (source, destination) of indices of members.
    """


@primitive
def pbroadcast(operand, *, axis_name: Names = param(acts_along=True), source: int):
    """operand_k at all members, where k is the member `source`.

    axis_name: the axis.
    source: the index of the member.
    """


@primitive
def pbroadcast_dynamic(operand, source, *, axis_name: Names = param(acts_along=True)):
    """operand_k at all members, where k is the member whose index is source, i32[].

    axis_name: the axis.
    """


@primitive
def pdot(
    lhs,
    rhs,
    *,
    axis_name: AxisNames = param(acts_along=True),
    pos_contract: Groups,
    pos_batch: Groups,
    precision: Precision | None = None,
):
    """sum of dot_general(lhs_k, rhs_k) over the members k of named axes (JAX up to 0.4.30).

    axis_name: the axes.
    pos_contract: the contracting axes (of lhs, of rhs), as for `dot_general`.
    pos_batch: the batch axes (of lhs, of rhs), as for `dot_general`.
    precision: as for `dot_general`.
    """


@primitive
def pgather(src, idx, *, axes: AxisNames = param(acts_along=True)):
    """out[i, ...] = src[idx[i], ...], where idx counts the positions along all of `axes` in
    row-major order.

    Along a named axis, position k is the value of member k.

    axes: names of axes, and numbers of positional axes of src, which are removed.
    """


@primitive
def all_gather(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    axis_size: Size,
    all_gather_dimension: Axis = shown(0),
    axis_index_groups: Groups | None = shown(None),
    tiled: bool = shown(False),
):
    """stack(operand_0, operand_1, ...) at all members, or concatenate(...) if tiled.

    axis_name: the axis.
    axis_size: the number of members (of each group).
    all_gather_dimension: the axis of the result along which the values are stacked or concatenated.
    axis_index_groups: groups of members that exchange separately; None for one group of all.
    tiled: whether to concatenate instead of stacking.
    """


@primitive
def all_gather_invariant(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    axis_size: Size,
    all_gather_dimension: Axis = shown(0),
    tiled: bool = shown(False),
):
    """`all_gather`, with a result whose type does not vary along the axis.

    axis_name: the axis.
    axis_size: the number of members.
    all_gather_dimension: the axis of the result along which the values are stacked or concatenated.
    tiled: whether to concatenate instead of stacking.
    """


@primitive
def all_to_all(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    split_axis: Axis,
    concat_axis: Axis,
    axis_index_groups: Groups | None = shown(None),
    tiled: bool = shown(False),
):
    """Part j of the result at member k = part k of operand_j.

    axis_name: the axis.
    split_axis: the axis of operand that is cut into one part for each member.
    concat_axis: the axis of the result along which the parts are concatenated.
    axis_index_groups: groups of members that exchange separately; None for one group of all.
    tiled: what the user passed to `jax.lax.all_to_all`; no effect here.
    """


@primitive
def ragged_all_to_all(
    operand,
    output,
    input_offsets,
    send_sizes,
    output_offsets,
    recv_sizes,
    *,
    axis_name: Names = param(acts_along=True),
    axis_index_groups: Groups | None = shown(None),
):
    """output, with rows overwritten by the slices that the members send to this one.

    Slice j of a member is operand[input_offsets[j]:][:send_sizes[j]]; its rows replace those from
    row output_offsets[j] on in the output of its receiver. The slices of a member are for members
    0, 1, ... in this order, equally many for each. recv_sizes are the numbers of rows of the slices
    that arrive.

    axis_name: the axis.
    axis_index_groups: groups of members that exchange separately; None for one group of all.
    """


@primitive
def reduce_scatter(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    axis_size: Size,
    scatter_dimension: Axis = shown(0),
    axis_index_groups: Groups | None = shown(None),
    tiled: bool = shown(False),
):
    """Part k of (sum of operand_j over the members j), at member k.

    axis_name: the axis.
    axis_size: the number of members (of each group).
    scatter_dimension: the axis of the sum that is cut into parts; it is removed unless tiled.
    axis_index_groups: groups of members that are summed separately; None for one group of all.
    tiled: whether the result keeps the axis.
    """


# A value that is unreduced over an axis (`{U:x}` in its type) is the sum of the parts that the
# members hold. A value that is reduced over it (`{R:x}`) is the same at all members, and its
# cotangents are unreduced.


@primitive
def vary_unreduced_cast_p(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, read as the parts of a sum: it varies along the axes, the result is unreduced over
    them.

    axes: the names of the axes.
    """


@primitive
def reduced_vary_cast_p(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, which is reduced over the axes, as a value that varies along them.

    axes: the names of the axes.
    """


@primitive
def preduced(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, which is the same at all members, as a reduced value, whose cotangents are
    unreduced.

    axes: the names of the axes.
    """


@primitive
def unreduced_psum(operand, *, axes: AxisNames = param(acts_along=True)):
    """sum of operand_k over the members k, where operand is unreduced over the axes.

    axes: the names of the axes.
    """


@primitive(like=unreduced_psum)
def unreduced_pmax():
    """max of operand_k over the members k, where operand is a maximum still to be taken over the
    axes.
    """


@primitive(like=unreduced_psum)
def unreduced_pmin():
    """min of operand_k over the members k, where operand is a minimum still to be taken over the
    axes.
    """


@primitive
def unreduced_reduce_scatter(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    axis_size: Size,
    scatter_dimension: Axis = shown(0),
    tiled: bool = shown(False),
):
    """Part k of (sum of operand_j over the members j), at member k, where operand is unreduced.

    axis_name: the axis over which operand is unreduced.
    axis_size: the number of members.
    scatter_dimension: the axis of the sum that is cut into parts; it is removed unless tiled.
    tiled: whether the result keeps the axis.
    """


@primitive
def all_gather_reduced(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    axis_size: Size,
    all_gather_dimension: Axis = shown(0),
    tiled: bool = shown(False),
):
    """`all_gather`, with a reduced result, whose cotangents are unreduced.

    axis_name: the axis.
    axis_size: the number of members.
    all_gather_dimension: the axis of the result along which the values are stacked or concatenated.
    tiled: whether to concatenate instead of stacking.
    """


@primitive
def psend(operand, *, axis_name: Names = param(acts_along=True), perm: Pairs):
    """A token, after this member began to send operand to another one; `precv` takes the token.

    axis_name: the axis.
    perm: pairs (source, destination) of indices of members.
    """


@primitive
def precv(token, *, out_shape: ValueType, axis_name: Names = param(acts_along=True), perm: Pairs):
    """The value that another member sent to this one with `psend`.

    out_shape: the type of the value.
    axis_name: the axis.
    perm: pairs (source, destination) of indices of members.
    """


@primitive
def axis_index(*, axis_name: Names = param(acts_along=True)):
    """The index of this member along a named axis, i32[].

    axis_name: the axis.
    """


def _placement_of_result(value: Any, out_avals: Sequence[Any]) -> Any:
    """Return the param dst_sharding, or if the text lacks it, the sharding in the type of the
    result.
    """
    return placement_of(out_avals[0]) if value is None and len(out_avals) == 1 else value


@primitive
def reshard(
    operand,
    *,
    dst_sharding: Sharding | None = param(None, recover=_placement_of_result),
    concrete_mesh: Mesh | None = None,
):
    """operand, with another sharding over devices.

    dst_sharding: the sharding; None if only the type of the result says it.
    concrete_mesh: the mesh of actual devices, or None.
    """


def _mesh_axes(params: dict[str, Any]) -> AxisEnv:
    """Return the named axes in scope inside a shard_map: those outside, and those newly manual."""
    mesh = known_mesh(params["mesh"])
    names = mesh_axes(params["newly_manual_axes"], mesh)
    sizes = {n: mesh.sizes[n] for n in names}
    return current_axes().extended(sizes, bool(params["check_vma"]))


def _by_shards(
    avals: Sequence[Any],
    *,
    jaxpr: Any,
    mesh: Any,
    in_specs: Any,
    newly_manual_axes: Any,
    check_vma: Any,
    **_: Any,
) -> Arguments:
    """Return the jaxpr and the types of the shards of the operands.

    With check_vma, the type of a shard varies along the mesh axes over which its operand is split.
    """
    mesh = known_mesh(mesh)
    order = [*current_axes().sizes, *mesh_axes(newly_manual_axes, mesh)]

    def shard(aval: Any, spec: Spec) -> Any:
        if not isinstance(aval, ShapedArray):
            return OpaqueType("?")
        local = aval.update(shape=shard_shape(aval.shape, spec, mesh), spec=())
        along = [*varying_axes(aval), *sorted(mentioned(spec))]
        return with_varying(local, along, order) if check_vma else local

    return [(jaxpr, [shard(a, s) for a, s in zip(avals, specs_of(in_specs), strict=True)])]


@primitive(multiple_results=True, binds=_mesh_axes, takes=_by_shards)
def shard_map(
    *operands,
    jaxpr: ClosedJaxpr,
    mesh: Mesh,
    in_specs: Specs,
    out_specs: Specs,
    newly_manual_axes: AxisSet,
    check_vma: bool = shown(True),
):
    """jaxpr(*shards of the operands), evaluated on each device of a mesh; its results are shards,
    too.

    Collectives in jaxpr act along the axes of the mesh.

    jaxpr: (shards of the operands) -> (shards of the results).
    mesh: the names and sizes of the axes of the grid of devices.
    in_specs: for each operand, the mesh axes over which each of its axes is split.
    out_specs: the same for each result; along mesh axes that it lacks, all shards are equal.
    newly_manual_axes: the mesh axes over which jaxpr is mapped.
    check_vma: whether the types in jaxpr say along which mesh axes a value varies.
    """


def _mapped_axis(params: dict[str, Any]) -> AxisEnv:
    """Return the named axes in scope inside an xla_pmap: those outside, and its own."""
    return current_axes().extended({str(params["axis_name"]): params["axis_size"]}, False)


def _by_slices(
    avals: Sequence[Any], *, call_jaxpr: Any, in_axes: Sequence[int | None], **params: Any
) -> Arguments:
    del params
    pairs = zip(avals, in_axes, strict=True)
    return [(call_jaxpr, [a if d is None else slice_of(a, d) for a, d in pairs])]


@primitive(multiple_results=True, takes=_by_slices, binds=_mapped_axis)
def xla_pmap(
    *operands,
    call_jaxpr: ClosedJaxpr,
    axis_name: Names,
    axis_size: Size,
    in_axes: MappedAxes,
    out_axes: MappedAxes,
    name: str = shown("f"),
    backend: Bookkeeping = shown(None),
    devices: Bookkeeping = shown(None),
    donated_invars: Flags | None = shown(None),
    global_axis_size: Bookkeeping = shown(None),
    is_explicit_global_axis_size: bool = shown(False),
    global_arg_shapes: Bookkeeping = None,
):
    """call_jaxpr(*slices of the operands), evaluated on `axis_size` devices, on each for one slice.

    call_jaxpr: (slices of the operands) -> (slices of the results).
    axis_name: the name of the mapped axis for collectives in call_jaxpr.
    axis_size: the number of devices.
    in_axes: for each operand, the mapped axis, or None if each device gets the whole operand.
    out_axes: for each result, the position of the mapped axis, or None if all devices agree on it.
    name: the name of the function.
    backend: the platform, for JAX's own use.
    devices: the devices, for JAX's own use.
    donated_invars: for each operand, whether its buffer may be reused.
    global_axis_size: the number of devices of all processes, for JAX's own use.
    is_explicit_global_axis_size: whether the user gave that number, for JAX's own use.
    global_arg_shapes: the shapes of the operands of all processes, for JAX's own use.
    """


def _named_axes(params: dict[str, Any]) -> AxisEnv:
    """Return the named axes in scope inside an xmap: those outside, and its own."""
    sizes = numbers_of_names(params["global_axis_sizes"]) or {}
    return current_axes().extended({str(k): n for k, n in sizes.items()}, False)


def _by_names(
    avals: Sequence[Any], *, call_jaxpr: Any, in_axes: Sequence[Any], **params: Any
) -> Arguments:
    del params
    slices = []
    for aval, axes in zip(avals, in_axes, strict=True):
        for d in sorted((numbers_of_names(axes) or {}).values(), reverse=True):
            aval = slice_of(aval, d)
        slices.append(aval)
    return [(call_jaxpr, slices)]


@primitive(multiple_results=True, takes=_by_names, binds=_named_axes)
def xmap(
    *operands,
    call_jaxpr: ClosedJaxpr,
    global_axis_sizes: AxisSizes,
    in_axes: AxesByName,
    out_axes: AxesByName,
    name: str = shown("f"),
    axis_resources: Bookkeeping = shown(None),
    backend: Bookkeeping = shown(None),
    donated_invars: Flags | None = shown(None),
    resource_env: Bookkeeping = shown(None),
    spmd_in_axes: Bookkeeping = shown(None),
    spmd_out_axes: Bookkeeping = shown(None),
    positional_semantics: Bookkeeping = None,
    in_positional_semantics: Bookkeeping = None,
    out_positional_semantics: Bookkeeping = None,
):
    """call_jaxpr(*slices of the operands), for each combination of indices along named axes.

    call_jaxpr: (slices of the operands) -> (slices of the results).
    global_axis_sizes: the size of each named axis.
    in_axes: for each operand, which of its axes has which name.
    out_axes: for each result, the position of each named axis.
    name: the name of the function.
    axis_resources: the mesh axes that share the work, for JAX's own use.
    backend: the platform, for JAX's own use.
    donated_invars: for each operand, whether its buffer may be reused.
    resource_env: the mesh, for JAX's own use.
    spmd_in_axes: how operands are split over the mesh, for JAX's own use.
    spmd_out_axes: how results are split over the mesh, for JAX's own use.
    positional_semantics: whether sizes are local or global, for JAX's own use.
    in_positional_semantics: the same for each operand, for JAX's own use.
    out_positional_semantics: the same for each result, for JAX's own use.
    """


def names_of(axes: Any) -> tuple[str, ...]:
    """Return the names in the value of a param `axes` or `axis_name`, without numbers of positional
    axes.
    """
    if isinstance(axes, (tuple, list)):
        return tuple(str(a) for a in axes if not isinstance(a, int))
    return (str(axes),)


def collective_names(eqn: JaxprEqn) -> tuple[str, ...]:
    """Return the named axes along which an equation acts; () for one that is not a collective."""
    param = eqn.primitive.acts_along
    return names_of(eqn.params[param]) if param else ()


def inner_axes(eqn: JaxprEqn) -> AxisEnv | None:
    """Return the named axes in scope inside the jaxpr of an equation; None if its primitive binds
    none.
    """
    binds = eqn.primitive.binds
    return None if binds is None else binds(eqn.params)
