"""Spellings of earlier JAX releases, as those of the current one: names of primitives and of params."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.kinds.containers import Anything
from jaxprtool.core.primitive import PRIMITIVES, find_primitive
from jaxprtool.ir.jaxpr import Param, Primitive
from jaxprtool.ir.params import ElementClass, ParamValue, Word
from jaxprtool.ir.sharding import known_mesh, mesh_axes, partition_specs
from jaxprtool.syntax.patterns import pattern

__all__ = ["OLDER", "declared_params", "from_older"]

Params = dict[str, Any]
Inputs = Sequence[Any]
_DROPPED = Anything("")
_MOST_DIMENSIONS = 64  # of an array, in JAX and here


class Older(NamedTuple):
    """How an equation of an earlier release is written now.

    Attributes:
      name: of the primitive; "" where it has not changed.
      renamed: params that have another name now.
      dropped: params that say nothing about what is computed, and are no more.
      given: values of params that there were not yet.
      convert: what else is done to the params, from them and the operands; raises ValueError and its like for what it
        cannot read, and the equation stays as it is.
      operands: what becomes of the operands.
    """

    name: str = ""
    renamed: dict[str, str] = {}  # noqa: RUF012 (never changed)
    dropped: tuple[str, ...] = ()
    given: dict[str, Any] = {}  # noqa: RUF012
    convert: Callable[[Params, Inputs], Params] | None = None
    operands: Callable[[Inputs], list[Any]] = list


def _shard_map(params: Params, inputs: Inputs) -> Params:
    """`manual_axes` (0.6.1 to 0.10.1); `in_names out_names check_rep auto rewrite` (to 0.6.0)."""
    del inputs
    new = dict(params)
    for names, specs in (("in_names", "in_specs"), ("out_names", "out_specs")):
        if names in new:
            new[specs] = partition_specs(map(_spec, new.pop(names)))
    if "check_rep" in new:  # types do not say what varies, as they do now when this is checked
        new["check_vma"] = False
        mesh = known_mesh(new["mesh"])
        auto = mesh_axes(new.pop("auto", frozenset()), mesh)
        new["newly_manual_axes"] = frozenset([n for n in mesh.sizes if n not in auto])
        del new["check_rep"]
    return new


def _spec(names: dict[int, tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """`{0: ('i',)}`, the axes by dimension, as a partition spec."""
    last = max(names, default=-1)
    if last >= _MOST_DIMENSIONS:
        raise ValueError(f"no array has a dimension {last}")
    return tuple(tuple(names.get(i, ())) for i in range(last + 1))


def _without_groups(params: Params, inputs: Inputs) -> Params:
    del inputs
    if params.get("axis_index_groups", ...) is None:
        return {k: v for k, v in params.items() if k != "axis_index_groups"}
    return params


def _no_axes(params: Params, inputs: Inputs) -> Params:
    """Where types do not say what varies, nothing has to be made to vary."""
    del inputs
    return {"axes": ()} if "axes" in params else params


_ROUNDING = {"AWAY_FROM_ZERO": 0, "TO_NEAREST_EVEN": 1}


def _round(params: Params, inputs: Inputs) -> Params:
    """The enum by name (before Python 3.11); none, away from zero, to 0.2.5."""
    del inputs
    method = params.get("rounding_method", 0)
    return {"rounding_method": _ROUNDING[method.member] if isinstance(method, Word) else method}


def _top_k(params: Params, inputs: Inputs) -> Params:
    """The last axis, to 0.8.0."""
    if "axis" in params:
        return params
    return {**params, "axis": len(inputs[0].aval.shape) - 1}


def _random_split(params: Params, inputs: Inputs) -> Params:
    """`count=2`, to 0.4.13."""
    del inputs
    return {"shape": (params["count"],)} if "count" in params else params


def _pure_callback(params: Params, inputs: Inputs) -> Params:
    """`vectorized`, to 0.5.3."""
    del inputs
    if "vectorized" not in params:
        return params
    new = {k: v for k, v in params.items() if k != "vectorized"}
    new.setdefault("vmap_method", Word("expand_dims") if params["vectorized"] is True else None)
    return new


def _device_put(params: Params, inputs: Inputs) -> Params:
    """`device` and `src`, one for all operands, to 0.4.29; lists to 0.6.1."""
    new: dict[str, ParamValue] = dict(params)
    for one, each in (("device", "devices"), ("src", "srcs")):
        if one in new:
            new[each] = (new.pop(one),) * len(inputs)
    new.setdefault("devices", (None,) * len(inputs))
    new.setdefault("srcs", (None,) * len(inputs))
    return {k: tuple(v) if isinstance(v, list) else v for k, v in new.items()}


def _platform_index(params: Params, inputs: Inputs) -> Params:
    """`has_default`, to 0.6.0: now a last entry None."""
    del inputs
    if "has_default" not in params:
        return params
    platforms = tuple(params["platforms"])
    return {"platforms": (*platforms, None) if params["has_default"] is True else platforms}


def _linear_call(params: Params, inputs: Inputs) -> Params:
    """Releases to 0.5.3 hold the transpose as a jaxpr; one with constants takes operands that later releases do not have."""
    del inputs
    if "num_transpose_consts" not in params or params["num_transpose_consts"] != 0:
        return params
    new = dict(params, transpose_jaxpr=params["transpose"])
    del new["num_transpose_consts"], new["transpose"]
    return new


def _bit_generator(params: Params, inputs: Inputs) -> Params:
    """The element type as a class of NumPy's."""
    del inputs
    found = params.get("dtype")
    return {**params, "dtype": found.dtype} if isinstance(found, ElementClass) else params


