"""Convert the spellings of other JAX releases to the current one: names of primitives and of params, in one table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, cast

from jaxprtool.core.kinds.containers import Anything
from jaxprtool.core.primitive import declared_primitive, find_primitive, known_primitive
from jaxprtool.ir.declaration import Param
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive, Var
from jaxprtool.ir.jaxpr import Params as FrozenParams
from jaxprtool.ir.params import Word
from jaxprtool.ir.primitive import ReadParams
from jaxprtool.syntax.releases import earlier_equations as equations
from jaxprtool.syntax.releases import earlier_params as changed
from jaxprtool.syntax.releases.spellings import (
    TYPED_LITERALS,
    Release,
    Replaced,
    renamed,
    replaced,
)

__all__ = [
    "OLDER",
    "declared_params",
    "expanded",
    "from_older",
    "has_leaves",
    "is_earlier",
    "is_older",
    "of_leaves",
    "takes_leaves",
]

Params = dict[str, Any]
Inputs = Sequence[Any]
_DROPPED = Anything("")
_FAULTS = (ValueError, SyntaxError, AttributeError, TypeError, KeyError, IndexError)


class Older(NamedTuple):
    """How an equation of another release is converted to the current spelling.

    Attributes:
      name: the current name of the primitive; "" where it has not changed.
      until: the last release with this spelling; "" for a spelling of releases after 0.10.2.
      renamed: old name -> new name of params.
      dropped: params that no longer exist and say nothing about what is computed.
      given: values of params that did not exist; all of them were added by one release.
      convert: (params, operands) -> new params, for further changes. It raises ValueError and
        similar errors where it cannot read them, and the equation stays as it is.
      arrange: (params, operands) -> new params and operands, applied last; it raises the same
        errors.
      expand: (params, operands, results) -> several equations that replace this one, or None where
        the other fields apply.
      foreign: whether the names of the params tell whether an equation is of another release;
        otherwise each equation is examined.
      each: whether the primitive took several operands, each of which has an equation of its own
        now.
      told_by: the params whose values may tell whether an equation is of another release; equations
        without them need not be examined.
      kept: whether dialects that have the old equation print it as it was read, since no other
        spelling says the same; or a function of its params that tells.
    """

    name: str = ""
    until: str = ""
    renamed: dict[str, str] = {}  # noqa: RUF012 (never changed)
    dropped: tuple[str, ...] = ()
    given: dict[str, Any] = {}  # noqa: RUF012
    convert: Callable[[Params, Inputs], Params] | None = None
    arrange: Callable[[Params, Inputs], tuple[Params, list[Any]]] | None = None
    expand: Callable[[Params, Inputs, Sequence[Var]], list[JaxprEqn] | None] | None = None
    foreign: bool = False
    each: bool = False
    told_by: tuple[str, ...] = ()
    kept: bool | Callable[[Params], bool] = False

    @property
    def last(self) -> Release | None:
        """The last release with this spelling, where one is known."""
        return tuple(map(int, self.until.split("."))) if self.until else None


def _older_name(name: str, until: str = "", **how: Any) -> Older:
    return Older(name, until, **how)


def _older_params(until: str, *dropped: str, **how: Any) -> Older:
    return Older("", until, dropped=dropped, foreign=True, **how)


_PRIMAL_FUN = _older_name(
    "core_call",
    "0.2.3",
    renamed={"jaxpr": "call_jaxpr"},
    dropped=("in_tree", "in_trees", "num_consts", "out_tree"),
)
# What the names of the params tell of primitives that nobody declares: a function under `custom_transforms` (to 0.1.62),
# and, where JAX prints all params, an object that is a primitive (since 0.11).
_BY_PARAMS = {
    frozenset({"in_tree", "jaxpr", "num_consts", "out_tree"}): _PRIMAL_FUN,
    frozenset({"_prim"}): Older(expand=equations.hi_primitive),
}
_JIT_DROPPED = (
    "backend", "device", "device_assignment", "device_values", "resource_env",
    "in_axis_resources", "out_axis_resources", "in_positional_semantics", "out_positional_semantics",
)  # fmt: skip
_SHARDED_DROPPED = (
    "in_parts", "local_in_parts", "local_nparts", "local_out_parts_thunk", "nparts", "num_partitions", "out_parts_thunk",
)  # fmt: skip
_THUNKS = ("jvp_jaxpr_thunk", "jvp_jaxpr_fun")
_WINDOW = Older(until="0.1.72", dropped=("input_shape",), convert=changed.window)
_SIZES = Older(
    until="0.7.0",
    foreign=True,
    told_by=("shape",),
    expand=equations.sizes_as_operands,
    kept=equations.has_sizes,
)
_CLIP = Word("GatherScatterMode.CLIP")


def _jit(until: str) -> Older:
    renamed = {"call_jaxpr": "jaxpr"}
    return Older("jit", until, renamed, _JIT_DROPPED, convert=changed.of_jit, kept=_says_where)


def _says_where(params: Params) -> bool:
    """Whether a call says on which devices it runs, and how its arrays lie there, in words that no later release has."""
    dropped = {k for k in (*_JIT_DROPPED, *_SHARDED_DROPPED) if params.get(k) is not None}
    return bool(dropped) or "GSPMDSharding(" in str(
        [params.get(k) for k in ("in_shardings", "out_shardings")]
    )


def _has_pairs(params: Params) -> bool:
    """Whether the attributes of a composite are pairs of a name and a value (to 0.5.3)."""
    attributes = params.get("attributes")
    pairs = cast("tuple[Any, ...]", attributes) if isinstance(attributes, tuple) else ()
    return any(len(a) == 2 for a in pairs)


def _is_linear(params: Params) -> bool:
    """Whether a conditional says that operands are linear (to 0.4.30)."""
    linear = params.get("linear")
    return isinstance(linear, tuple) and True in linear


def _index_of_reference(count: int) -> Older:
    arrange = functools.partial(equations.index_of_reference, count)
    return Older(arrange=arrange, told_by=("indexed_dims", "tree"))


OLDER: dict[str, Older] = {
    # ---- calls
    "xla_call": _jit("0.4.3"),
    "pjit": _jit("0.6.2"),
    "jit": Older(
        convert=changed.of_jit, told_by=("ctx_mesh", "inline", "in_shardings", "out_shardings")
    ),
    "remat_call": _older_name(
        "remat2",
        "0.3.15",
        renamed={"call_jaxpr": "jaxpr"},
        dropped=("concrete", "name"),
        kept=True,
    ),
    # Partial evaluation gave each call the name of its function.
    **dict.fromkeys(("call", "closed_call", "core_call"), _older_params("0.5.0", "name")),
    "custom_jvp_call": _older_params("0.6.0", *_THUNKS, kept=True),
    "custom_jvp_call_jaxpr": _older_name(
        "custom_jvp_call",
        "0.3.16",
        renamed={"fun_jaxpr": "call_jaxpr"},
        dropped=_THUNKS,
        kept=True,
    ),
    "custom_vjp_call": _older_params("", "fwd_jaxpr_thunk"),  # where JAX prints all params
    "custom_vjp_call_jaxpr": _older_name(
        "custom_vjp_call",
        "0.6.0",
        renamed={"fun_jaxpr": "call_jaxpr"},
        dropped=("fwd_jaxpr_thunk", "out_trees"),
        convert=changed.custom_vjp,
        kept=True,
    ),
    "custom_dce_call": _older_name(
        "closed_call", "0.9.2", convert=changed.with_unused_results, kept=True
    ),
    "custom_lin": _older_params("0.2.22", renamed={"avals_out": "out_avals"}),
    "custom_transpose_call": _older_name(
        "linear_call", "0.9.2", convert=changed.residuals, kept=True
    ),
    "linear_call": Older(until="0.5.3", convert=changed.linear_call),
    "custom_linear_solve": _older_params("0.1.77", "tree", kept=True),
    "root": _older_name(
        "closed_call", "0.1.62", convert=changed.solver, arrange=equations.first_operand_last
    ),
    "primal_fun": _PRIMAL_FUN,
    # Functions with inverses, which only their derivatives used.
    "custom_ivjp": _older_name(
        "closed_call", renamed={"fun_jaxpr": "call_jaxpr"}, dropped=("ivjp_jaxpr",)
    ),
    "invertible_call": _older_name("closed_call", dropped=("name",)),
    "eval_jaxpr": _older_name("closed_call"),
    **dict.fromkeys(("id", "pack"), Older(until="0.1.40")),  # see `syntax.building.tuples`
    "composite": _older_params(
        "",
        renamed=renamed("composite"),
        convert=changed.composite,
        told_by=("attributes", *renamed("composite")),
        kept=_has_pairs,
    ),
    "xla_metadata_call": _older_params("0.8.0", renamed={"call_jaxpr": "jaxpr"}),
    # ---- control flow
    "cond": Older(
        until="0.4.30",
        dropped=("aval_out", "false_nconsts", "true_nconsts"),
        arrange=equations.branches,
        foreign=True,
        kept=_is_linear,
    ),
    "scan": Older(until="0.1.65", convert=changed.forward, told_by=("forward", "ft_in")),
    "while": _older_params("0.1.40", "aval_out", "body_consts", "cond_consts"),
    "for": Older(until="0.7.1", expand=equations.references),
    "platform_index": Older(until="0.6.0", convert=changed.platform_index),
    "pallas_call": Older(
        until="0.5.3", convert=changed.kernel, told_by=("grid_mapping",), kept=True
    ),
    # ---- several devices
    # Reductions of trees had all leaves as operands, to 0.8.1.
    "psum": Older(until="0.2.9", convert=changed.axes_of_name, foreign=True, each=True),
    "pmax": Older(until="0.2.9", convert=changed.axes_of_name, foreign=True, each=True),
    "pmin": Older(until="0.2.9", convert=changed.axes_of_name, foreign=True, each=True),
    "psum2": _older_name("psum", "0.5.3", each=True, kept=True),
    "psum_invariant": Older(until="0.8.0", convert=changed.without_groups, each=True),
    "pbroadcast": _older_name("pvary", "0.5.3", convert=changed.no_axes, each=True, kept=True),
    "pvary": Older(until="0.8.0", convert=changed.without_groups, each=True),
    "xla_pmap": Older(until="0.2.5", convert=changed.mapped, foreign=True),
    "soft_pmap": _older_name("xmap", "0.2.9", convert=changed.softly_mapped),
    "sharded_call": _jit("0.3.3")._replace(dropped=_SHARDED_DROPPED),
    "xmap": _older_params("0.2.9", renamed={"axis_sizes": "global_axis_sizes"}),
    "shard_map": Older(
        until="0.10.1",
        renamed=renamed("shard_map"),
        dropped=("rewrite",),
        convert=changed.shard_map,
        kept=True,
    ),
    "mesh_cast": _older_name("reshard", "0.7.1", kept=True),
    "reduced_vary_cast": _older_name("reduced_vary_cast_p"),
    "vary_unreduced_cast": _older_name("vary_unreduced_cast_p"),
    "sharding_cast": _older_name("reshard", "0.5.0", dropped=("src_sharding",)),
    "sharding_constraint": Older(
        until="0.5.0", dropped=("resource_env",), convert=changed.constraint, kept=True
    ),
    "device_put": Older(
        until="0.6.1", dropped=("device_num",), convert=changed.device_put, kept=True
    ),
    # ---- shapes, slices and reductions
    "broadcast": _older_name("broadcast_in_dim", "0.1.55", convert=changed.broadcast),
    "axis_index": _older_params("0.1.77", "nreps", "sizes", "soft_size"),
    "concatenate": _older_params("0.1.59", "operand_shapes"),
    "conv_general_dilated": Older(
        until="0.4.25",
        dropped=("lhs_shape", "rhs_shape"),
        convert=changed.precision,
        told_by=("lhs_shape", "precision", "rhs_shape"),
        kept=True,
    ),
    "convert_element_type": _older_params("0.2.5", "old_dtype", kept=True),
    "dot": _older_name("dot_general", "0.1.43", convert=changed.dot),
    "dot_general": Older(
        until="0.4.38",
        renamed={"out_type": "out_sharding"},
        dropped=("transpose_algorithm",),
        convert=changed.dot_general,
        told_by=("algorithm", "out_type", "precision", "transpose_algorithm"),
    ),
    "dynamic_slice": _older_params("0.1.55", "operand_shape"),
    "dynamic_update_slice": _older_params("0.1.55", "update_shape"),
    "gather": _older_params("0.2.21", "operand_shape", given={"mode": _CLIP, "fill_value": None}),
    "ragged_dot": _older_name("ragged_dot_general", "0.5.2", convert=changed.ragged_dot, kept=True),
    "reduce": _older_params("0.4.23", "consts"),
    "reduce_sum": _older_params("0.1.59", "input_shape"),
    "reduce_window": _WINDOW,
    "reduce_window_max": _WINDOW,
    "reduce_window_min": _WINDOW,
    "reduce_window_sum": _WINDOW,
    "reshape": _older_params("0.1.59", "old_sizes"),
    "roll": Older(until="0.4.30", arrange=equations.distance_as_operand, told_by=("shift",)),
    "scatter": _older_params(
        "0.1.59",
        "updates_shape",
        convert=changed.overwriting,
        told_by=("update_jaxpr", "updates_shape"),
        kept=True,
    ),
    "scatter-add": _older_params("0.7.0", "out_sharding", "updates_shape"),
    **dict.fromkeys(
        ("scatter-max", "scatter-min", "scatter-mul"), _older_params("0.1.59", "updates_shape")
    ),
    "select": _older_name("select_n", "0.2.28", arrange=equations.swapped_cases),
    "select_and_scatter_add": Older(until="0.1.50", convert=changed.padding),
    "slice": _older_params("0.1.59", "operand_shape"),
    "sort": _older_params(
        "0.1.72", given={"is_stable": False, "num_keys": 1}, convert=changed.from_last
    ),
    "sort_key_val": _older_name("sort", "0.1.67", convert=changed.from_last),
    "shape_id": _older_name("copy", "0.1.50", dropped=("shape",)),
    "top_k": Older(until="0.8.0", convert=changed.top_k),
    "zeros_like": _older_name(
        "broadcast_in_dim", "0.4.23", expand=equations.zeros, arrange=equations.zeros_of_operand
    ),
    "broadcast_in_dim": _SIZES,
    "iota": _SIZES,
    # ---- functions of elements, of matrices and of keys
    "eig": _older_params(
        "0.7.2",
        "use_magma",
        given={"compute_left_eigenvectors": True, "compute_right_eigenvectors": True},
    ),
    "random_gamma": _older_params(
        "0.3.16", "prng_impl", given={"log_space": False}, expand=equations.gamma_of_words
    ),
    "random_split": Older(
        until="0.4.13", convert=changed.random_split, foreign=True, told_by=("count",)
    ),
    "empty": _older_params("0.7.1", given={"shape": ()}, expand=equations.scalar_of_any_contents),
    "lu": Older(foreign=True, expand=equations.factors),
    "svd": Older(
        foreign=True,
        given={"algorithm": None},
        told_by=("compute_uv",),
        expand=equations.singular_values,
    ),
    "reuse_key": _older_name("random_clone", "0.4.25"),
    "rng_bit_generator": Older(until="0.5.3", convert=changed.bit_generator, kept=True),
    "round": Older(until="0.2.5", convert=changed.rounding, kept=True),
    "safe_mul": _older_name("mul", "0.1.60"),
    "orgqr": _older_name("householder_product", "0.3.23"),
    "symmetric_update": _older_name("symmetric_product", "0.5.0"),
    "tridiagonal": Older(foreign=True, told_by=("lower",), expand=equations.tridiagonal_with_info),
    "tridiagonal_solve": _older_params("0.4.38", "ldb", "m", "n", "t", kept=True),
    # ---- effects and references
    "get": _index_of_reference(1),
    "swap": _index_of_reference(2),
    "addupdate": _index_of_reference(2),
    "array_ref": _older_name("new_ref", "0.7.1"),
    "create_token": Older(until="0.2.5", arrange=equations.no_operands),
    "id_tap": _older_name(
        "optimization_barrier",
        "0.2.8",
        dropped=(
            "arg_treedef_",
            "nr_tapped_args_",
            "output_stream",
            "tap_func_",
            "threshold",
            "where",
        ),
        kept=True,
    ),
    "id_tap_dep": _older_name("copy", arrange=equations.first_operand),
    "mutable_array": _older_name("new_ref", "0.7.0"),
    "outside_call": _older_name(
        "pure_callback",
        "0.4.33",
        convert=changed.results_of_callback,
        expand=equations.identity_callback,
        kept=True,
    ),
    "ffi_call": Older(
        until="0.5.3", convert=changed.foreign_call, foreign=True, told_by=("vectorized",)
    ),
    "pure_callback": Older(
        until="0.5.3", convert=changed.vectorized, foreign=True, told_by=("vectorized",)
    ),
    "tie_in": _older_name("copy", "0.1.77", arrange=equations.last_operand),
}


def is_older(primitive: Primitive, given: Collection[str]) -> bool:
    """Whether an equation may have to be converted.

    Args:
      primitive: its primitive.
      given: the names of the params in its text.
    """
    older = OLDER.get(primitive.name)
    if older is None:
        return not primitive.known and frozenset(given) in _BY_PARAMS
    found = frozenset(given)
    if older.each:
        return True
    if older.told_by:
        return not found.isdisjoint(older.told_by)
    # a primitive without params has no names to compare
    if not older.foreign or not primitive.params:
        return True
    return not (found <= primitive.params.keys() and older.given.keys() <= found)


def is_earlier(primitive: Primitive) -> bool:
    """Whether an equation for which `is_older` holds is of a release before 0.6.1, whose texts have
    untyped literals.
    """
    older = OLDER.get(primitive.name)
    last = older.last if older is not None else None
    return last is not None and last < TYPED_LITERALS


def declared_params(name: str) -> dict[str, Param] | None:
    """Return the params of a primitive, under all names that releases have given them; None where nobody declares it.

    Args:
      name: the name of the primitive in any release.
    """
    if name not in OLDER:
        primitive = declared_primitive(name)
        return None if primitive is None else primitive.params
    return _declared(name, known_primitive(name))


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
    """Convert an equation to the current spelling; one that cannot be read stays as it is."""
    older = OLDER.get(primitive.name) or _BY_PARAMS[frozenset(params)]
    if older.expand is not None and not older.name and not primitive.known:
        return primitive, inputs, params
    if older.name and primitive.known and params.keys() <= primitive.params.keys():
        return primitive, inputs, params  # the current primitive of this name, or an unrelated one
    new = {older.renamed.get(k, k): v for k, v in params.items() if k not in older.dropped}
    if older.given and not older.given.keys() <= new.keys():
        new = {**older.given, **new}
    operands = inputs
    try:
        if older.convert is not None:
            new = older.convert(new, inputs)
        if older.arrange is not None:
            new, operands = older.arrange(new, inputs)
    except _FAULTS:
        return primitive, inputs, params
    found = find_primitive(older.name) if older.name else primitive
    others = found is not primitive and not new.keys() <= found.params.keys()
    # An undeclared primitive that shares a param with this one counts as this one, with another param misspelled.
    if others and (primitive.known or new.keys().isdisjoint(found.params)):
        return primitive, inputs, params
    if new == params and found is primitive and not (older.kept and _respelled(new, params)):
        return found, operands, params
    was = _kept(older, primitive, params, new)
    return found, operands, new if was is None else ReadParams(new, was)


def _respelled(new: Params, params: Params) -> bool:
    """Whether equal params are not printed alike: an element type as its class, say."""
    return any(type(value) is not type(params[key]) for key, value in new.items())


def _kept(older: Older, primitive: Primitive, params: Params, new: Params) -> Replaced | None:
    """Return the old form of an equation, and record it with a jaxpr that it calls; None where it is not needed."""
    if not (older.kept(params) if callable(older.kept) else older.kept):
        return None
    given = {k: changed.wrapped_function(v) for k, v in params.items()}
    was = Replaced(primitive.name, given, new)
    held = next((v for v in new.values() if isinstance(v, ClosedJaxpr)), None)
    if held is not None:
        replaced.keep(held, was)
    return was


def expanded(
    primitive: Primitive, inputs: list[Any], params: Params, outs: Sequence[Var]
) -> list[JaxprEqn] | None:
    """Return the equations that replace one which has no single equivalent; None where it stays as it is."""
    older = OLDER.get(primitive.name) or _BY_PARAMS.get(frozenset(params))
    if has_leaves(primitive, inputs, outs):
        return _for_each_leaf(primitive, inputs, params, outs)
    if older is None or older.expand is None or (primitive.known and not older.foreign):
        return None
    try:
        eqns = older.expand(params, inputs, outs)
    except _FAULTS:
        return None
    if eqns is None or len(eqns) > 1:
        return eqns
    was = _kept(older, primitive, params, eqns[0].params)
    return eqns if was is None else [eqns[0].replace(params=ReadParams(eqns[0].params, was))]


# -- collectives of trees: see `trees` ----------------------------------------------------------------


def takes_leaves(primitive: Any) -> bool:
    """Whether a primitive, ours or JAX's, is a collective that took all leaves of a tree."""
    older = OLDER.get(primitive.name)
    return older is not None and older.each


def has_leaves(primitive: Primitive, inputs: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether an equation is a collective that takes several leaves."""
    return len(inputs) == len(outs) > 1 and takes_leaves(primitive)


def _for_each_leaf(
    primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any], outs: Sequence[Var]
) -> list[JaxprEqn]:
    """Return the equations, in the current spelling, that replace one with several leaves."""
    eqns: list[JaxprEqn] = []
    for x, v in zip(inputs, outs, strict=True):
        found, operands, new = from_older(primitive, [x], params)
        given = {**found.defaults, **new}
        if isinstance(new, ReadParams):
            given = ReadParams(given, new.was)
        eqns.append(JaxprEqn(found, operands, given, [v]))
    return of_leaves(eqns)


def of_leaves(eqns: Sequence[JaxprEqn]) -> list[JaxprEqn]:
    """Mark equations as the leaves of one: they share a new params object."""
    read = eqns[0].params
    params = ReadParams(read, read.was) if isinstance(read, ReadParams) else FrozenParams(read)
    return [eqn.replace(params=params) for eqn in eqns]
