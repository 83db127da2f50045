"""Collectives along named axes, and the operations that map a function over the devices of a mesh.

A collective acts on the values that all members of a named axis hold. `axis_name` and `axes` take a name or a
tuple of names; members of several axes are counted in row-major order, the first name slowest.
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
    """The sum over the members of named axes, and over positional axes, which go away.

    axes: names, and numbers of positional axes.
    axis_index_groups: groups of members that are reduced separately, or None.
    """


@primitive(like=psum)
def pmax():
    """The largest value over the members of named axes, and over positional axes, which go away."""


@primitive(like=psum)
def pmin():
    """The smallest value over the members of named axes, and over positional axes, which go away."""


@primitive
def psum_invariant(operand, *, axes: AxisNames = param(acts_along=True)):
    """The sum over the members of named axes, of a type that does not vary along them.

    axes: names, along which operand varies.
    """


@primitive
def pvary(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, with a type that varies along further axes.

    axes: names, along which operand does not vary.
    """


@primitive
def ppermute(operand, *, axis_name: Names = param(acts_along=True), perm: Pairs):
    """The value of the member that sends to this one; zeros where none does.

    axis_name: the axis.
    perm: pairs (source, destination).
    """


@primitive
def pbroadcast(operand, *, axis_name: Names = param(acts_along=True), source: int):
    """The value of one member.

    axis_name: the axis.
    source: the index of the member.
    """


@primitive
def pbroadcast_dynamic(operand, source, *, axis_name: Names = param(acts_along=True)):
    """The value of the member whose index is source, i32[].

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
    """The sum over the members of named axes of `dot_general` of their operands; JAX had it until 0.4.30.

    axis_name: the axes.
    pos_contract: axes of lhs that are summed over, and those of rhs.
    pos_batch: axes of lhs of the batch, and those of rhs.
    precision: as for `dot_general`.
    """


@primitive
def pgather(src, idx, *, axes: AxisNames = param(acts_along=True)):
    """out[i, ...] = src[idx[i], ...], where idx counts positions along all the axes together, the last one fastest.

    axes: names, along which a position is a member's value, and numbers of positional axes of src, which go away.
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
    """The values of all members, stacked, or one after the other when tiled.

    axis_name: the axis.
    axis_size: the number of members (of a group).
    all_gather_dimension: the dimension of the result to stack along, or to concatenate along.
    axis_index_groups: groups of members that exchange separately, or None.
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
    """The values of all members, with a type that does not vary along the axis.

    axis_name: the axis.
    axis_size: the number of members.
    all_gather_dimension: the dimension of the result to stack along, or to concatenate along.
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
    """Part k of member j's operand becomes part j of member k's result.

    axis_name: the axis.
    split_axis: the dimension of operand that is cut into a part for each member.
    concat_axis: the dimension of the result along which the parts stand.
    axis_index_groups: groups of members that exchange separately, or None.
    tiled: how the call was spelt; it makes no difference.
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
    """output, with rows of other members' operands written into it; member k gets each member's k-th slices.

    Slice j of a member is `operand[input_offsets[j]:][:send_sizes[j]]`. It goes to row `output_offsets[j]`
    of the receiver, whose `recv_sizes` says how many rows it gets from each.

    axis_name: the axis.
    axis_index_groups: groups of members that exchange separately, or None.
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
    """Part k of the sum over the members, for member k.

    axis_name: the axis.
    axis_size: the number of members (of a group).
    scatter_dimension: the dimension that is cut into parts; it goes away unless tiled.
    axis_index_groups: groups of members that are summed separately, or None.
    tiled: whether the parts keep the dimension.
    """


# Along axes over which a value is still to be summed (`{U:x}`) each device holds a part; a value that was summed (`{R:x}`) is
# the same on all of them, and its cotangents are parts.


