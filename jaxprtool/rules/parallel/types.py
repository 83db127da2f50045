"""Type rules of collectives: they check names and groups, and say along which axes results vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool.core.axes import current_axes
from jaxprtool.core.rule_table import Maker
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes, with_varying
from jaxprtool.makers.axes import check_axes, removed
from jaxprtool.ops.parallel import names_of

__all__ = [
    "all_gather_type",
    "all_to_all_type",
    "axis_index_type",
    "check_bound",
    "check_ends",
    "group_size",
    "positions_of",
    "pvary_type",
    "reduce_scatter_type",
    "reduction_type",
    "same_type",
]

Groups = Sequence[Sequence[int]] | None


def positions_of(axes: Sequence[Value]) -> tuple[int, ...]:
    """Return the numbers of positional axes among `axes`."""
    return tuple(int(a) for a in axes if isinstance(a, int))


def check_bound(name: str, names: Sequence[str]) -> None:
    """Raise a type error for names that are not in scope."""
    sizes = current_axes().sizes
    for n in names:
        if n not in sizes:
            known = ", ".join(sizes) or "none"
            ill_typed(
                f"{name}: no axis is called {n} here (in scope: {known})",
                "unbound-axis",
                help="axes are bound by shard_map, xla_pmap and vmap with axis_name",
            )


def group_size(name: str, names: Sequence[str], groups: Groups) -> int:
    """Return the number of members that exchange with one another."""
    check_bound(name, names)
    total = math.prod(current_axes().sizes[n] for n in names)
    if groups is None:
        return total
    members = sorted(i for g in groups for i in g)
    if members != list(range(total)):
        ill_typed(
            f"{name}: axis_index_groups={groups} does not contain each of 0 to {total - 1} once",
            "axis-groups",
        )
    sizes = {len(g) for g in groups}
    if len(sizes) > 1:
        ill_typed(f"{name}: axis_index_groups={groups} differ in size", "axis-groups")
    return sizes.pop()


def _with(aval: Aval, names: Sequence[str]) -> Value:
    return with_varying(aval, names, current_axes().sizes)


def _check_varies(name: str, aval: Aval, names: Sequence[str]) -> None:
    """Raise a type error for an operand that does not vary along an axis that types track."""
    tracked = current_axes().varying
    for n in names:
        if n in tracked and n not in varying_axes(aval):
            ill_typed(
                f"{name} along {n} of {aval}, which does not vary along it",
                "not-varying",
                help="pvary makes it vary",
            )


@Maker
def reduction_type(op: Any) -> Aval:
    """Return the type rule of psum, pmax, pmin or psum_invariant."""
    name = op.primitive.name

    def rule(x: Aval, *, axes: Sequence[int], axis_index_groups: Groups = None) -> Aval:
        names, positions = names_of(axes), positions_of(axes)
        check_axes(name, "axes: axis", positions, x.ndim, x)
        if positions and name == "psum_invariant":
            ill_typed(f"psum_invariant is for named axes only: axes={axes}", "param-value")
        if axis_index_groups is not None and positions:
            ill_typed(
                f"{name}: axis_index_groups={axis_index_groups} and positional axes exclude each other",
                "axis-groups",
            )
        group_size(name, names, axis_index_groups)
        if name == "psum_invariant":
            _check_varies(name, x, names)
        if x.dtype.kind not in ("biufc" if name in ("pmax", "pmin") else "iufc"):
            ill_typed(f"{name} is for numbers, and its operand is {x}", "operand-types")
        shape = removed(x.shape, positions) if positions else x.shape
        left = [n for n in varying_axes(x) if n not in names]
        return _with(x.update(shape=shape, weak_type=False), left)

    return rule


def pvary_type(x: Aval, *, axes: Sequence[int]) -> Aval:
    """The type rule of pvary: the type of x, varying along further axes."""
    names = names_of(axes)
    check_bound("pvary", names)
    already = [n for n in names if n in varying_axes(x)]
    if already:
        ill_typed(f"pvary along {', '.join(already)} of {x}, which varies along it", "varying")
    tracked = [n for n in names if n in current_axes().varying]
    return _with(x, [*varying_axes(x), *tracked])


@Maker
def same_type(op: Any) -> Aval:
    """Return the type rule of ppermute or pbroadcast: the type of the operand."""
    name = op.primitive.name

    def rule(x: Aval, *, axis_name: Any, perm: Any = (), source: int = 0) -> Aval:
        names = names_of(axis_name)
        size = group_size(name, names, None)
        _check_varies(name, x, names)
        if not 0 <= source < size:
            ill_typed(f"{name}: source={source} is no member of {size}", "param-value")
        check_ends(name, perm, size)
        return x

    return rule


def check_ends(name: str, perm: Sequence[Sequence[int]], size: int) -> None:
    """Raise a type error for a permutation in which a member sends twice or receives twice, or is
    no member of the axis.
    """
    for ends, what in zip(zip(*perm, strict=True), ("source", "destination"), strict=False):
        if len(set(ends)) != len(ends) or not all(0 <= i < size for i in ends):
            ill_typed(
                f"{name}: each {what} in perm={perm} has to occur once and be below {size}",
                "param-value",
            )


def _check_size(name: str, names: Sequence[str], groups: Groups, given: int) -> None:
    size = group_size(name, names, groups)
    if size != given:
        ill_typed(f"{name}: axis_size={given}, and the axis has {size} members", "axis-size")


def _check_dimension(name: str, param: str, dimension: int, ndim: int, x: Value) -> None:
    if not 0 <= dimension < ndim:
        ill_typed(f"{name} {param} {dimension} is out of range for {x}", "axis-range")


@Maker
def all_gather_type(op: Any) -> Aval:
    """Return the type rule of all_gather or all_gather_invariant."""
    name = op.primitive.name

    def rule(
        x: Aval,
        *,
        axis_name: ParamValue,
        axis_size: int,
        all_gather_dimension: int,
        tiled: bool,
        axis_index_groups: Groups = None,
    ) -> Aval:
        names, d = names_of(axis_name), all_gather_dimension
        _check_size(name, names, axis_index_groups, axis_size)
        _check_varies(name, x, names)
        _check_dimension(name, "all_gather_dimension", d, x.ndim + (not tiled), x)
        shape = list(x.shape)
        if tiled:
            shape[d] *= axis_size
        else:
            shape.insert(d, axis_size)
        out = x.update(shape=tuple(shape), spec=())
        if name == "all_gather":
            return out
        return _with(out, [n for n in varying_axes(x) if n not in names])

    return rule


def all_to_all_type(
    x: Aval,
    *,
    axis_name: ParamValue,
    split_axis: int,
    concat_axis: int,
    axis_index_groups: Groups,
    **_: ParamValue,
) -> Aval:
    """The type rule of all_to_all: one dimension is divided by the number of members, and one is multiplied by it."""
    names = names_of(axis_name)
    size = group_size("all_to_all", names, axis_index_groups)
    _check_varies("all_to_all", x, names)
    for param, d in (("split_axis", split_axis), ("concat_axis", concat_axis)):
        _check_dimension("all_to_all", param, d, x.ndim, x)
    shape = list(x.shape)
    if shape[split_axis] % size:
        ill_typed(
            f"all_to_all: dimension {split_axis} of {x} cannot be cut into {size} parts",
            "axis-size",
        )
    shape[split_axis] //= size
    shape[concat_axis] *= size
    return x.update(shape=tuple(shape), weak_type=False, spec=())


def reduce_scatter_type(
    x: Aval,
    *,
    axis_name: ParamValue,
    axis_size: int,
    scatter_dimension: int,
    axis_index_groups: Groups,
    tiled: bool,
) -> Aval:
    """The type rule of reduce_scatter: one dimension is divided by the number of members, or removed."""
    names, d = names_of(axis_name), scatter_dimension
    _check_size("reduce_scatter", names, axis_index_groups, axis_size)
    _check_varies("reduce_scatter", x, names)
    _check_dimension("reduce_scatter", "scatter_dimension", d, x.ndim, x)
    n = x.shape[d]
    if n % axis_size if tiled else n != axis_size:
        ill_typed(
            f"reduce_scatter: dimension {d} of {x} cannot be cut into {axis_size} parts",
            "axis-size",
        )
    part = (n // axis_size,) if tiled else ()
    return x.update(shape=(*x.shape[:d], *part, *x.shape[d + 1 :]), spec=())


def axis_index_type(*, axis_name: ParamValue) -> Aval:
    """The type rule of axis_index: i32[], varying along the axis."""
    names = names_of(axis_name)
    check_bound("axis_index", names)
    tracked = [n for n in names if n in current_axes().varying]
    return _with(ShapedArray((), INT32), tracked)
