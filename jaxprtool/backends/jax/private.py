"""All names that JAX does not promise to keep: the one module to change for another release of JAX.

It is written for JAX 0.8 to 0.12. The other modules of this package use JAX's public modules, the
attributes that all objects of a kind have (`eqn.params`, `v.aval`), and the names defined here. A
name that a release lacks is None here.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import (
    ad_checkpoint,
    ad_util,
    config,
    core,
    custom_batching,
    hijax,
    linear_util,
    literals,
    source_info_util,
)
from jax._src.effects import Effect, JaxprInputEffect
from jax._src.interpreters import ad, batching, mlir
from jax._src.interpreters.partial_eval import Offloadable, RecomputeType, ensure_enum
from jax._src.mesh import AbstractDevice, empty_concrete_mesh
from jax._src.named_sharding import UNSPECIFIED
from jax._src.state.indexing import NDIndexer
from jax._src.state.types import AbstractRef
from jax.extend import backend
from jax.extend.core import jaxpr_as_fun, primitives

from jaxprtool.backends.jax.releases import first_module
from jaxprtool.core.policies import POLICY_RECORDS

__all__ = [
    # programs
    "ClosedJaxpr",
    "DropVar",
    "Effect",
    "Jaxpr",
    "Literal",
    "Primitive",
    "Tracer",
    "Var",
    "binders_of",
    "evaluate",
    "function_name",
    "jaxpr_as_fun",
    "new_equation",
    "new_jaxpr",
    "own_module",
    "open_and_consts",
    "with_outputs",
    # types
    "ABSTRACT_TOKEN",
    "abstract_device",
    "AbstractRef",
    "EMPTY_MESH",
    "ShapedArray",
    "UNSPECIFIED",
    "array_type",
    "axis_groups",
    "future_type",
    "axes_in_scope",
    "bound_axes",
    "tracked_varying",
    "key_impl",
    "partitions",
    "type_of",
    "type_text",
    "typed_scalar",
    "zeros_of_type",
    # params
    "OPEN_JAXPRS",
    "flat_tree_classes",
    "inline_of",
    # rules
    "call_function",
    "NoTangent",
    "call_vmap_rule",
    "function_place",
    "has_batch_rule",
    "hijax",
    "instantiated",
    "implementations",
    "jvp_rule_of",
    "is_unknown",
    "new_primitive",
    "result_types",
    "wrapped",
    # policies of `jax.checkpoint`
    "POLICY_CLASSES",
    "Offloaded",
    "ask_policy",
    "is_policy_named",
    "policy_maker_of",
    # indices of references
    "indexer",
    "shown_transform",
    "strided_slice",
    # modules, classes and primitives of the running process
    "CALLBACK_LOGGERS",
    "param_class",
    "platforms",
    "primitives",
    "user_frame",
]

CALLBACK_LOGGERS = ("jax._src.callback", "jax._src.debugging")  # they log failures of callbacks

# Programs.

# The classes of which JAX's programs consist; `Literal(value, type)`, `Var(type)` make new ones. A jaxpr with the values of
# its constants is `ClosedJaxpr(jaxpr, values)`; from 0.12 on it is a `Jaxpr` as well.
Jaxpr = core.Jaxpr
ClosedJaxpr: Any = getattr(core, "ClosedJaxpr", Jaxpr)
Literal = core.Literal
Var = core.Var
DropVar = core.DropVar
Primitive = core.Primitive
Tracer = core.Tracer
is_symbolic_dim = core.is_symbolic_dim  # of shape-polymorphic programs


def debug_info(name: str, n_in: int | None = None, n_out: int | None = None) -> Any:
    """JAX's bookkeeping of where a function came from; it prints the name.

    Some rules up to 0.9 want names for its `n_in` arguments and `n_out` results, and take empty ones.
    """
    names = (None if n is None else ("",) * n for n in (n_in, n_out))
    return core.DebugInfo("jaxprtool", name.split(" ")[0] or "f", *names)


def new_jaxpr(
    constvars: Sequence[Any],
    invars: Sequence[Any],
    eqns: Sequence[Any],
    outvars: Sequence[Any],
    name: str,
) -> Any:
    """A `Jaxpr` of the function `name`, which has the effects of its equations."""
    if _EFFECTS_ON_POSITIONS:
        all_effects = _effects_on_binders([*constvars, *invars], eqns)
    else:
        all_effects = core.join_effects(*(e.effects for e in eqns))
    high = any(e.primitive.is_high(*(x.aval for x in e.invars), **e.params) for e in eqns)
    debug = debug_info(name, len(invars), len(outvars))
    return core.Jaxpr(constvars, invars, outvars, eqns, all_effects, debug, high)


# Whether the effects of a jaxpr, and of an equation, name its arguments by position; else by variable.
_EFFECTS_ON_POSITIONS = not hasattr(core, "positional_effects")


_InputEffect: Any = JaxprInputEffect


def _effects_on_binders(binders: Sequence[Any], eqns: Sequence[Any]) -> Any:
    """The effects of equations, those on operands as effects on the positions that these have among `binders`."""
    places = {v: i for i, v in enumerate(binders)}
    found = set()
    for eqn in eqns:
        for effect in eqn.effects:
            if isinstance(effect, _InputEffect):
                place = places.get(eqn.invars[effect.input_index])
                if place is None:  # on what the jaxpr makes itself
                    continue
                effect = effect.replace(input_index=place)
            found.add(effect)
    return found


def open_and_consts(jaxpr: Any) -> tuple[Any, list[Any]]:
    """Return a `Jaxpr` and the values of its constants: None where the jaxpr lacks them (before 0.12)."""
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr.jaxpr, list(jaxpr.consts)
    return jaxpr, [None] * len(jaxpr.constvars)


_CONSTANTS_HAVE_VALUES = ClosedJaxpr is Jaxpr


def with_constants(jaxpr: Any, n: int) -> Any:
    """A `Jaxpr` whose first n arguments are constants without values."""
    return ClosedJaxpr(jaxpr, (None,) * n) if _CONSTANTS_HAVE_VALUES else jaxpr


def binders_of(jaxpr: Any, n: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return a `Jaxpr`'s variables for its n constants and its arguments, which some releases keep in one list."""
    if len(jaxpr.constvars) == n:
        return jaxpr.constvars, jaxpr.invars
    return jaxpr.invars[:n], jaxpr.invars[n:]


