"""Convert primitives and params that differ by release between the installed JAX's form and ours.

Our declarations are those of the newest release, except that a scan has counts of operands in the
place of trees. `ADDED` and `LOST` say which params a release has, `_CHANGES` what another release
names or writes differently. A param that neither knows causes an error that names the installed
JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.flat_trees import flat_trees
from jaxprtool.backends.jax.live import live_hints
from jaxprtool.backends.jax.releases import named, since
from jaxprtool.core.primitive import find_primitive, types_of_results
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive

__all__ = [
    "TEXTS",
    "entering",
    "fill_jit",
    "jit_says_nothing",
    "keep_hints",
    "leaving",
    "our_name",
    "rank_of",
    "their_name",
]

Params = dict[str, Any]

# Primitives that another release calls otherwise: (the first such release, ours, its).
_RENAMED = [
    *[((0, 11, 1), ours, "eval_jaxpr") for ours in ("core_call", "call", "closed_call")],
    ((0, 12), "reduced_vary_cast_p", "reduced_vary_cast"),
    ((0, 12), "vary_unreduced_cast_p", "vary_unreduced_cast"),
]
_THEIR_NAMES = {ours: theirs for release, ours, theirs in _RENAMED if since(*release)}
_OUR_NAMES = {theirs: ours for ours, theirs in _THEIR_NAMES.items()}


def our_name(name: str) -> str:
    """Return our name of a primitive of the installed JAX."""
    return _OUR_NAMES.get(name, name)


def their_name(name: str) -> str:
    """Return the installed JAX's name of a primitive of ours."""
    return _THEIR_NAMES.get(name, name)


# Params that came with a release, and the value that says nothing.
ADDED: dict[tuple[str, str], tuple[tuple[int, ...], Any]] = {
    ("compute_on", "compiler_options_json"): ((0, 10, 1), None),
    ("dce_sink", "prevent_mlir_dce"): ((0, 10), False),
    ("debug_print", "logging_record"): ((0, 8, 1), None),
    ("eig", "enable_eigvec_derivs"): ((0, 10), False),
    ("eigh", "algorithm"): ((0, 8, 1), None),
    ("empty_ref", "pin"): ((0, 11, 1), False),
    ("erfc", "accuracy"): ((0, 12), None),
    ("mul", "out_dtype"): ((0, 10), None),
    ("new_ref", "kind"): ((0, 8, 1), None),
    ("new_ref", "pin"): ((0, 11, 1), False),
    ("pallas_call", "name"): ((0, 8, 1), None),
    ("ragged_dot_general", "out_sharding"): ((0, 10, 1), None),
    ("reciprocal", "full_range"): ((0, 9, 2), True),
    ("reduce_max", "out_sharding"): ((0, 11, 1), None),
    ("reduce_min", "out_sharding"): ((0, 11, 1), None),
    ("scan", "ft_in"): ((0, 11), None),
    ("scan", "ft_out"): ((0, 11), None),
    ("top_k", "is_stable"): ((0, 11), True),
    ("tridiagonal_solve", "perturb_singular"): ((0, 10), False),
}
# Params that a release took away, and the value that says nothing.
LOST: dict[tuple[str, str], tuple[tuple[int, ...], Any]] = {
    ("pallas_call", "backend"): ((0, 9, 1), None),
    ("scan", "_split_transpose"): ((0, 10), False),
    ("scan", "linear"): ((0, 10), None),
}
# Params of our declarations that none of these releases has, or not when it is None.
_UNLESS_NONE = frozenset({"branches_platforms", "unroll"})
_OURS: dict[str, frozenset[str]] = {
    "cond": frozenset({"branches_platforms"}),
    "conj": frozenset({"_input_dtype"}),
    "custom_vmap_call": frozenset({"batched_by"}),
    "dim_as_value": frozenset({"dtype"}),
    "dimension_size": frozenset({"dtype"}),
    "jit": frozenset({"backend"}),
    "linear_call": frozenset({"transpose_jaxpr"}),
    "pallas_call": frozenset({"index_maps", "vmapped_dims"}),
    "polynomial": frozenset({"unroll"}),
    "random_bits": frozenset({"partitionable"}),
    "random_gamma": frozenset({"partitionable"}),
    "random_split": frozenset({"partitionable"}),
    "reduce_prod": frozenset({"out_sharding"}),
}
# Params of our declarations that say what none of these releases does, but for the value that says nothing.
_FORMER: dict[tuple[str, str], Any] = {("random_gamma", "complement"): True}
# Params that are hints to a compiler: where JAX has them and we do not, or the other way round, they are left out.
_HINTS = frozenset(
    {("erfc", "accuracy"), ("scan", "ft_in"), ("scan", "ft_out"), ("top_k", "is_stable"), *LOST}
)

