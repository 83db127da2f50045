"""How the releases of JAX before 0.4.14 print the equations of primitives that 0.4.14 or an earlier one changed.

These rows go before those of `earlier_spellings.EARLIER_SPELLINGS`.
"""

from __future__ import annotations

from typing import Any, cast

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.params import Word
from jaxprtool.syntax.releases.old_operands import SELECT_N, no_choice
from jaxprtool.syntax.releases.spellings import Release, Rewrite, Spelling, no_param

__all__ = ["OLDEST_SPELLINGS"]


def _born(*release: int) -> tuple[Spelling, ...]:
    return (Spelling(release, born=True),)


def _without(*names: str) -> Rewrite:
    """Return a change that removes params which say nothing: those that are None, False or empty."""

    def rewrite(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
        del eqn
        return {k: v for k, v in params.items() if k not in names or v}

    return rewrite


def _without_src(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of `device_put` without the place of the operand, from which nothing is computed."""
    del eqn
    return {k: v for k, v in params.items() if k != "src"}


def _tuples(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the dimension numbers of `dot_general` as tuples, which are printed as lists now."""
    del eqn
    return {**params, "dimension_numbers": _as_tuples(params.get("dimension_numbers"))}


def _as_tuples(value: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        return value
    return tuple([_as_tuples(x) for x in cast("list[Any]", value)])


def _says_element_type(eqn: JaxprEqn) -> str:
    """Return why a release without `preferred_element_type` cannot express a product; "" where it can."""
    given = eqn.params.get("preferred_element_type")
    missing = f"{eqn.primitive} has no param preferred_element_type there, which is {given}"
    return "" if given is None else missing


def _count(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of `random_split` with the number of keys: now they have a shape."""
    del eqn
    shape: Any = params.get("count")
    row = isinstance(shape, tuple) and len(cast("Any", shape)) == 1
    return {**params, "count": shape[0]} if row else params


def _no_count(eqn: JaxprEqn) -> str:
    """Return why a split of keys is no row of keys; "" where it is one."""
    shape = eqn.params.get("shape")
    row = not isinstance(shape, tuple) or len(cast("Any", shape)) == 1
    return (
        "" if row else f"random_split makes a row of keys there, and no array of the shape {shape}"
    )


def _no_resources(eqn: JaxprEqn) -> str:
    """Return why a constraint says nothing of axes of a mesh; "" where it says nothing at all."""
    sharding = eqn.params.get("sharding")
    return f"sharding_constraint has no sharding there, which is {sharding}" if sharding else ""


def _of_keys(eqn: JaxprEqn) -> str:
    """Return why a sample of keys cannot be said."""
    return f"{eqn.primitive} takes the words of keys there"


def _shape_of(place: int) -> Any:
    def shape(eqn: JaxprEqn) -> tuple[Any, ...] | None:
        aval = eqn.inputs[place].aval if len(eqn.inputs) > place else None
        return aval.shape if isinstance(aval, ShapedArray) else None

    return shape


_EFFECTS = {"Debug": "PRINT", "OrderedDebug": "ORDERED_PRINT"}


def _effect_of_enum(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of `debug_callback` with a member of an enum as its effect, which is an object now."""
    del eqn
    found = _EFFECTS.get(str(params.get("effect")))
    return {**params, "effect": Word(f"DebugEffect.{found}")} if found else params


def _none_for_each(eqn: JaxprEqn) -> tuple[None, ...]:
    """Return None for each operand of an equation."""
    return (None,) * len(eqn.inputs)


def _not_donated(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of a call with a flag for each operand, where none says that it is donated."""
    return {**params, "donated_invars": params.get("donated_invars") or (False,) * len(eqn.inputs)}


def _rounding_away(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of `round`, which rounded away from zero."""
    del eqn
    return {k: v for k, v in params.items() if v not in (0, Word("RoundingMethod.AWAY_FROM_ZERO"))}


def _rounds_to_even(eqn: JaxprEqn) -> str:
    """Return why a release that rounds away from zero cannot express a rounding; "" where it can."""
    away = _rounding_away({"": eqn.params.get("rounding_method")}, eqn) == {}
    return "" if away else "round has no param rounding_method there, which is 1"


def _old_type(eqn: JaxprEqn) -> Any:
    """Return the element type of the operand of a conversion, None where it is open."""
    aval = eqn.inputs[0].aval if eqn.inputs else None
    return Word(aval.dtype.name) if isinstance(aval, ShapedArray) else None


def _not_dilated(eqn: JaxprEqn) -> Any:
    """Return the dilation of a window without holes."""
    sizes = eqn.params.get("window_dimensions")
    return (1,) * len(cast("Any", sizes)) if isinstance(sizes, tuple) else None


def _groups_as_lists(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of a sum over devices with its groups as lists, which are tuples now."""
    del eqn
    groups = params.get("axis_index_groups")
    if not isinstance(groups, tuple):
        return params
    return {**params, "axis_index_groups": [list(g) for g in cast("Any", groups)]}


def _one_name(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of a reduction over devices with the name of an axis in the place of a tuple of names."""
    del eqn
    axes = params.get("axis_name")
    one = isinstance(axes, tuple) and len(cast("Any", axes)) == 1
    return {**params, "axis_name": cast("Any", axes)[0]} if one else params


def _mapped(params: dict[str, Any], eqn: JaxprEqn) -> dict[str, Any]:
    """Return the params of `xla_pmap` with a flag for each operand: now they say along which axis.

    They stay as they are where an axis is not the first one.
    """
    del eqn
    ins, outs = params.get("in_axes"), params.get("out_axes")
    if not isinstance(ins, tuple) or not isinstance(outs, tuple):
        return params
    if not {*cast("Any", ins)} <= {0, None} or not {*cast("Any", outs)} <= {0}:
        return params
    new = {k: v for k, v in params.items() if k not in ("in_axes", "out_axes")}
    return {**new, "mapped_invars": tuple([x is not None for x in cast("Any", ins)])}


_ARRAYS: Release = (0, 4, 3)  # since then `dot_general` prints lists, and convolutions no shapes
_SHARDED: Release = (0, 4, 14)  # since then callbacks have a sharding
_CALLBACK = (Spelling(_SHARDED, added={"sharding": None}),)
_SHARDINGS: dict[str, Any] = dict.fromkeys(
    ("in_shardings", "out_shardings", "in_layouts", "out_layouts", "ctx_mesh"), None
)
_KEYS = ("random_bits", "random_fold_in", "random_seed", "random_unwrap", "random_wrap")
_MODES: Release = (0, 2, 22)  # since then gather and scatter say what they do out of bounds
_SORTED: Release = (0, 1, 75)  # since then scatter says whether indices are sorted
_SCATTER = (
    Spelling(_SORTED, added={"indices_are_sorted": False, "unique_indices": False}),
    Spelling(_MODES, added={"mode": Word("GatherScatterMode.FILL_OR_DROP")}),
)
_SCATTERS = ("scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul")
_AXES = (Spelling((0, 2, 10), was={"axes": "axis_name"}, before=_one_name),)
_SUMS = (
    *_AXES,
    Spelling(_MODES, before=_groups_as_lists),
)
_REVERSED = (Spelling((0, 2, 5), added={"reverse": False}),)
_DILATED = (
    Spelling(
        (0, 1, 75),
        added={"base_dilation": _not_dilated, "window_dilation": _not_dilated},
    ),
)

OLDEST_SPELLINGS: dict[str, tuple[Spelling, ...]] = {
    # ---- calls and control flow
    "closed_call": _born(0, 4, 3),
    "custom_jvp_call": (
        Spelling((0, 2, 5), allowed={"num_consts": 0}),
        Spelling(
            (0, 3, 17),
            called="custom_jvp_call_jaxpr",
            was={"call_jaxpr": "fun_jaxpr"},
            replaces="custom_jvp_call_jaxpr",
        ),
        Spelling((0, 4, 6), added={"symbolic_zeros": False}),
    ),
    "custom_lin": (
        Spelling((0, 2, 24), was={"out_avals": "avals_out"}),
        Spelling((0, 4, 9), added={"symbolic_zeros": False}),
    ),
    "custom_transpose_call": _born(0, 3, 5),
    "custom_vjp_call": (
        Spelling((0, 2, 5), allowed={"num_consts": 0}),
        Spelling((0, 4, 9), added={"symbolic_zeros": False}),
    ),
    "custom_vmap_call": _born(0, 3, 5),
    "jit": (
        Spelling((0, 1, 70), added={"donated_invars": no_param}),
        Spelling((0, 2, 14), added={"inline": False}),
        Spelling(
            (0, 2, 26),
            hidden=("donated_invars", "device", "backend", "inline"),
            before=_not_donated,
        ),
        Spelling(
            (0, 4, 4),
            called="xla_call",
            was={"jaxpr": "call_jaxpr"},
            allowed=_SHARDINGS,
            removed={"device": no_param},
            replaces="pjit sharded_call xla_call",
        ),
    ),
    "custom_linear_solve": (
        Spelling((0, 2), removed={"tree": no_param}, replaces="custom_linear_solve"),
    ),
    "linear_call": _born(0, 2, 10),
    "optimization_barrier": (
        *_born(0, 3, 17),
        Spelling((0, 4, 34), replaces="id_tap outside_call"),
    ),
    "platform_index": _born(0, 4, 21),
    "remat2": (
        Spelling((0, 2, 17), added={"differentiated": False, "prevent_cse": True}),
        Spelling((0, 2, 20), added={"policy": None}),
        Spelling(
            (0, 3, 16),
            called="remat_call",
            was={"jaxpr": "call_jaxpr"},
            removed={"concrete": False, "name": "f"},
            replaces="remat_call",
        ),
    ),
    "scan": (Spelling((0, 1, 75), added={"unroll": 1}),),
    # ---- several devices
    "all_gather": (*_born(0, 2, 9), Spelling((0, 2, 18), added={"tiled": False})),
    "all_to_all": (
        Spelling((0, 2, 8), added={"axis_index_groups": None}),
        Spelling((0, 4, 27), added={"tiled": False}),
    ),
    "device_put": (Spelling((0, 4, 7), added={"src": no_param}, before=_without_src),),
    **dict.fromkeys(("pmax", "pmin"), _AXES),
    "psum": _SUMS,
    "psum_invariant": _born(0, 4, 14),
    "pvary": _born(0, 4, 14),
    "reduce_scatter": _born(0, 2, 20),
    "shard_map": (
        *_born(0, 4, 3),
        Spelling(
            (0, 4, 14),
            added={"auto": no_param, "rewrite": no_param},
            before=_without("auto", "rewrite"),
        ),
    ),
    "sharding_constraint": (
        *_born(0, 3, 1),
        Spelling((0, 3, 15), removed={"axis_resources": no_param}, cannot=_no_resources),
        Spelling((0, 3, 16), added={"unconstrained_dims": frozenset()}),
    ),
    "xla_pmap": (
        Spelling((0, 1, 70), added={"donated_invars": no_param}),
        Spelling(
            (0, 2, 8),
            added={"global_arg_shapes": _none_for_each},
            removed={"mapped_invars": no_param},
            before=_mapped,
        ),
        Spelling((0, 4, 3), added={"is_explicit_global_axis_size": False}),
        Spelling((0, 4, 8), removed={"global_arg_shapes": _none_for_each}),
    ),
    "xmap": (
        Spelling((0, 2, 10), added={"donated_invars": no_param}),
        Spelling((0, 2, 12), was={"global_axis_sizes": "axis_sizes"}),
        Spelling((0, 2, 14), added={"spmd_in_axes": None, "spmd_out_axes": None}),
        Spelling((0, 2, 22), added={"positional_semantics": no_param}),
        Spelling(
            (0, 3, 1),
            added={"in_positional_semantics": no_param, "out_positional_semantics": no_param},
            removed={"positional_semantics": no_param},
        ),
        Spelling(
            (0, 4, 7),
            removed={"in_positional_semantics": no_param, "out_positional_semantics": no_param},
        ),
    ),
    # ---- shapes and products
    "conv_general_dilated": (
        Spelling((0, 1, 64), added={"batch_group_count": 1}),
        Spelling((0, 2, 14), added={"preferred_element_type": None}, cannot=_says_element_type),
        Spelling(
            _ARRAYS,
            removed={"lhs_shape": _shape_of(0), "rhs_shape": _shape_of(1)},
            replaces="conv_general_dilated",
        ),
    ),
    "convert_element_type": (
        Spelling((0, 2, 8), removed={"old_dtype": _old_type}, replaces="convert_element_type"),
        Spelling((0, 2, 10), added={"weak_type": False}),
    ),
    "copy": _born(0, 2, 28),
    "dot_general": (
        Spelling((0, 2, 9), allowed={"preferred_element_type": None}, cannot=_says_element_type),
        Spelling(_ARRAYS, hidden=("precision", "preferred_element_type"), before=_tuples),
    ),
    "gather": (
        Spelling((0, 2, 14), added={"indices_are_sorted": False, "unique_indices": False}),
        Spelling(_MODES, added={"fill_value": None, "mode": Word("GatherScatterMode.CLIP")}),
    ),
    "iota": _born(0, 2, 5),
    **dict.fromkeys(("reduce_window", "reduce_window_max", "reduce_window_min"), _DILATED),
    "reduce_window_sum": _DILATED,
    **dict.fromkeys(_SCATTERS, _SCATTER),
    "squeeze": _born(0, 1, 70),
    # ---- elements, sorting, matrices and random numbers
    "approx_top_k": _born(0, 3, 3),
    **dict.fromkeys(("argmax", "argmin"), _born(0, 1, 75)),
    **dict.fromkeys(("acos", "asin", "atan", "tan"), _born(0, 2, 8)),
    "cbrt": _born(0, 2, 20),
    "clz": _born(0, 2, 12),
    "cumlogsumexp": _born(0, 3, 25),
    **dict.fromkeys(("cummax", "cumprod", "cumsum"), _REVERSED),
    "cummin": _born(0, 2, 5),
    "eig": (
        Spelling(
            (0, 1, 77),
            added={"compute_left_eigenvectors": True, "compute_right_eigenvectors": True},
        ),
    ),
    "eigh": (Spelling((0, 3, 13), added={"sort_eigenvalues": True}),),
    **dict.fromkeys(("eq_to", "le_to", "lt_to"), _born(0, 4, 19)),
    **dict.fromkeys(("exp2", "polygamma", "zeta"), _born(0, 4, 14)),
    "hessenberg": _born(0, 3, 25),
    "householder_product": (Spelling((0, 3, 24), called="orgqr"),),
    "integer_pow": _born(0, 1, 68),
    "logistic": _born(0, 3, 20),
    "population_count": _born(0, 1, 65),
    **dict.fromkeys(_KEYS, _born(0, 3, 17)),
    "random_gamma": (
        *_born(0, 1, 72),
        Spelling((0, 3, 5), added={"log_space": False}),
        Spelling((0, 3, 17), removed={"prng_impl": no_param}, cannot=_of_keys),
    ),
    "random_split": (
        *_born(0, 3, 17),
        Spelling((0, 4, 14), was={"shape": "count"}, before=_count, cannot=_no_count),
    ),
    "reduce_precision": _born(0, 2, 14),
    **dict.fromkeys(("rng_bit_generator", "rng_uniform"), _born(0, 2, 12)),
    "round": (
        Spelling(
            (0, 2, 8),
            allowed={"rounding_method": 0},
            before=_rounding_away,
            cannot=_rounds_to_even,
        ),
    ),
    "schur": _born(0, 3, 1),
    "select_n": (Spelling(SELECT_N, called="select", cannot=no_choice),),
    "sort": (
        Spelling((0, 1, 72), added={"is_stable": False}),
        Spelling((0, 1, 75), added={"num_keys": 1}),
    ),
    # ---- effects, references, kernels and what is outside
    **dict.fromkeys(("addupdate", "get", "swap"), _born(0, 3, 15)),
    "check": (
        *_born(0, 3, 25),
        Spelling((0, 4, 3), added={"debug": False}),
        Spelling((0, 4, 13), hidden=("err_tree",)),
    ),
    "custom_partitioning": (
        *_born(0, 3, 25),
        Spelling((0, 4, 3), added={"static_args": ()}),
        Spelling((0, 4, 12), added={"decode_shardings": True}),
    ),
    "debug_callback": (*_born(0, 3, 16), Spelling((0, 4, 4), before=_effect_of_enum)),
    "infeed": (Spelling((0, 1, 70), added={"partitions": None}),),
    "io_callback": (*_born(0, 4, 3), *_CALLBACK),
    "name": _born(0, 2, 24),
    "new_ref": _born(0, 4, 27),
    "outfeed": (Spelling((0, 2, 20), added={"partitions": None}),),
    "pallas_call": _born(0, 4, 14),
    "pure_callback": (
        *_born(0, 3, 17),
        *_CALLBACK,
        Spelling((0, 4, 34), replaces="outside_call"),
    ),
    "run_state": _born(0, 4, 9),
}