def with_outputs(jaxpr: Any, outvars: Sequence[Any]) -> Any:
    """A `Jaxpr` with other results, and without names of arguments and results."""
    unnamed = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    return jaxpr.replace(outvars=list(outvars), debug_info=unnamed)


def new_equation(
    inputs: Sequence[Any],
    outs: Sequence[Any],
    prim: Any,
    params: dict[str, Any],
    pure: bool = False,
    by_place: bool | None = None,
) -> Any:
    """Return a `JaxprEqn`, with the effects that its primitive declares; without asking it where it is `pure`.

    Threefry counts in it as `by_place` says, where that is given (`counts_by_place`).
    """
    found = core.no_effects if pure else _effects(prim, [x.aval for x in inputs], params)
    if by_place is None:
        return core.new_jaxpr_eqn(inputs, outs, prim, params, found)
    with jax.threefry_partitionable(by_place):
        return core.new_jaxpr_eqn(inputs, outs, prim, params, found)


def counts_by_place(eqn: Any) -> bool:
    """Whether Threefry counts by positions: `jax_threefry_partitionable` when the equation was traced."""
    return bool(eqn.ctx.threefry_partitionable)


def _effects(prim: Any, in_avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """The effects of an equation; JAX's rule is called only for primitives that can have effects."""
    if "_effect_free" in (rule := getattr(prim.abstract_eval, "__qualname__", "")):
        return core.no_effects
    bound = {core.NamedAxisEffect(x) for x in getattr(params.get("mesh"), "axis_names", ())}
    nested = [_effects_of(j) - bound for j in core.jaxprs_in_params(params)]
    if nested and not any(nested):
        return core.no_effects
    if rule == "Primitive.abstract_eval":  # it has none: the custom calls
        return core.join_effects(*nested)
    try:
        return prim.abstract_eval(*in_avals, **params)[1]
    except NameError:  # it is over axes that an enclosing vmap will have
        axes = (x for k in ("axes", "axis_name") for x in np.atleast_1d(params.get(k, ())).tolist())
        return {core.NamedAxisEffect(x) for x in axes if isinstance(x, str)}


def _effects_of(jaxpr: Any) -> Any:
    """The effects of a jaxpr, those on its arguments by position."""
    return jaxpr.effects if _EFFECTS_ON_POSITIONS else core.positional_effects(jaxpr)


def evaluate(closed: Any, *args: Any) -> list[Any]:
    """The results of a `ClosedJaxpr`, one primitive after the other; tracers are welcome."""
    return core.eval_jaxpr(closed.jaxpr, closed.consts, *args)


def function_name(held: Any) -> str:
    """The name of the function that was traced to a `Jaxpr`, or that a param of JAX's holds."""
    return held.debug_info.func_name


# Types.

ShapedArray = core.ShapedArray
ABSTRACT_TOKEN = core.abstract_token
EMPTY_MESH = empty_concrete_mesh


def abstract_device(kind: str, cores: int | None, platform: str) -> Any:
    """Return the device description of an abstract mesh; up to 0.9 the platform is no part of it."""
    known = {"device_kind": kind, "num_cores": cores, "platform": platform}
    return AbstractDevice(**{k: known[k] for k in inspect.signature(AbstractDevice).parameters})


def array_type(
    shape: Sequence[Any],
    dtype: Any,
    weak_type: bool = False,
    *,
    on_host: bool = False,
    sharding: Any = None,
    axes: Mapping[str, frozenset[str]] | None = None,
) -> Any:
    """A type of arrays.

    Args:
      shape, dtype, weak_type: as in `jax.ShapeDtypeStruct`.
      on_host: whether they are in the host's memory and not in the device's.
      sharding: a `NamedSharding` on an abstract mesh; None for none.
      axes: the axes of the mesh along which they are "varying", "unreduced" and "reduced".

    Raises:
      ValueError: the shape, the sharding and the axes do not fit together.
    """
    space = jax.memory.Space.Host if on_host else jax.memory.Space.Device
    placed: dict[str, Any] = {}
    if sharding is not None:
        placed["sharding"] = sharding
        if SUMS_IN_TYPES:
            placed["manual_axis_type"] = core.ManualAxisType(**axes or {})
        else:
            placed["vma"] = (axes or {}).get("varying", frozenset())
    return core.ShapedArray(tuple(shape), dtype, weak_type, memory_space=space, **placed)


# Whether types say along which axes of `shard_map` values are summed; else their shardings do.
SUMS_IN_TYPES = hasattr(core, "ManualAxisType")


def future_type(inner: Any) -> Any:
    """The type of a value that is still being computed or sent; None where JAX has no such types."""
    make = getattr(core, "AbstractFuture", None)
    return None if make is None else make(inner)


def type_of(value: Any) -> Any:
    """The type that a value has as a constant."""
    return core.typeof(value)


def type_text(aval: Any) -> str:
    """A type as it stands in a printed jaxpr."""
    return aval.str_short(short_dtypes=True)


def partitions(aval: Any) -> tuple[tuple[str, ...], ...]:
    """Return for each dimension of a type the axes of the mesh that it is split over."""
    parts = aval.sharding.spec._partitions
    return tuple((p,) if isinstance(p, str) else tuple(p or ()) for p in parts)


def axis_groups(aval: Any) -> tuple[Any, ...]:
    """Return the varying, unreduced and reduced axes of a type; and the kind of reduction (see `AxisGroups`)."""
    spec, manual = aval.sharding.spec, getattr(aval, "mat", None)
    if manual is None:
        groups = (aval.vma, spec.unreduced, spec.reduced)
    else:
        groups = (manual.varying, manual.unreduced | spec.unreduced, manual.reduced | spec.reduced)
    order = aval.sharding.mesh.axis_names
    found = [tuple(n for n in order if n in axes) if axes else () for axes in groups]
    kind = getattr(getattr(spec, "unreduced_kind", None), "name", "sum")
    return *found, kind.replace("sum", "")


zeros_of_type = ad_util.zeros_like_aval  # which vary along the axes of the type, too
_TYPED = {"i": literals.TypedInt, "u": literals.TypedInt, "f": literals.TypedFloat}
_TYPED["c"] = literals.TypedComplex


def typed_scalar(value: Any, dtype: Any, kind: str) -> Any:
    """Return the value of a weakly typed literal: a Python number that keeps its own digits and knows its dtype.

    Args:
      value: the number.
      dtype: its dtype.
      kind: "i", "u", "f" or "c".
    """
    return _TYPED[kind](value, dtype)


def tracked_varying(tracked: bool) -> Any:
    """A context in which JAX's functions keep track of the axes along which values vary, or do not."""
    return config._check_vma(tracked)


def bound_axes(sizes: Sequence[tuple[str, int]]) -> Any:
    """A context in which JAX's functions find named axes of these sizes."""
    return core.extend_axis_env_nd(list(sizes))


def axes_in_scope() -> tuple[tuple[tuple[str, int], ...], bool]:
    """Return the named axes in scope for JAX's functions, with sizes, and whether types track varying axes."""
    return tuple(core.get_axis_env().axis_sizes.items()), config._check_vma.value


def key_impl(name: str) -> Any:
    """The generator of keys with this tag (`fry`) or name (`threefry2x32`); None where there is none."""
    return next((p for p in _generators.values() if name in (p.tag, p.name)), None)


_generators: dict[str, Any] = first_module("jax._src.random.prng", "jax._src.prng").prngs


# Params: what differs between our declarations and this release.

# Primitives and their params that hold a `Jaxpr`, where others hold a `ClosedJaxpr`.
_OPEN = ("remat2", "checkpoint", "shard_map", "run_state", "pallas_call", "run_scoped")
OPEN_JAXPRS = frozenset(
    [*[(name, "jaxpr") for name in _OPEN], ("core_call", "call_jaxpr"), ("call", "call_jaxpr")]
)


def flat_tree_classes() -> Any:
    """The module of the trees by which a scan counts its operands from 0.11 on."""
    return first_module("jax._src.flattree")


def inline_of(flag: bool) -> Any:
    """Return the value of JAX's `inline` for the flag that `jax.jit` takes: from 0.11 on an enum."""
    enum: Any = vars(jax)["Inline"]
    return enum.JAX_LATE if flag else enum.AUTO


# Rules of primitives and of functions with their own derivatives.


def result_types(prim: Any, in_avals: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The types of the results of a primitive for operands of these types."""
    out, _ = prim.abstract_eval(*in_avals, **params)
    return list(out) if prim.multiple_results else [out]


def jvp_rule_of(prim: Any) -> Callable[..., Any] | None:
    """JAX's rule that differentiates a primitive forwards: (primals, tangents) -> (results, their tangents)."""
    return ad.primitive_jvps.get(prim)


def has_batch_rule(prim: Any) -> bool:
    """Whether JAX has a rule of a primitive's own for batches."""
    tables = (batching.primitive_batchers, batching.fancy_primitive_batchers)
    return any(isinstance(table, dict) and prim in table for table in tables)  # a view is no dict


# The tangent or cotangent, of a type, that is known to be zero; whether an operand of a transpose rule is one that it is linear in.
NoTangent: Any = ad.Zero  # pyright: ignore[reportPrivateImportUsage]
is_unknown, jvp_of = ad.is_undefined_primal, ad.jvp_jaxpr  # `jvp_of` of a closed jaxpr, with flags
instantiated = ad.instantiate_zeros  # tangents, where those that are known to be zero are arrays


def new_primitive(name: str, several: bool, f: Callable[..., Any], types: Any, rules: Any) -> Any:
    """A primitive that computes f, whose results have these types; `rules` has its `jvp`, `transpose` and `batch`."""
    prim = Primitive(name)
    prim.multiple_results = several
    prim.def_impl(f)
    prim.def_abstract_eval(types)
    mlir.register_lowering(prim, mlir.lower_fun(f, several))
    ad.primitive_jvps[prim], ad.primitive_transposes[prim] = rules.jvp, rules.transpose
    batching.primitive_batchers[prim] = rules.batch
    return prim


def implementations(prim: Any) -> list[tuple[Callable[..., Any], bool]]:
    """Yield functions that may implement a primitive, and whether each returns several results.

    The compiled one, which is what the primitive means, comes first; an `impl` may look at values.
    """
    found: list[tuple[Callable[..., Any], bool]] = []
    entry = mlir._lowerings.get(prim)
    rule = getattr(entry, "rule", None)
    if inspect.isfunction(rule):  # made by `mlir.lower_fun` of a function
        held = inspect.getclosurevars(rule).nonlocals
        if callable(held.get("fun")):
            found.append((held["fun"], bool(held.get("multiple_results", True))))
    found.append((prim.impl, prim.multiple_results))
    if prim.name == "call_hi_primitive":  # the primitives of 0.11 and later that are objects
        found.append((prim.to_lojax, True))
    return found


def wrapped(f: Callable[..., Any], name: Any) -> Any:
    """A function as the params of custom derivatives hold it, under a name."""
    return linear_util.wrap_init(f, debug_info=debug_info(str(name)))


def call_function(held: Any, *args: Any) -> Any:
    """Call a function that a param of a custom derivative holds."""
    return held.call_wrapped(*args)


def function_place(held: Any) -> str:
    """The name, the file and the line of a function that a param of a custom derivative holds."""
    return held.debug_info.func_src_info


def call_vmap_rule(
    rule: Any, axis_size: int, in_batched: Any, args: Any, out_tree: Any
) -> tuple[Any, Any]:
    """The results of the rule of a `custom_vmap` function, and which of them are batched, as trees of one structure.

    Raises:
      Exception: the rule fails, or what it returns does not have the structure.
    """
    out, out_batched = custom_batching.call_rule(rule, axis_size, in_batched, args)
    trees = jax.tree.structure(out), jax.tree.structure(out_batched)
    custom_batching.check_vmap_rule_trees(rule, out_tree, *trees)
    return out, out_batched


def traced_structure(tree: Any) -> Any:
    """The structure of a tree of arguments as `custom_vmap` holds it: since 0.11 it is of another registry."""
    registry = getattr(custom_batching, "tracing_registry", None)
    return jax.tree.structure(tree) if registry is None else registry.flatten(tree)[1]


POLICY_CLASSES = tuple(
    getattr(ad_checkpoint, name) for name in POLICY_RECORDS if hasattr(ad_checkpoint, name)
)


class Offloaded(NamedTuple):
    """The answer of a policy that moves a value to another memory instead of recomputing it."""

    src: Any
    dst: Any


def ask_policy(policy: Any, prim: Any, avals: Sequence[Any], params: Any) -> bool | Offloaded:
    """Return whether a policy saves the results of a primitive, or where it moves them.

    Raises:
      Exception: the policy fails, or returns something that JAX does not accept.
    """
    answer = ensure_enum(policy(prim, *avals, **params))
    if isinstance(answer, Offloadable):
        return Offloaded(answer.src, answer.dst)
    return not isinstance(answer, RecomputeType)


def is_policy_named(policy: Any, name: str) -> bool:
    """Whether a function is itself the policy of JAX's that has this name."""
    return getattr(ad_checkpoint, name, None) is policy


def policy_maker_of(policy: Any) -> str | None:
    """The name of the function of JAX's policies that made a function as a closure; None where none did."""
    own = getattr(policy, "__module__", "") == ad_checkpoint.__name__
    return getattr(policy, "__qualname__", "").partition(".<locals>")[0] if own else None


def own_module(name: str) -> Any:
    """A module that JAX keeps for itself: `pallas.core`, `frozen_dict`."""
    return first_module(f"jax._src.{name}")


# Indices of references.


def shown_transform(transform: Any, names: Mapping[Any, str]) -> str:
    """An index as it stands in a printed jaxpr, with these names for variables."""
    context = core.JaxprPpContext()
    context.var_names.update(names)
    return transform.pretty_print(context).format()


def indexer(items: Sequence[Any], shape: Sequence[int], array_shape: Sequence[int]) -> Any:
    """An index of a reference.

    Args:
      items: for each dimension an atom, an int, or what `strided_slice` makes.
      shape: the shape of what is indexed.
      array_shape: the shape of the arrays among the items.
    """
    return NDIndexer(tuple(items), tuple(shape), tuple(array_shape))


def strided_slice(start: Any, size: int, stride: int) -> Any:
    """`size` positions from `start` (an int or an atom) on, each `stride` after the one before."""
    return _Slice(start, size, stride)


_Slice: Any = first_module("jax._src.indexing", "jax._src.state.indexing").Slice


# What there is in the process.


def user_frame(traceback: Any) -> Any:
    """Return the innermost frame of the user's own code in an equation's traceback; None where there is none.

    It has `file_name`, `start_line`, `start_column` and `function_name`. Frames around a frame of
    this package called it, and did not make the equation.
    """
    found = next(iter(source_info_util.user_frames(traceback)), None)
    return None if found is None or found.file_name.startswith(_OURS) else found


_OURS = os.path.join(Path(__file__).parents[2], "")  # the folder of this package


def platforms() -> list[str]:
    """The platforms whose devices JAX has here: cpu, cuda, tpu and those of plug-ins. Raises RuntimeError where it has none."""
    return sorted(backend.backends())


_FOLDERS = ("jax._src.lax.", "jax._src.custom_partitioning")
_OF_PARAMS = ("jax._src.ad_checkpoint", "jax._src.core", "jax._src.dispatch")


def param_class(name: str) -> Any:
    """A class that params are made of: an enum, a named tuple or a dataclass; None where there is none."""
    for module_name, module in list(sys.modules.items()):
        found = vars(module).get(name) if module_name.startswith("jax.") else None
        if isinstance(found, type):
            near = module_name.startswith(_FOLDERS) or module_name in _OF_PARAMS
            if near or hasattr(found, "_fields") or hasattr(found, "__dataclass_fields__"):
                return found
    return None