# Params that we hold as text only; their JAX objects are made from other params.
TEXTS = frozenset({("scan", "ft_in"), ("scan", "ft_out")})


class _Change(NamedTuple):
    """The params of a primitive in some releases, where they differ from our declaration.

    Attributes:
      enter: (JAX's params, rank of the first operand) -> JAX's objects under the names of our
        declaration.
      leave: (those, numbers of operands and results, rank) -> JAX's params.
    """

    enter: Callable[[Params, int], Params]
    leave: Callable[[Params, int, int, int], Params]


def _renamed(ours: str, theirs: str) -> _Change:
    """Return the change for a param that has another name."""

    def enter(params: Params, rank: int) -> Params:
        return {ours if k == theirs else k: v for k, v in params.items()}

    def leave(params: Params, n_in: int, n_out: int, rank: int) -> Params:
        return {theirs if k == ours else k: v for k, v in params.items()}

    return _Change(enter, leave)


# Scans from 0.11 on: trees of the operands for the counts of constants and carry.


def _enter_counts(params: Params, rank: int) -> Params:
    consts, carry, _ = map(len, params["ft_in"].unpack())
    texts = {k: str(params[k]) for k in ("ft_in", "ft_out")}
    return {**params, **texts, "num_consts": consts, "num_carry": carry}


