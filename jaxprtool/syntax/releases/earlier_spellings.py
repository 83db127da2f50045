"""How the releases of JAX to 0.6.0 print the equations of primitives that 0.6.1 or an earlier one changed.

Those of changes to 0.4.14 are in `oldest_spellings`. These rows go before those of `spellings.SPELLINGS`, and are for writing only. A text of these
releases is read by its contents (`earlier.py`); its params do not show which of them printed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.params import Word
from jaxprtool.ir.sharding import Mesh, PartitionSpec
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.oldest_spellings import OLDEST_SPELLINGS
from jaxprtool.syntax.releases.spellings import Release, Spelling, no_param

__all__ = ["EARLIER_SPELLINGS", "told_by_numbers", "without_batching_dims"]

_BATCHING_DIMS: Release = (0, 4, 35)  # since then gather and scatter print them
_NO_BATCHING = pattern(r", \w+_batching_dims=\(\)")
_NUMBERS = pattern(r"(?:Gather|Scatter)DimensionNumbers\(")


def without_batching_dims(release: Release, text: str) -> str:
    """Return the text of the dimension numbers of a gather or a scatter in a release."""
    return text if release >= _BATCHING_DIMS else _NO_BATCHING.sub("", text)


def told_by_numbers(text: str) -> Iterator[tuple[str, Release]]:
    """Yield the bounds on the release that dimension numbers imply: ("since", release) or ("before", release)."""
    if _NUMBERS.search(text):
        yield "since" if "_batching_dims=" in text else "before", _BATCHING_DIMS


def _pairs_axes(eqn: JaxprEqn) -> str:
    """Return why a release without batch axes of gather and scatter cannot express one, "" where it can."""
    fields = getattr(eqn.params.get("dimension_numbers"), "fields", {})
    has = "operand_batching_dims" in fields and fields["operand_batching_dims"]
    return f"{eqn.primitive} has no operand_batching_dims there" if has else ""


def _branches_are_not_linear(eqn: JaxprEqn) -> tuple[bool, ...]:
    """Return `linear` of a conditional: False for each operand of its branches."""
    return (False,) * (len(eqn.inputs) - 1)


def _reuses(eqn: JaxprEqn) -> tuple[Word, ...]:
    """Return `copy_semantics` of a transfer that reuses what is there already."""
    return (Word("ArrayCopySemantics.REUSE_INPUT"),) * len(eqn.inputs)


def _one_place(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return `device` and `src` of `device_put`, which had one operand; now each operand has its own."""
    places = {"device": params.get("devices"), "src": params.get("srcs")}
    if len(eqn.inputs) != 1:
        return params
    return {k: cast("Any", v)[0] if isinstance(v, list) and v else v for k, v in places.items()}