_FUNCTION = pattern(r"<function (?:[\w<>]+\.)*([\w<>]+) at 0x\w+>")
_CORE = pattern(r"\nCore: (\w+)\s*\Z")


def _custom_vjp(params: Params, inputs: Inputs) -> Params:
    """The backward rule as a function, to 0.6.0: its name is kept."""
    del inputs
    new = dict(params)
    text = str(new.pop("bwd", ""))
    m = _FUNCTION.fullmatch(text) or _CORE.search(text)
    return {**new, "bwd": m[1]} if m else new


def _select(inputs: Inputs) -> list[Any]:
    """`select c t f`, to 0.2.28; select_n takes the operand for False first."""
    which, *cases = inputs
    return [which, *reversed(cases)]


_JIT = Older(
    "jit",
    renamed={"call_jaxpr": "jaxpr"},
    dropped=(
        "backend", "device", "donated_invars", "inline", "keep_unused", "resource_env",
        "in_axis_resources", "out_axis_resources", "in_positional_semantics", "out_positional_semantics",
    ),
)  # fmt: skip
_NEW_REF = Older("new_ref")
_THUNKS = ("jvp_jaxpr_thunk", "jvp_jaxpr_fun")

# By primitive: releases that spelled it so are named above where that is known.
OLDER: dict[str, Older] = {
    "array_ref": _NEW_REF,
    "cond": Older(dropped=("linear",)),  # to 0.4.30
    "conv_general_dilated": Older(dropped=("lhs_shape", "rhs_shape")),  # to 0.4.1
    "custom_jvp_call": Older(dropped=_THUNKS),  # to 0.6.0
    "custom_jvp_call_jaxpr": Older(  # to 0.3.16
        "custom_jvp_call", renamed={"fun_jaxpr": "call_jaxpr"}, dropped=_THUNKS
    ),
    "custom_vjp_call_jaxpr": Older(  # to 0.6.0
        "custom_vjp_call",
        renamed={"fun_jaxpr": "call_jaxpr"},
        dropped=("fwd_jaxpr_thunk", "out_trees"),
        convert=_custom_vjp,
    ),
    "device_put": Older(convert=_device_put),
    "eig": Older(dropped=("use_magma",)),  # to 0.7.2
    "linear_call": Older(convert=_linear_call),
    "mesh_cast": Older("reshard"),  # 0.5.3 to 0.7.1
    "mutable_array": _NEW_REF,
    "pbroadcast": Older("pvary", convert=_no_axes),
    "pjit": _JIT,  # to 0.6.2
    "platform_index": Older(convert=_platform_index),
    "psum2": Older("psum"),
    "psum_invariant": Older(convert=_without_groups),
    "pure_callback": Older(convert=_pure_callback),
    "pvary": Older(convert=_without_groups),
    "random_split": Older(convert=_random_split),
    "reduce": Older(dropped=("consts",)),  # to 0.4.23
    "remat_call": Older(  # to 0.3.15
        "remat2", renamed={"call_jaxpr": "jaxpr"}, dropped=("concrete", "name")
    ),
    "rng_bit_generator": Older(convert=_bit_generator),
    "round": Older(convert=_round),
    "select": Older("select_n", operands=_select),
    "shard_map": Older(
        renamed={"manual_axes": "newly_manual_axes"}, dropped=("rewrite",), convert=_shard_map
    ),
    "sharding_constraint": Older(dropped=("resource_env",)),  # to 0.5.0
    "top_k": Older(convert=_top_k),
    "tridiagonal_solve": Older(dropped=("ldb", "m", "n", "t")),  # to 0.4.38
    "xla_call": _JIT,  # to 0.4.3
}


def declared_params(name: str) -> dict[str, Param] | None:
    """The params of a primitive, by any name that a release has had for them; None where nobody declares it.

    Args:
      name: of the primitive, in any release.
    """
    older, primitive = OLDER.get(name), PRIMITIVES.get(name)
    if older is None:
        return None if primitive is None else primitive.params
    return _declared(name, primitive)


@functools.cache
def _declared(name: str, primitive: Primitive | None) -> dict[str, Param]:
    older = OLDER[name]
    declared = find_primitive(older.name).params if older.name else {}
    found = {**(primitive.params if primitive else {}), **declared}
    for old, new in older.renamed.items():
        found[old] = found[new]
    for old in older.dropped:
        found.setdefault(old, Param(old, _DROPPED, None))
    return found


def from_older(
    primitive: Primitive, inputs: list[Any], params: Params
) -> tuple[Primitive, list[Any], Params]:
    """An equation as the current release spells it; one that cannot be read stays as it is."""
    older = OLDER[primitive.name]
    if older.name and primitive.known and params.keys() <= primitive.params.keys():
        return primitive, inputs, params  # another primitive of this name, or the current one
    new = {older.renamed.get(k, k): v for k, v in params.items() if k not in older.dropped}
    try:
        if older.convert is not None:
            new = older.convert(new, inputs)
        operands = older.operands(inputs)
    except (ValueError, SyntaxError, AttributeError, TypeError, KeyError, IndexError):
        return primitive, inputs, params
    found = find_primitive(older.name) if older.name else primitive
    if found is not primitive and not new.keys() <= found.params.keys():
        return primitive, inputs, params
    return found, operands, params if new == params else new