def _leave_counts(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    params = dict(params)
    consts, carry = params.pop("num_consts"), params.pop("num_carry")
    ins, outs = (consts, carry, n_in - consts - carry), (carry, n_out - carry)
    trees = {k: flat_trees(n, params.get(k)) for k, n in (("ft_in", ins), ("ft_out", outs))}
    return {**params, **trees}


def _as_it_is(params: Params, rank: int) -> Params:
    return dict(params)


def _leave_linear(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    """Return the params of a scan before 0.10, which says of each operand whether it is linear."""
    linear = params.get("linear")
    known = linear is not None and len(linear) == n_in
    filled = {"linear": linear if known else (False,) * n_in, "_split_transpose": False}
    return {**params, **filled, "_split_transpose": bool(params.get("_split_transpose"))}


def _leave_flags(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    """Return the params of a run_state with flags that say nothing."""
    filled = {"which_linear": (False,) * n_in, "is_initialized": (True,) * n_in}
    return {**params, **{k: v for k, v in filled.items() if not params[k]}}


# Calls from 0.11 on: an enum for when a call is inlined, which was True or False.


def _enter_inline(params: Params, rank: int) -> Params:
    return {**params, "inline": params["inline"] is private.inline_of(True)}


def _leave_inline(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    return {**params, "inline": private.inline_of(params["inline"])}


# Attributes of calls: a param each, and from 0.11 on pairs in one param, beside those of the call's derivatives.


def _leave_attributes(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    if "xla_metadata" not in params:
        return params
    rest = {k: v for k, v in params.items() if k not in ("xla_metadata", "ad_metadata")}
    return {**rest, **dict(params["xla_metadata"])}


def _leave_pairs(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    if "xla_metadata" in params:
        return {"ad_metadata": "same", **params}
    pairs = sorted((k, v) for k, v in params.items() if k != "jaxpr")
    return {"jaxpr": params["jaxpr"], "xla_metadata": tuple(pairs), "ad_metadata": "same"}


# The axis of a `top_k`, and groups of the members of an axis: up to 0.8.0 the last axis alone, and a param that is None.


def _enter_last(params: Params, rank: int) -> Params:
    return {**params, "axis": rank - 1}


def _leave_last(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    if params["axis"] not in (rank - 1, -1):
        _unknown(f"top_k has no param axis, which is {params['axis']}")
    return {k: v for k, v in params.items() if k != "axis"}


def _enter_no_groups(params: Params, rank: int) -> Params:
    if params.get("axis_index_groups") is not None:
        _unknown("axis_index_groups cannot be read here")
    return {k: v for k, v in params.items() if k != "axis_index_groups"}


def _leave_no_groups(params: Params, n_in: int, n_out: int, rank: int) -> Params:
    return {**params, "axis_index_groups": None}


# (primitive, first release of the change, first release without it, the change)
_CHANGES: list[tuple[str, tuple[int, ...], tuple[int, ...], _Change]] = [
    ("composite", (0, 11), (), _renamed("jaxpr", "call_jaxpr")),
    ("jit", (0, 11), (), _Change(_enter_inline, _leave_inline)),
    ("run_state", (0,), (), _Change(_as_it_is, _leave_flags)),
    ("scan", (0,), (0, 10), _Change(_as_it_is, _leave_linear)),
    ("scan", (0, 11), (), _Change(_enter_counts, _leave_counts)),
    ("shard_map", (0,), (0, 10), _renamed("newly_manual_axes", "manual_axes")),
    ("top_k", (0,), (0, 8, 1), _Change(_enter_last, _leave_last)),
    ("psum_invariant", (0,), (0, 8, 1), _Change(_enter_no_groups, _leave_no_groups)),
    ("pvary", (0,), (0, 8, 1), _Change(_enter_no_groups, _leave_no_groups)),
    ("xla_metadata_call", (0,), (0, 11), _Change(_as_it_is, _leave_attributes)),
    ("xla_metadata_call", (0, 11), (), _Change(_as_it_is, _leave_pairs)),
]
_CHANGE = {p: c for p, first, end, c in _CHANGES if since(*first) and not (end and since(*end))}


def _absent() -> dict[str, dict[str, Any]]:
    """Return the params of a primitive that the installed JAX does not have, with the values that say nothing."""
    found: dict[str, dict[str, Any]] = {}
    for (name, key), (release, nothing) in ADDED.items():
        if not since(*release):
            found.setdefault(name, {})[key] = nothing
    for (name, key), (release, nothing) in LOST.items():
        if since(*release):
            found.setdefault(name, {})[key] = nothing
    for (name, key), nothing in _FORMER.items():
        found.setdefault(name, {})[key] = nothing
    return found


_ABSENT = _absent()

# Params that say which of several things of the same meaning JAX is to do: they come back where the jaxpr is unchanged.
_KEPT: dict[str, tuple[str, tuple[str, ...]]] = {
    "jit": ("jaxpr", ("inline",)),
    "scan": ("jaxpr", ("ft_in", "ft_out")),
}
if not since(0, 11):
    _KEPT = {}


def _counts(name: str) -> bool:
    """Whether equations of a primitive have a Threefry counting mode: in JAX in their context, here in a param."""
    return "partitionable" in _ours(name)


def by_place(eqn: JaxprEqn) -> bool | None:
    """Return how Threefry counts in an equation of ours (`private.new_equation`); None where it is not used."""
    return eqn.params["partitionable"] if _counts(eqn.primitive.name) else None


def entering(eqn: Any, primitive: Primitive) -> Params:
    """Return the params of an equation of JAX's by the names of our declaration; the values are still JAX's.

    Raises:
      UnsupportedError: the installed JAX has a param that is not known here.
    """
    name, params = primitive.name, eqn.params
    change = _CHANGE.get(name)
    if change is not None:
        try:
            params = change.enter(params, rank_of(eqn.invars))
        except KeyError as e:
            _unknown(f"{name} has no param {e.args[0]}")
    for key in () if primitive.open else params.keys() - primitive.params.keys():
        nothing = ADDED.get((name, key))
        if nothing is None and (name, key) not in _THEIRS and not primitive.notation:
            _unknown(f"{name} has the unknown param {key}")
        if nothing is not None:
            if params[key] != nothing[1] and (name, key) not in _HINTS:
                _unknown(f"{name}: {key}={params[key]} cannot be read")
            params = {k: v for k, v in params.items() if k != key}
    if not _required(name) <= params.keys():
        _unknown(f"{name} has no param {', '.join(sorted(_required(name) - params.keys()))}")
    if _counts(name):
        return {**params, "partitionable": private.counts_by_place(eqn)}
    return params


@functools.cache
def _required(name: str) -> frozenset[str]:
    """Return the params that an equation of JAX's must have."""
    primitive = find_primitive(name)
    if primitive.notation or name in _HELD:
        return frozenset()
    return frozenset(primitive.params.keys() - primitive.defaults.keys() - primitive.optional)


# Primitives whose params other modules of this package make, of functions of Python's or of types.
_HELD = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_lin", "reshard"})

# Params that hold functions of Python's, which other modules of this package read.
_THEIRS = frozenset(
    {
        ("custom_jvp_call", "jvp_jaxpr_fun"),
        ("custom_vjp_call", "fwd_jaxpr_thunk"),
        ("custom_vjp_call", "out_trees"),
        ("reshard", "concrete_mesh"),
    }
)


def _unknown(what: str) -> Any:
    fail(UnsupportedError, f"{named()}: {what}", "jax-release")


def keep_hints(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Record with a jaxpr of ours the params of JAX's equation that only say how to run it.

    Args:
      name: the name of the primitive.
      theirs: JAX's params.
      ours: the same params converted to ours.
    """
    if name in _KEPT:
        held, keys = _KEPT[name]
        jaxpr: ClosedJaxpr = ours[held]
        live_hints.keep(jaxpr, {k: theirs[k] for k in keys})


def rank_of(operands: Sequence[Any]) -> int:
    """Return the rank of the first operand of an equation of JAX's; 0 where there is none."""
    return len(getattr(operands[0].aval, "shape", ())) if operands else 0


def leaving(
    name: str, params: Params, ours: Mapping[str, Any], n_in: int, n_out: int, rank: int = 0
) -> Params:
    """Return the params of an equation as the installed JAX has them.

    Args:
      name: the name of the primitive.
      params: JAX's objects by the names of our declaration.
      ours: the params of our equation.
      n_in, n_out: the numbers of operands and results of the equation.
      rank: the rank of its first operand.

    Raises:
      UnsupportedError: a param that the installed JAX does not have has a meaning.
    """
    texts = {key: ours.get(key) for primitive, key in TEXTS if primitive == name}
    params = {**_added(name), **texts, **params}
    for key in _ours(name):
        if key in params and (key not in _UNLESS_NONE or params[key] is None):
            params = {k: v for k, v in params.items() if k != key}
    for key, nothing in _ABSENT.get(name, {}).items():
        if key in params:
            if params[key] != nothing and (name, key) not in _HINTS:
                _unknown(f"{name} has no param {key}, which is {params[key]}")
            params = {k: v for k, v in params.items() if k != key}
    change = _CHANGE.get(name)
    if change is None:
        return params
    left = change.leave(params, n_in, n_out, rank)
    return _with_hints(name, left, ours, change)


@functools.cache
def _ours(name: str) -> frozenset[str]:
    """Return the params of a primitive that no release has: those of `_OURS`, and types of results
    that a print may lack.
    """
    declared = find_primitive(name).params.items()
    implied = [k for k, p in declared if p.hidden == "implied" and p.recover is types_of_results]
    return _OURS.get(name, frozenset()).union(implied)


@functools.cache
def _added(name: str) -> Params:
    """Return the params that the installed JAX has and an equation of ours may lack, with the
    values that say nothing.
    """
    return {
        key: nothing
        for (primitive, key), (release, nothing) in ADDED.items()
        if primitive == name and since(*release)
    }


def _with_hints(name: str, left: Params, ours: Mapping[str, Any], change: _Change) -> Params:
    """Return params with the recorded hints of JAX's equation, where these do not change the meaning."""
    if name not in _KEPT:
        return left
    held = ours.get(_KEPT[name][0])
    kept = None if held is None else live_hints.find(held)
    if kept is None:
        return left
    trial = {**left, **kept}
    there, here = (
        {k: v for k, v in change.enter(p, 0).items() if (name, k) not in TEXTS}
        for p in (trial, left)
    )
    return trial if there == here else left


# Calls: params that JAX always has, and ours only where they say something.


def fill_jit(params: dict[str, Any], n_in: int, n_out: int) -> None:
    """Give `jit` params that are None or missing JAX's default values, in place."""
    defaults = {
        "in_shardings": (private.UNSPECIFIED,) * n_in,
        "out_shardings": (private.UNSPECIFIED,) * n_out,
        "in_layouts": (None,) * n_in,
        "out_layouts": (None,) * n_out,
        "donated_invars": (False,) * n_in,
        "ctx_mesh": private.EMPTY_MESH,
    }
    for key, default in defaults.items():
        if params.get(key) is None:
            params[key] = default


def _all_unspecified(shardings: Any) -> bool:
    return all(type(s) is type(private.UNSPECIFIED) for s in shardings)


_SAYS_NOTHING: dict[str, Callable[[Any], bool]] = {
    "in_shardings": _all_unspecified,
    "out_shardings": _all_unspecified,
    "in_layouts": lambda layouts: not any(layouts),
    "out_layouts": lambda layouts: not any(layouts),
    "donated_invars": lambda xs: not any(xs),
    "ctx_mesh": lambda mesh: mesh.empty,
}


def jit_says_nothing(params: Mapping[str, Any]) -> list[str]:
    """Return the params of a `jit` that have the default values of `fill_jit`."""
    return [k for k, holds in _SAYS_NOTHING.items() if k in params and holds(params[k])]