@primitive
def vary_unreduced_cast_p(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, as parts of a sum over axes along which it varies.

    axes: names.
    """


@primitive
def reduced_vary_cast_p(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, which is the same along axes, as a value that varies along them.

    axes: names, along which operand was summed.
    """


@primitive
def preduced(operand, *, axes: AxisNames = param(acts_along=True)):
    """operand, which is the same along axes, as one whose cotangents are parts.

    axes: names.
    """


@primitive
def unreduced_psum(operand, *, axes: AxisNames = param(acts_along=True)):
    """The sum of the parts.

    axes: names, over which operand is still to be summed.
    """


@primitive(like=unreduced_psum)
def unreduced_pmax():
    """The largest of the parts, of a value that is their largest."""


@primitive(like=unreduced_psum)
def unreduced_pmin():
    """The smallest of the parts, of a value that is their smallest."""


@primitive
def unreduced_reduce_scatter(
    operand,
    *,
    axis_name: Names = param(acts_along=True),
    axis_size: Size,
    scatter_dimension: Axis = shown(0),
    tiled: bool = shown(False),
):
    """Part k of the sum of what the members hold, for member k.

    axis_name: the axis, over which operand is still to be summed.
    axis_size: the number of members.
    scatter_dimension: the dimension that is cut into parts; it goes away unless tiled.
    tiled: whether the parts keep the dimension.
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
    """The values of all members, with a type that is the same along the axis, and whose cotangents are parts.

    axis_name: the axis.
    axis_size: the number of members.
    all_gather_dimension: the dimension of the result to stack along, or to concatenate along.
    tiled: whether to concatenate instead of stacking.
    """


@primitive
def psend(operand, *, axis_name: Names = param(acts_along=True), perm: Pairs):
    """Starts to send operand to another member: a token, which the `precv` there takes.

    axis_name: the axis.
    perm: pairs (source, destination).
    """


@primitive
def precv(token, *, out_shape: ValueType, axis_name: Names = param(acts_along=True), perm: Pairs):
    """What another member has sent.

    out_shape: its type.
    axis_name: the axis.
    perm: pairs (source, destination).
    """


@primitive
def axis_index(*, axis_name: Names = param(acts_along=True)):
    """The index of this member along a named axis, i32[].

    axis_name: the axis.
    """


def _placement_of_result(value: Any, out_avals: Sequence[Any]) -> Any:
    """The placement that the type of the result has, where the text does not say it."""
    return placement_of(out_avals[0]) if value is None and len(out_avals) == 1 else value


@primitive
def reshard(
    operand,
    *,
    dst_sharding: Sharding | None = param(None, recover=_placement_of_result),
    concrete_mesh: Mesh | None = None,
):
    """operand, laid out over devices in another way.

    dst_sharding: the layout, or None where only the type tells it.
    concrete_mesh: the devices, or None.
    """


def _mesh_axes(params: dict[str, Any]) -> AxisEnv:
    """The scope inside of shard_map."""
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
    """A shard of each operand, which varies along the axes that the operand is split over."""
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
    """jaxpr applied to the shards of the operands, on each device of a mesh.

    jaxpr: (shards of the operands) -> (shards of the results); collectives in it act along the mesh axes.
    mesh: names and sizes of the axes of the grid of devices.
    in_specs: for each operand the axes that each of its dimensions is split over.
    out_specs: likewise for the results; what they leave out, the results do not depend on.
    newly_manual_axes: the axes that jaxpr is mapped over.
    check_vma: whether types in jaxpr say along which axes values vary.
    """


def _mapped_axis(params: dict[str, Any]) -> AxisEnv:
    """The scope inside of xla_pmap."""
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
    """call_jaxpr applied on `axis_size` devices, each with one slice of the operands.

    call_jaxpr: (slices of the operands) -> (slices of the results).
    axis_name: what collectives in it call the axis.
    axis_size: the number of devices.
    in_axes: for each operand the axis that is mapped over, or None.
    out_axes: for each result where the new axis goes, or None.
    name: the function's name.
    backend: JAX's bookkeeping.
    devices: JAX's bookkeeping.
    donated_invars: JAX's bookkeeping.
    global_axis_size: JAX's bookkeeping.
    is_explicit_global_axis_size: JAX's bookkeeping.
    global_arg_shapes: JAX's bookkeeping.
    """


def _named_axes(params: dict[str, Any]) -> AxisEnv:
    """The scope inside of xmap."""
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
    """call_jaxpr applied along named axes, to one slice of the operands for each point of their grid.

    call_jaxpr: (slices of the operands) -> (slices of the results).
    global_axis_sizes: the size of each axis, by name.
    in_axes: for each operand which of its axes has which name.
    out_axes: for each result where the axes with names go.
    name: the function's name.
    axis_resources: JAX's bookkeeping: which axes of a mesh share the work.
    backend: JAX's bookkeeping.
    donated_invars: JAX's bookkeeping.
    resource_env: JAX's bookkeeping.
    spmd_in_axes: JAX's bookkeeping.
    spmd_out_axes: JAX's bookkeeping.
    positional_semantics: JAX's bookkeeping.
    in_positional_semantics: JAX's bookkeeping.
    out_positional_semantics: JAX's bookkeeping.
    """


def names_of(axes: Any) -> tuple[str, ...]:
    """The names in a param `axes` or `axis_name`: one name, or names and numbers."""
    if isinstance(axes, (tuple, list)):
        return tuple(str(a) for a in axes if not isinstance(a, int))
    return (str(axes),)


def collective_names(eqn: JaxprEqn) -> tuple[str, ...]:
    """The names that an equation acts along; () when it is no collective."""
    param = eqn.primitive.acts_along
    return names_of(eqn.params[param]) if param else ()


def inner_axes(eqn: JaxprEqn) -> AxisEnv | None:
    """The names in scope inside the jaxpr of an equation that binds some; else None."""
    binds = eqn.primitive.binds
    return None if binds is None else binds(eqn.params)
