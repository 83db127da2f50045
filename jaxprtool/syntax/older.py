"""Spellings of earlier JAX releases for calls and for programs on meshes, as those of the current one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.ir.sharding import axis_set, read_axis_set, read_mesh, specs_text

__all__ = ["OLDER", "from_older"]

Params = dict[str, Any]


def _shard_map(params: Params) -> Params:
    """`manual_axes` (0.6.1 to 0.10.1); `in_names out_names check_rep auto rewrite` (to 0.6.0)."""
    new = dict(params)
    if "manual_axes" in new:
        new["newly_manual_axes"] = new.pop("manual_axes")
    for names, specs in (("in_names", "in_specs"), ("out_names", "out_specs")):
        if names in new:
            new[specs] = specs_text(map(_spec, ast.literal_eval(str(new.pop(names)))))
    if "check_rep" in new:  # types do not say what varies, as they do now when this is checked
        new["check_vma"] = False
        mesh = read_mesh(new["mesh"])
        auto = read_axis_set(new.pop("auto", "frozenset()"), mesh)
        new["newly_manual_axes"] = axis_set([n for n in mesh.sizes if n not in auto])
        del new["check_rep"]
        new.pop("rewrite", None)
    return new


def _spec(names: dict[int, tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """`{0: ('i',)}`, the axes by dimension, as a partition spec."""
    return tuple(tuple(names.get(i, ())) for i in range(max(names, default=-1) + 1))


def _without_groups(params: Params) -> Params:
    if params.get("axis_index_groups", ...) is None:
        return {k: v for k, v in params.items() if k != "axis_index_groups"}
    return params


_FORGOTTEN = frozenset(
    {"backend", "device", "donated_invars", "inline", "keep_unused"}
    | {"in_positional_semantics", "out_positional_semantics", "resource_env"}
)


def _jit(params: Params) -> Params:
    """`xla_call[call_jaxpr=]` (to 0.4.3) and `pjit` (to 0.6.2)."""
    new = {k: v for k, v in params.items() if k not in _FORGOTTEN}
    if "call_jaxpr" in new:
        new["jaxpr"] = new.pop("call_jaxpr")
    known = "jaxpr" in new and new.keys() <= find_primitive("jit").params.keys()
    return new if known else params


def _no_axes(params: Params) -> Params:
    """Where types do not say what varies, nothing has to be made to vary."""
    return {"axes": ()} if "axes" in params else params


# primitive -> its name now, and what becomes of its params
OLDER: dict[str, tuple[str, Callable[[Params], Params]]] = {
    "mesh_cast": ("reshard", dict),
    "pjit": ("jit", _jit),
    "xla_call": ("jit", _jit),
    "pbroadcast": ("pvary", _no_axes),
    "psum2": ("psum", dict),
    "psum_invariant": ("psum_invariant", _without_groups),
    "pvary": ("pvary", _without_groups),
    "shard_map": ("shard_map", _shard_map),
}


def from_older(primitive: Primitive, params: Params) -> tuple[Primitive, Params]:
    """An equation as the current release spells it; one that cannot be read stays as it is."""
    name, convert = OLDER[primitive.name]
    try:
        new = convert(params)
    except (ValueError, SyntaxError, AttributeError, TypeError, KeyError):
        return primitive, params
    same = new is params or (name == primitive.name and new == params)
    return (primitive, params) if same else (find_primitive(name), new)
