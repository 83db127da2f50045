"""Convert kernels of Pallas between JAX, where a `GridMapping` holds the index maps, and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.live import LiveOpaque
from jaxprtool.backends.jax.primitives import jax_primitive
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.params import Record
from jaxprtool.rules.pallas.layout import Block, Layout, layout_of
from jaxprtool.rules.pallas.places import index_map_of

__all__ = [
    "grid_mapping_to_jax",
    "kernel_from_jax",
    "masked_to_jax",
    "memory_space",
    "plain_reference",
    "without_empty_hints",
]


def kernel_from_jax(params: Any, closed: Callable[[Any], ClosedJaxpr]) -> dict[str, Any]:
    """Return what the print of a `pallas_call` does not show: the index maps, and the grid axes that `vmap` added.

    Args:
      params: the params of JAX's equation.
      closed: converts a jaxpr of JAX's.
    """
    mapping = params["grid_mapping"]
    return {
        "index_maps": tuple(closed(b.index_map_jaxpr) for b in mapping.block_mappings),
        "vmapped_dims": tuple(mapping.vmapped_dims),
    }


class _Plain(NamedTuple):
    """An equation on a reference in the form that JAX uses outside of kernels, with flags for a mask."""

    primitive: Any
    invars: list[Any]
    outvars: list[Any]
    params: dict[str, Any]
    source_info: Any


_PLAIN = {"masked_load": "get", "masked_swap": "swap"}


def plain_reference(eqn: Any) -> Any:
    """Return an equation of JAX's; a masked read or write as one that has the mask beside the index."""
    name = _PLAIN.get(eqn.primitive.name)
    if name is None:
        return eqn
    ref, transforms, *rest = jax.tree.unflatten(eqn.params["args_tree"], eqn.invars)
    values = [rest.pop(0)] if name == "swap" else []
    flags = dict(zip(("mask", "other"), [x is not None for x in rest], strict=False))
    indices, tree = jax.tree.flatten(tuple(transforms))
    more = [x for x in rest if x is not None]
    params = {"tree": tree, "n_more": len(more), **flags}
    invars = [ref, *values, *indices, *more]
    return _Plain(jax_primitive(name), invars, eqn.outvars, params, eqn.source_info)


# -- to JAX ------------------------------------------------------------------------------------