def _with_default(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return `has_default` of a choice by platform: now the last entry of the platforms is None."""
    platforms = params.get("platforms")
    if not isinstance(platforms, tuple):
        return params  # ill-typed
    default = platforms[-1:] == (None,)
    return {"has_default": default, "platforms": platforms[:-1] if default else platforms}


def _system(eqn: JaxprEqn) -> tuple[int, int] | None:
    """Return the size of a tridiagonal system, and the number of right-hand sides."""
    aval = eqn.inputs[-1].aval if eqn.inputs else None
    if not isinstance(aval, ShapedArray) or aval.ndim < 2:
        return None
    m, n = aval.shape[-2:]
    return (m, n) if isinstance(m, int) and isinstance(n, int) else None


def _all_initialized(eqn: JaxprEqn) -> Any:
    """Return `is_initialized` of an equation whose references all hold values at the start; None for another one."""
    found: Any = eqn.params.get("is_initialized", ())
    return (
        None if not isinstance(found, tuple) or False in cast("Any", found) else cast("Any", found)
    )


def _size(eqn: JaxprEqn) -> int | None:
    found = _system(eqn)
    return None if found is None else found[0]


def _sides(eqn: JaxprEqn) -> int | None:
    found = _system(eqn)
    return None if found is None else found[1]


def _element_type(eqn: JaxprEqn) -> Word | None:
    aval = eqn.inputs[-1].aval if eqn.inputs else None
    return Word(aval.dtype.name) if isinstance(aval, ShapedArray) else None


def _by_names(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of `shard_map` with the axes of each dimension, `({0: ('i',)},)`: now they
    are partition specs.

    Params that `check` would refuse are left as they are.
    """
    mesh, manual = params.get("mesh"), params.get("manual_axes", frozenset())
    old = {k: v for k, v in params.items() if k in ("jaxpr", "mesh")}
    if not isinstance(mesh, Mesh):
        return params
    for key, names in (("in_specs", "in_names"), ("out_specs", "out_names")):
        specs: Any = params.get(key)
        if not isinstance(specs, tuple):
            return params
        found = [s for s in cast("Any", specs) if isinstance(s, PartitionSpec)]
        if len(found) != len(cast("Any", specs)):
            return params
        old[names] = tuple(map(_names_of, found))
    checked = params.get("check_vma", True)
    auto = frozenset([name for name in mesh.sizes if name not in manual])
    return {**old, "auto": auto, "check_rep": checked, "rewrite": checked}


def _names_of(spec: PartitionSpec) -> dict[int, tuple[str, ...]]:
    return {i: axes for i, axes in enumerate(spec.spec) if axes}


def _deprecated(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return `vectorized` beside `vmap_method`.

    For a callback that is mapped one by one both have the values that they have when neither is
    given.
    """
    method = params.get("vmap_method")
    if method is None or "vectorized" in params:
        return params  # there was no word for None
    if method == "legacy_vectorized":
        return {**params, "vectorized": True}
    method = None if method == "sequential" else method
    return {**params, "vectorized": Word("Deprecated"), "vmap_method": method}


def _vectorized(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return `vectorized` in the place of `vmap_method`."""
    method, called = params.get("vmap_method"), params.get("vectorized")
    if called is not True and (method is not None or called != Word("Deprecated")):
        return {**params, "vmap_method": method}  # that release has no other word for it
    return {**{k: v for k, v in params.items() if k != "vmap_method"}, "vectorized": called is True}


def _born(*release: int) -> tuple[Spelling, ...]:
    return (Spelling(release, born=True),)


_SHARDING = (Spelling((0, 4, 36), added={"sharding": None}),)
_MAPPED = (
    Spelling((0, 4, 35), added={"vmap_method": None}, before=_vectorized),
    Spelling((0, 6), removed={"vectorized": no_param}, before=_deprecated),
)
_NAMES: dict[str, Any] = dict.fromkeys(
    ("in_names", "out_names", "check_rep", "rewrite", "auto"), no_param
)

_ROWS: dict[str, tuple[Spelling, ...]] = {
    # ---- calls and control flow
    "composite": (*_born(0, 5), Spelling((0, 6), replaces="composite")),
    "cond": (Spelling((0, 4, 31), removed={"linear": _branches_are_not_linear}, replaces="cond"),),
    "custom_jvp_call": (
        Spelling((0, 5, 1), removed={"jvp_jaxpr_thunk": no_param}),
        Spelling((0, 6, 1), removed={"jvp_jaxpr_fun": no_param}, replaces="custom_jvp_call"),
    ),
    "custom_lin": (
        Spelling((0, 6, 1), added={"in_zeros": ()}, mutable=("out_avals", "avals_out")),
        Spelling((0, 6, 2), hidden=("out_avals",)),
    ),
    "custom_vjp_call": (Spelling((0, 6, 1), replaces="custom_vjp_call_jaxpr"),),
    "jit": (
        Spelling((0, 4, 22), first=True),
        Spelling((0, 5, 3), removed={"resource_env": no_param}),
        Spelling((0, 7), replaces="pjit"),
    ),
    "linear_call": (
        Spelling(
            (0, 6),
            added={"transpose_thunk": None},
            removed={"num_transpose_consts": no_param, "transpose": no_param},
        ),
    ),
    "platform_index": (
        Spelling((0, 6, 1), removed={"has_default": no_param}, before=_with_default),
    ),
    "scan": (Spelling((0, 4, 26), added={"_split_transpose": False}),),
    # ---- several devices
    "all_gather_invariant": _born(0, 6, 1),
    "device_put": (
        Spelling((0, 4, 30), removed={"device": no_param, "src": no_param}, before=_one_place),
        Spelling((0, 4, 34), added={"copy_semantics": _reuses}),
        Spelling((0, 6, 1), mutable=("copy_semantics", "devices", "srcs"), replaces="device_put"),
    ),
    "layout_constraint": _born(0, 6, 1),
    "mesh_cast": _born(0, 5, 3),
    "psum": (Spelling((0, 6), replaces="psum2"),),
    "psum_invariant": (Spelling((0, 6), called="psum2"),),
    "pvary": (Spelling((0, 6), called="pbroadcast", replaces="pbroadcast"),),
    "ragged_all_to_all": _born(0, 4, 38),
    "reshard": _born(0, 5, 3),
    "shard_map": (Spelling((0, 6, 1), removed=_NAMES, before=_by_names, replaces="shard_map"),),
    "sharding_constraint": (
        Spelling((0, 4, 31), added={"layout": None}),
        Spelling((0, 5, 1), was={"context_mesh": "resource_env"}, replaces="sharding_constraint"),
        Spelling((0, 6, 1), mutable=("unconstrained_dims",)),
    ),
    # ---- shapes and products
    **dict.fromkeys(
        ("gather", "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul"),
        (Spelling(_BATCHING_DIMS, cannot=_pairs_axes),),
    ),
    "broadcast_in_dim": _SHARDING,
    "iota": (Spelling((0, 4, 35), added={"sharding": None}),),
    "ragged_dot_general": (Spelling((0, 5, 3), born=True, replaces="ragged_dot"),),
    "reshape": _SHARDING,
    "scatter-sub": _born(0, 4, 36),
    "split": _born(0, 4, 38),
    # ---- random numbers: a text that does not say how keys draw may be of a release whose keys draw otherwise
    **dict.fromkeys(
        ("random_bits", "random_split"), (Spelling((0, 6, 1), stated=("partitionable",)),)
    ),
    "random_gamma": (Spelling((0, 6, 1), stated=("complement", "partitionable")),),
    "rng_bit_generator": (
        Spelling((0, 6), added={"out_sharding": None}, replaces="rng_bit_generator"),
    ),
    # ---- elements and matrices
    "eigh": (Spelling((0, 4, 21), added={"subset_by_index": None}),),
    "eig": (Spelling((0, 4, 36), added={"use_magma": None}),),
    "qr": (
        Spelling((0, 5), added={"pivoting": False}),
        Spelling((0, 5, 1), added={"use_magma": None}),
    ),
    "square": _born(0, 4, 36),
    "reduce": (Spelling((0, 4, 24), removed={"consts": ()}),),
    "svd": (
        Spelling((0, 4, 25), added={"subset_by_index": None}),
        Spelling((0, 4, 35), added={"algorithm": None}),
    ),
    "round": (Spelling((0, 7), replaces="round"),),
    "symmetric_product": _born(0, 5, 3),
    "tridiagonal_solve": (
        Spelling(
            (0, 5),
            removed={"ldb": _size, "m": _size, "n": _sides, "t": _element_type},
            replaces="tridiagonal_solve",
        ),
    ),
    # ---- effects, kernels and what is outside
    "custom_partitioning": (
        Spelling((0, 5), added={"sharding_rule": None}),
        Spelling((0, 6, 1), mutable=("static_args",)),
    ),
    "debug_callback": (Spelling((0, 6), added={"partitioned": False}),),
    "ffi_call": (*_born(0, 4, 31), *_MAPPED),
    "freeze": _born(0, 4, 38),
    "run_state": (Spelling((0, 4, 36), added={"is_initialized": _all_initialized}),),
    "pallas_call": (
        Spelling((0, 4, 26), added={"compiler_params": None}),
        Spelling(
            (0, 4, 31),
            removed={"in_shapes": no_param, "out_shapes": no_param, "which_linear": no_param},
        ),
        Spelling((0, 4, 32), added={"cost_estimate": None}, removed={"name": no_param}),
        Spelling((0, 4, 35), added={"backend": None}),
        Spelling((0, 5, 3), added={"mesh": None}, removed={"name_and_src_info": no_param}),
        Spelling((0, 6), replaces="pallas_call"),
    ),
    "pure_callback": _MAPPED,
}

EARLIER_SPELLINGS: dict[str, tuple[Spelling, ...]] = {
    name: (*OLDEST_SPELLINGS.get(name, ()), *_ROWS.get(name, ()))
    for name in dict.fromkeys((*OLDEST_SPELLINGS, *_ROWS))
}
