"""The Python function `shard_map`, and the partition specs that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import bound_axes
from jaxprtool.core.trace import get_aval
from jaxprtool.core.tree import tree_flatten, tree_paths, tree_prefix_leaves, tree_unflatten
from jaxprtool.interpreters.stage import argument_names, flatten_fun, hoist_consts, stage
from jaxprtool.ir.avals import Spec
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.sharding import (
    Mesh,
    PartitionSpec,
    mentioned,
    partition_specs,
    shard_shape,
)

__all__ = ["PartitionSpec", "shard_map"]


def shard_map(
    f: Callable[..., Value], mesh: Mapping[str, int], in_specs: Any, out_specs: Any
) -> Callable[..., Value]:
    """Return a function that applies f to the shards of its arguments, on each device of a mesh.

    Args:
      f: a function of pytrees of shards, in which collectives (`lax.psum`, ...) act along the mesh's axes.
      mesh: the mesh: axis name -> size.
      in_specs: the `PartitionSpec`s of the arguments: a tuple with one for each, one for all, or a
        pytree that is a prefix of the arguments.
      out_specs: likewise for the results; along axes that they leave out the results have to be equal.

    Returns:
      A function of whole arrays. Called on values, it is evaluated on NumPy; compiled by `jit` or
      `compile`, each shard is computed on its own device.

    Raises:
      UsageError: specs that do not fit the structure of the values, or the sizes of their dimensions.
    """
    grid = Mesh(mesh)

    def mapped(*args: Value) -> Value:
        leaves, in_tree = tree_flatten(args)
        ins = _specs_of(in_specs, args, "in_specs", grid)
        avals = [
            _shard_type(get_aval(x), s, path, grid)
            for x, s, path in zip(leaves, ins, tree_paths(args), strict=True)
        ]
        flat, out_tree = flatten_fun(f, in_tree)
        with bound_axes(grid.sizes):
            closed = stage(flat, avals, argument_names(f, args))
            body = hoist_consts(closed)
        results = tree_unflatten(out_tree[0], closed.jaxpr.outs)
        outs = lax.shard_map(
            *closed.const_operands,
            *leaves,
            jaxpr=body,
            mesh=grid,
            in_specs=partition_specs([*[()] * len(closed.consts), *ins]),
            out_specs=partition_specs(_specs_of(out_specs, results, "out_specs", grid)),
            newly_manual_axes=frozenset(grid.sizes),
            check_vma=False,
        )
        return tree_unflatten(out_tree[0], outs)

    return mapped


def _specs_of(specs: Any, tree: Any, what: str, mesh: Mesh) -> list[Spec]:
    try:
        found = tree_prefix_leaves(specs, tree, lambda x: isinstance(x, PartitionSpec))
    except ValueError:
        fail(UsageError, f"{what} is no prefix of the structure of the values", "specs-tree")
    for s in found:
        if not isinstance(s, PartitionSpec):
            fail(UsageError, f"{what}: {s!r} is no PartitionSpec", "specs-tree")
        for axis in sorted(mentioned(s.spec) - mesh.sizes.keys()):
            fail(UsageError, f"{what}: {s} mentions {axis}, no axis of {mesh}", "unbound-axis")
    return [s.spec for s in found]


def _shard_type(aval: Aval, spec: Spec, path: str, mesh: Mesh) -> Aval:
    try:
        return aval.strong.update(shape=shard_shape(aval.shape, spec, mesh))
    except ValueError as e:
        fail(UsageError, f"in_specs cannot split {aval} (value {path}): {e}", "spec")