def without_empty_hints(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a kernel with empty hints in the form of the installed JAX: `{}` to 0.9.0, then None."""
    nothing = None if since(0, 9, 1) else private.own_module("frozen_dict").FrozenDict({})
    found = dict(params)
    if str(params["compiler_params"]) in ("{}", "FrozenDict({})"):
        found["compiler_params"] = LiveOpaque("FrozenDict({})", nothing)
    return found


def memory_space(text: str) -> Any:
    """Return the memory space of a reference by its printed name: `vmem`, `any`, `MemorySpace.Host`; None for unknown ones."""
    kind, _, member = text.rpartition(".")
    # Only references outside of kernels have one of `jax.memory`.
    if kind in ("MemorySpace", "Space") and hasattr(jax, "memory"):
        return getattr(jax.memory.Space, member, None)
    for module in ("core", "mosaic.core"):
        try:
            spaces = private.own_module(f"pallas.{module}").MemorySpace
        except ImportError:  # what is for accelerators alone, on a machine without one
            continue
        for space in spaces:
            if str(space) == text:
                return space
    return None


def grid_mapping_to_jax(eqn: JaxprEqn, in_avals: Sequence[Any], closed: Callable[..., Any]) -> Any:
    """Return JAX's `GridMapping` of a kernel.

    Args:
      eqn: the equation.
      in_avals: the types of the kernel's references, as JAX's.
      closed: converts a jaxpr of ours.

    Raises:
      UsageError: the map of a block is not known.
    """
    layout = layout_of([x.aval.strong for x in eqn.inputs], eqn.params)
    core, mapping = private.own_module("pallas.core"), eqn.params["grid_mapping"]
    n_grid, first, n = len(layout.grid), layout.n_index, len(layout.blocks)
    id_type = private.array_type((), np.dtype(np.int32))
    map_avals = (*[id_type] * n_grid, *in_avals[:first])
    blocks = [
        core.BlockMapping(
            block_shape=_block_shape(core, mapping.block_mappings[k], block),
            transformed_block_aval=in_avals[first + k],
            index_map_jaxpr=closed(_map(k, block, layout, eqn)),
            index_map_out_tree=jax.tree.structure((0,) * len(block.dims)),
            array_aval=private.array_type(block.aval.shape, np_dtype(block.aval.dtype)),
            origin=f"operand {k}" if k < layout.n_in else f"result {k - layout.n_in}",
        )
        for k, block in enumerate(layout.blocks)
    ]
    return core.GridMapping(
        grid=tuple(core.dynamic_grid_dim if g is None else g for g in layout.grid),
        grid_names=None,
        block_mappings=tuple(blocks),
        index_map_tree=jax.tree.structure(((0,) * len(map_avals), {})),
        index_map_avals=map_avals,
        vmapped_dims=tuple(eqn.params["vmapped_dims"]),
        scratch_avals=tuple(in_avals[first + n :]),
        num_index_operands=first,
        num_inputs=layout.n_in,
        num_outputs=layout.n_out,
    )


def _map(k: int, block: Block, layout: Layout, eqn: JaxprEqn) -> ClosedJaxpr:
    """Return the index map of a block; for a whole array without one in the text, the map to its start."""
    found = index_map_of(k, block)
    if found is not None:
        return found
    ids = [Var(ShapedArray((), INT32)) for _ in layout.grid]
    binders = eqn.params["jaxpr"].jaxpr.in_binders[: layout.n_index]
    zeros = [Lit(0, ShapedArray((), INT32))] * len(block.dims)
    return ClosedJaxpr(Jaxpr([*ids, *[Var(v.aval) for v in binders]], [], zeros))


def _block_shape(core: Any, record: Record | None, block: Block) -> tuple[Any, ...]:
    """Return the dimensions of a block as JAX's; to 0.4.30 a text has no record for a block that is
    the whole array.
    """
    dims = block.aval.shape if record is None else record.block_shape
    return tuple(_dim(core, d) for d in dims)


def _dim(core: Any, d: Any) -> Any:
    """A dimension of a block as JAX's."""
    if isinstance(d, Record):
        fields = {k: tuple(x) if isinstance(x, tuple) else x for k, x in d.fields.items()}
        return getattr(core, d.name)(**fields)
    return core.squeezed if d is None else core.Blocked(d)


def masked_to_jax(
    eqn: JaxprEqn, inputs: Sequence[Any], tree: Any, extra: Sequence[Any]
) -> tuple[list[Any], Any, Any]:
    """Return the operands, the name of the primitive and the params of JAX's masked read or write.

    Args:
      eqn: our equation.
      inputs: the operands up to the index, in JAX's form.
      tree: the structure of the index.
      extra: the operands after the index: the mask, and the value where it is False.

    Raises:
      UnsupportedError: JAX has no such equation.
    """
    if eqn.primitive.name == "addupdate":
        message = "addupdate: JAX has none with a mask"
        fail(UnsupportedError, message, "jax-refuses", span=eqn.span)
    ref, *rest = inputs
    value = [rest.pop(0)] if eqn.primitive.name == "swap" else []
    mask, other = (*extra, None)[:2]
    transforms = jax.tree.unflatten(tree, rest)
    parts = (ref, transforms, *value, mask, *([] if value else [other]))
    leaves, args_tree = jax.tree.flatten(parts)
    params: dict[str, Any] = {"args_tree": args_tree, "eviction_policy": None}
    if not value:
        params |= {"cache_modifier": None, "is_volatile": False}
    return leaves, "masked_swap" if value else "masked_load", params
