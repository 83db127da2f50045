"""Convert our jaxprs to JAX's, object by object, so that JAX can evaluate, compile and differentiate them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.absent_calls import in_current_form
from jaxprtool.backends.jax.batching import with_vmap_rule
from jaxprtool.backends.jax.custom_rules import rebuild_custom_rule
from jaxprtool.backends.jax.hi_primitives import hi_primitive, shown_as
from jaxprtool.backends.jax.kernels import (
    grid_mapping_to_jax,
    masked_to_jax,
    without_empty_hints,
)
from jaxprtool.backends.jax.live import (
    LiveFunction,
    LiveOpaque,
    LivePrimitive,
    LiveRecord,
    LiveWord,
    Named,
    live_jaxpr,
)
from jaxprtool.backends.jax.objects import (
    UNREADABLE,
    array_of_print,
    computation_of,
    object_of_record,
    object_of_text,
    symbolic_dim,
)
from jaxprtool.backends.jax.placement import (
    HOLD_A_MESH,
    HOLD_A_SHARDING,
    entered,
    fill_sharding,
    first_mesh,
    manual_mesh,
    mesh_of_live,
    on_mesh,
    spec_of,
    tracking,
    uses_mesh,
)
from jaxprtool.backends.jax.plug_ins import (
    is_plug_ins,
    loses_tangents,
    of_impl,
    stand_in,
    takes,
    theirs_in_library,
)
from jaxprtool.backends.jax.policies import policy_maker, policy_of_text
from jaxprtool.backends.jax.primitives import has_primitive, jax_primitive, key_array, key_generator
from jaxprtool.backends.jax.refs import drops_what_was_there, index_to_jax
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.jax.stand_ins import call_jaxpr, expand_dims, is_called
from jaxprtool.backends.jax.thunks import with_thunk
from jaxprtool.backends.jax.types import NO_MESH, jax_aval, jax_dtype, jax_literal
from jaxprtool.backends.jax.varying import varying_alike
from jaxprtool.backends.jax.vocabulary import TEXTS, by_place, fill_jit, leaving, our_name, rank_of
from jaxprtool.backends.jax.wide_types import with_wide_types
from jaxprtool.backends.jax.written_twice import Twice, written_twice
from jaxprtool.backends.numpy_eval import KeyArray, np_dtype
from jaxprtool.core.kinds.functions import NameKind
from jaxprtool.core.kinds.objects import JsonTextKind
from jaxprtool.core.primitive import find_primitive
from jaxprtool.interpreters.check import check_constants
from jaxprtool.interpreters.evaluation.missing_values import present_constants
from jaxprtool.ir.avals import (
    NO_GROUPS,
    ShapedArray,
    SymbolicDim,
)
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.params import (
    NumpyScalar,
    Opaque,
    PrintedArray,
    RangeTuple,
    Record,
    Structured,
    Word,
)
from jaxprtool.ir.placement import Placement
from jaxprtool.ir.walk import all_eqns
from jaxprtool.makers.indexing import update_jaxpr_of
from jaxprtool.rules.effects import absent_function, calls_absent
from jaxprtool.rules.scatter import COMBINED_BY
from jaxprtool.syntax.elided_params import params_order, without_defaults
from jaxprtool.syntax.releases.dialects import installed
from jaxprtool.syntax.releases.trees import joined

__all__ = ["eqn_to_jax", "jax_params", "to_jax"]


def to_jax(program: ClosedJaxpr) -> Any:
    """Return a `jax.extend.core.ClosedJaxpr` that JAX can evaluate, compile, print and differentiate.

    Constants become JAX arrays of their own types, and the jaxpr is the same with and without
    `jax_enable_x64`; JAX evaluates 64-bit types only with it. Rules of custom derivatives are
    rebuilt from our jaxprs; where ours hold none, the function itself is differentiated.

    Raises:
      UnsupportedError: a primitive that JAX does not have, a param or type that is only known as
        text, or a constant without a value.
    """
    check_constants(program)
    if installed().joins_leaves:
        program = joined(program)
    try:
        writer = _Writer(mesh_of_live(live_jaxpr.find(program)))
        of_keys = functools.partial(writer.named_objects, program)
        writer.mesh = writer.mesh or first_mesh(of_keys(HOLD_A_MESH), of_keys(HOLD_A_SHARDING))
        writer.twice = written_twice(program)
        with with_wide_types(program):
            return writer.closed(program)
    except RecursionError:
        fail(UnsupportedError, "jaxprs are nested too deeply for JAX", "too-deep")


def eqn_to_jax(eqn: JaxprEqn) -> Any:
    """Convert one equation to JAX's, with variables of its own, whose types have no placement, and without effects.

    Raises:
      UnsupportedError: as `to_jax`.
    """
    inputs = [x if type(x) is Lit else Var(_unplaced(x.aval)) for x in eqn.inputs]
    env = {x: private.Var(jax_aval(x.aval)) for x in inputs if type(x) is not Lit}
    binders = [Var(_unplaced(v.aval)) for v in eqn.out_binders]
    with with_wide_types([x.aval for x in (*inputs, *binders)]):
        parts = _Writer().parts(eqn.replace(inputs=inputs, out_binders=binders), env)
    return private.new_equation(*parts, pure=True, by_place=by_place(eqn))


def jax_params(prim: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return the params of an equation of `prim`, a primitive of JAX's, as JAX holds them.

    Raises UnsupportedError.
    """
    return _Writer().params(prim, params)


def _unplaced(aval: Any) -> Any:
    return (
        aval.update(spec=(), memory="", vary=NO_GROUPS) if isinstance(aval, ShapedArray) else aval
    )


class _Writer:
    """One conversion; a jaxpr that was met before, on the same mesh, becomes the same object again.

    Attributes:
      mesh: the mesh of the types at the current position; None for none.
      twice: jaxprs and variables that the text has several times, and that are one object.
      read: results that are unread in the program itself, but read in the jaxpr that is converted.
    """

    def __init__(self, mesh: Any = None) -> None:
        self.twice = Twice()
        self.jaxprs: dict[Any, Any] = {}
        self.closeds: dict[Any, Any] = {}
        self.variables: dict[Any, Any] = {}
        self.read: set[DropVar] = set()
        self.mesh = mesh

    @contextlib.contextmanager
    def on(self, mesh: Any) -> Iterator[None]:
        """Set the mesh of the types while jaxprs are converted."""
        outer, self.mesh = self.mesh, mesh
        try:
            with entered(mesh):
                yield
        finally:
            self.mesh = outer

    def aval(self, aval: Any) -> Any:
        """Convert a type of ours to JAX's, at the current position."""
        return jax_aval(aval, self.mesh if uses_mesh(self.mesh) else None)

    def closed(self, program: ClosedJaxpr, name: str = "jaxprtool") -> Any:
        program = self.twice.jaxprs.get(program.jaxpr, program)
        key = program, self.mesh
        found = self.closeds.get(key)
        if found is None:
            consts = [
                self.const(c, v.aval)
                for v, c in present_constants(program, UnsupportedError, code="no-constant")
            ]
            found = self.closeds[key] = private.ClosedJaxpr(self.jaxpr(program.jaxpr, name), consts)
        return found

    def const(self, value: Any, aval: Any) -> Any:
        if isinstance(value, KeyArray):
            return key_array(value)
        if hasattr(value, "tolist") and not hasattr(value, "__array__"):  # the text of a file
            if aval.dtype.kind == "k":
                shape = (*aval.shape, aval.dtype.bits // 32)
                words = jax.numpy.asarray(value.tolist(), np.uint32).reshape(shape)
                return jax.random.wrap_key_data(words, impl=key_generator(aval.dtype).name)
            if aval.dtype.kind == "0":
                return np.zeros(aval.shape, np_dtype(aval.dtype))
            # the text of an array without elements does not say its later axes: `[]` is one of f32[0,3]
            value = np.asarray(value.tolist(), np_dtype(aval.dtype)).reshape(aval.shape)
        return jax.numpy.asarray(value)

    def jaxpr(self, jaxpr: Jaxpr, name: str = "jaxprtool") -> Any:
        key = jaxpr, self.mesh
        found = self.jaxprs.get(key)
        if found is None:
            env: dict[Any, Any] = {}
            atoms = (*jaxpr.outs, *[x for eqn in jaxpr.eqns for x in eqn.inputs])
            self.read.update(x for x in atoms if isinstance(x, DropVar))
            constvars = [self.binder(v, env) for v in jaxpr.const_binders]
            invars = [self.binder(v, env) for v in jaxpr.in_binders]
            given = jaxpr.eqns if self.mesh is None else varying_alike(jaxpr.eqns)
            eqns = [self.eqn(e, env) for e in given]
            outvars = [self.atom(x, env) for x in jaxpr.outs]
            found = self.jaxprs[key] = private.new_jaxpr(constvars, invars, eqns, outvars, name)
        return found

    def binder(self, v: Any, env: dict[Any, Any]) -> Any:
        if isinstance(v, DropVar) and v not in self.read:
            return private.DropVar(self.aval(v.aval))
        key = self.twice.variables.get(v, v), self.mesh
        if key not in self.variables:
            try:
                self.variables[key] = private.Var(self.aval(v.aval))
            except UnsupportedError as e:
                raise e.placed_at(v) from None
        var = env[v] = self.variables[key]
        return var

    def atom(self, x: Any, env: dict[Any, Any]) -> Any:
        return jax_literal(x) if type(x) is Lit else env[x]

    def eqn(self, eqn: JaxprEqn, env: dict[Any, Any]) -> Any:
        try:
            parts = self.parts(eqn, env)
        except JaxprToolError as e:
            raise e.placed_at(eqn) from None
        try:
            return private.new_equation(*parts, by_place=by_place(eqn))
        except Exception as e:  # a rule of JAX's runs here: any error is possible
            message = f"{eqn.primitive}: JAX does not take the equation: {e}"
            return fail(UnsupportedError, message, "jax-refuses", span=eqn.span)

    def parts(self, eqn: JaxprEqn, env: dict[Any, Any]) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return operands, results, primitive and params of an equation."""
        eqn = in_current_form(eqn, has_primitive)
        inputs = [self.atom(x, env) for x in eqn.inputs]
        outs = [self.binder(v, env) for v in eqn.out_binders]
        name, params = eqn.primitive.name, eqn.params
        if isinstance(eqn.primitive, LivePrimitive) and eqn.primitive.given is not None:
            return inputs, outs, eqn.primitive.value, eqn.primitive.given
        if name == "expand_dims":  # a function of JAX's, not a primitive
            name, params = "broadcast_in_dim", expand_dims(eqn)
        elif is_called(name):
            called = call_jaxpr(name, [x.aval for x in inputs], params)
            return inputs, outs, *_jit_of(called, name, True, len(inputs), len(outs))
        elif name in _CALLS and not has_primitive(name):
            called, label = self.closed(params["call_jaxpr"]), str(params.get("name", name))
            return inputs, outs, *_jit_of(called, label, False, len(inputs), len(outs))
        elif name in _SOLVED:
            return self.solver(eqn, inputs, outs)
        elif is_plug_ins(eqn.primitive):
            return inputs, outs, *self.of_plug_in(eqn, [x.aval for x in inputs])
        elif type(eqn.primitive) is not LivePrimitive and not has_primitive(name):
            found = self.hi_primitive(eqn, inputs, outs)
            if found is not None:
                return inputs, outs, jax_primitive("call_hi_primitive"), {"_prim": found}
            called = of_impl(eqn.primitive, [x.aval for x in inputs], params, to_jax, self.aval)
            if called is not None and loses_tangents(eqn.primitive, params, called):
                return inputs, outs, *self.stand_in(eqn)
            if called is not None:
                return inputs, outs, *_jit_of(called, name, True, len(inputs), len(outs))
        prim = eqn.primitive.value if type(eqn.primitive) is LivePrimitive else jax_primitive(name)
        if name == "reshard":
            return inputs, outs, prim, self.reshard(eqn, prim)
        if eqn.primitive.notation:
            return self.reference(eqn, inputs, outs, prim)
        if name in ("custom_jvp_call", "custom_vjp_call", "custom_lin"):
            return inputs, outs, prim, rebuild_custom_rule(eqn, self.closed, self.aval)
        if name == "pallas_call":
            return inputs, outs, prim, self.kernel(eqn, prim)
        if name == "custom_vmap_call":
            params = with_vmap_rule(eqn, functools.partial(self.param, prim), to_jax)
        if calls_absent(eqn):
            params = {**params, "callback": Named(absent_function(eqn), str(params["callback"]))}
        with self.on(self.inner_mesh(prim, params)), tracking(name, params):
            restored = self.params(prim, with_thunk(name, params, self.closed))
        if name == "conj" and restored["input_dtype"] is None:  # JAX's transpose reads it
            restored["input_dtype"] = inputs[0].aval.dtype
        self.fill_tree(name, prim, restored, len(inputs))
        if any(x.aval.annotated for x in (*eqn.inputs, *eqn.out_binders)):
            fill_sharding(eqn, prim, restored, inputs, outs, self.mesh)
        if name == "jit":
            fill_jit(restored, len(inputs), len(outs))
        if name in COMBINED_BY and restored["update_jaxpr"] is None:  # JAX's rules would overwrite
            combined = update_jaxpr_of(COMBINED_BY[name], eqn.inputs[0].aval.dtype)
            restored["update_jaxpr"] = self.jaxpr(combined.jaxpr)
        if isinstance(restored.get("computation"), Opaque):
            computation = computation_of(restored["jaxpr"])
            restored["computation"] = Named(computation, restored["computation"].text)
        counts = len(inputs), len(outs), rank_of(inputs)
        return inputs, outs, prim, leaving(name, restored, params, *counts)

    def fill_tree(self, name: str, prim: Any, restored: dict[str, Any], n: int) -> None:
        """Make the tree of n operands, which a text does not hold, where its structure does not matter."""
        if name == "check" and restored["err_tree"] is None:
            _unknown_param(prim, "err_tree", None)
        if name == "debug_print" and restored["in_tree"] is None:
            flat = (0,) * (n + len(restored["static_args"]))
            restored["in_tree"] = jax.tree.structure((flat, {}))

    def solver(
        self, eqn: JaxprEqn, inputs: list[Any], outs: list[Any]
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return the parts of an equation of which the text holds only a solver.

        It calls the solver, and prints as JAX's equation where JAX can do so.
        """
        name = eqn.primitive.name
        called = self.closed(eqn.params[_SOLVED[name]])
        n, jit = len(called.in_avals), jax_primitive("jit")
        order = params_order(eqn.primitive, dict(eqn.params))
        shown = {k: self.param(jit, k, eqn.params[k]) for k in order}
        solve = lambda *xs: private.evaluate(called, *xs[:n])  # noqa: E731
        found = shown_as(name, shown, solve, [x.aval for x in inputs], [v.aval for v in outs])
        if found is not None:
            return inputs, outs, jax_primitive("call_hi_primitive"), {"_prim": found}
        return inputs[:n], outs, *_jit_of(called, name, False, n, len(outs))

    def of_plug_in(self, eqn: JaxprEqn, avals: list[Any]) -> tuple[Any, dict[str, Any]]:
        """Return JAX's primitive and params for an equation of a plug-in's primitive: its
        library's, else the stand-in's.
        """
        ours = eqn.primitive
        # Where JAX has none, or a param is known only as text, the stand-in does it.
        with contextlib.suppress(UnsupportedError):
            theirs = theirs_in_library(ours) if ours.library else jax_primitive(ours.name)
            if theirs is not None:
                params = self.params(theirs, eqn.params)
                if not ours.optional or takes(theirs, avals, params):
                    return theirs, params
        return self.stand_in(eqn)

    def stand_in(self, eqn: JaxprEqn) -> tuple[Any, dict[str, Any]]:
        """Return the stand-in's primitive and params for an equation, without params that equal our
        defaults: JAX prints all.
        """
        prim = eqn.primitive
        return stand_in(prim, to_jax, self.aval), without_defaults(prim, eqn.params)

    def reference(
        self, eqn: JaxprEqn, inputs: list[Any], outs: list[Any], prim: Any
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return the parts of an equation on a reference."""
        outs = [private.DropVar(v.aval) for v in outs] if drops_what_was_there(eqn) else outs
        n = len(inputs) - sum(bool(eqn.params.get(k)) for k in ("mask", "other"))
        extra = inputs[n:]
        inputs, tree = index_to_jax(eqn, inputs[:n])
        if not extra:
            return inputs, outs, prim, {"tree": tree}
        inputs, name, params = masked_to_jax(eqn, inputs, tree, extra)
        return inputs, outs, jax_primitive(name), params

    def kernel(self, eqn: JaxprEqn, prim: Any) -> dict[str, Any]:
        """Return the params of a `pallas_call`: its grid mapping is JAX's own where it came from JAX."""
        params = without_empty_hints(eqn.params)
        mapping = params.pop("grid_mapping")
        restored = leaving("pallas_call", self.params(prim, params), eqn.params, 0, 0)
        live = isinstance(mapping, LiveRecord)
        avals = [v.aval for v in restored["jaxpr"].invars]
        restored["grid_mapping"] = (
            mapping.value if live else grid_mapping_to_jax(eqn, avals, self.closed)
        )
        return restored

    def hi_primitive(self, eqn: JaxprEqn, inputs: list[Any], outs: list[Any]) -> Any:
        """Return JAX's object for an equation named after a class, as `SearchSorted`; None where there is none."""
        name = eqn.primitive.name
        params = {k: str(v) if isinstance(v, Word) else v for k, v in eqn.params.items()}
        try:
            return hi_primitive(name, [x.aval for x in inputs], [v.aval for v in outs], params)
        except Exception as e:  # the object evaluates its function's types: any error is possible
            if not eqn.primitive.known:  # a class of JAX's own, made of other things than operands
                return None
            message = f"{name}: JAX does not take the equation: {e}"
            return fail(UnsupportedError, message, "jax-refuses", span=eqn.span)

    def inner_mesh(self, prim: Any, params: dict[str, Any]) -> Any:
        """Return the mesh of the types in the jaxprs of an equation."""
        if prim.name == "shard_map":
            mesh = self.param(prim, "mesh", params["mesh"])
            return manual_mesh(mesh, self.param(prim, "axes", params["newly_manual_axes"]))
        if params.get("ctx_mesh") is None:
            return self.mesh
        mesh = self.param(prim, "ctx_mesh", params["ctx_mesh"])
        return self.mesh if mesh.empty else mesh.abstract_mesh

    def named_objects(self, program: ClosedJaxpr, keys: Sequence[str]) -> Iterator[Any]:
        """Yield JAX's objects for params of a program's equations, in inner jaxprs too, where there
        are such objects.
        """
        for eqn in all_eqns(program.jaxpr):
            for key in keys:
                if eqn.primitive.known and eqn.params.get(key) is not None:
                    with contextlib.suppress(UnsupportedError):
                        yield self.param(jax_primitive(eqn.primitive.name), key, eqn.params[key])

    def reshard(self, eqn: JaxprEqn, prim: Any) -> dict[str, Any]:
        """Return the params of a `reshard`, taken from the type of its result where they are missing."""
        aval, given = eqn.out_binders[0].aval, eqn.params["dst_sharding"]
        if given is not None and not isinstance(given, Placement):
            made = {"dst_sharding": self.param(prim, "dst_sharding", given)}
            made = on_mesh(made, self.mesh)
            where = {"concrete_mesh": self.param(prim, "mesh", eqn.params["concrete_mesh"])}
            return {**made, **(where if since(0, 8, 2) else {})}
        if self.mesh is None:
            fail(
                UnsupportedError,
                f"the mesh of the type {aval} is not known",
                "opaque-type",
                help=NO_MESH,
            )
        sharding = jax.NamedSharding(self.mesh, spec_of(aval, self.mesh))
        return {"dst_sharding": sharding, **({"concrete_mesh": None} if since(0, 8, 2) else {})}

    def params(self, prim: Any, params: dict[str, Any]) -> dict[str, Any]:
        """Return the params of an ordinary equation, by the names of our declaration.

        Their order is the order in which JAX names jaxprs that it prints first.
        """
        ours = find_primitive(our_name(prim.name))
        first = ours.met_first
        order = [*first, *(k for k in params if k not in first)] if first else params
        if ours.open:
            texts = {k: _attribute(params[k]) for k in params if k not in ours.params}
            order = [k for k in order if k in ours.params]
            return {**{k: self.param(prim, k, params[k]) for k in order}, **texts}
        made = {k: self.param(prim, k, params[k]) for k in order if (prim.name, k) not in TEXTS}
        return on_mesh(made, self.mesh)

    def param(self, prim: Any, key: str, v: Any) -> Any:
        """Convert a param value to the one that JAX holds."""
        if isinstance(v, ClosedJaxpr):
            live, ours = live_jaxpr.find(v), find_primitive(our_name(prim.name))
            if live is not None and (not ours.known or is_plug_ins(ours)):
                return live  # rules of others may ask for the very object
            if (prim.name, key) in private.OPEN_JAXPRS or key == "update_jaxpr":
                made = self.jaxpr(v.jaxpr)
                n = len(v.jaxpr.const_binders)
                return private.with_constants(made, n) if n else made
            return self.closed(v)
        if isinstance(v, (LiveFunction, LiveOpaque, LiveRecord, LiveWord)):
            return v.value
        if isinstance(v, PrintedArray) and (array := array_of_print(v)) is not UNREADABLE:
            return array
        if isinstance(v, Structured):
            return _named(prim, key, v) if v.live is None else v.live
        if type(v) is tuple or isinstance(v, list):
            parts = [self.param(prim, key, x) for x in v]
            return tuple(parts) if type(v) is tuple else parts
        if isinstance(v, RangeTuple):
            return v.bounds
        if isinstance(v, dict):
            return {k: self.param(prim, key, x) for k, x in v.items()}
        if isinstance(v, frozenset):
            return frozenset(self.param(prim, key, x) for x in v)
        if isinstance(v, DType):
            return jax_dtype(v)
        if isinstance(v, NumpyScalar):
            return np.dtype(v.type_name.removeprefix("np.")).type(int(v))
        if isinstance(v, ShapedArray):
            return self.aval(v)
        if isinstance(v, SymbolicDim):
            return symbolic_dim(str(v))
        if isinstance(v, Record):
            return self.record(prim, key, v)
        if isinstance(v, Word) or (key == "impl" and type(v) is str):
            return _named(prim, key, v)
        if type(v) is int and (prim.name, key) in _INT_ENUMS:
            return _INT_ENUMS[prim.name, key](v)
        if isinstance(v, Opaque) and key in _TEXTS:
            return v.text
        if isinstance(v, Opaque) and key == "policy":
            return policy_of_text(v)
        if isinstance(v, Opaque) and key != "computation":
            return _named(prim, key, v)
        return v

    def record(self, prim: Any, key: str, v: Record) -> Any:
        if key == "computation":  # the jaxpr beside it says what it computes
            return Opaque(repr(v))
        maker = policy_maker(v.name) if key == "policy" else None
        if maker is not None and not v.args:
            return maker(**{k: self.param(prim, key, x) for k, x in v.fields.items()})
        found = object_of_record(key, v, functools.partial(self.param, prim, key))
        return _unknown_param(prim, key, v) if found is UNREADABLE else found


# Calls of which some releases have none, or none of this name.
_CALLS = frozenset({"call", "closed_call", "core_call", "named_call"})

# What JAX makes of functions of Python's that no text has, and the param with the jaxpr that computes it.
_SOLVED = {"CustomRoot": "solve_jaxpr"}


def _jit_of(jaxpr: Any, name: str, inline: bool, n_in: int, n_out: int) -> tuple[Any, Any]:
    """Return the primitive and the params of a `jit` that calls a jaxpr of JAX's."""
    params = {"jaxpr": jaxpr, "name": name, "keep_unused": False, "inline": inline}
    params["compiler_options_kvs"] = ()
    fill_jit(params, n_in, n_out)
    return jax_primitive("jit"), leaving("jit", params, {}, n_in, n_out)


_ANEW = "to_jax of a program that from_jax gave has it; jt.save writes what the equation does"

_EXPORTED = (
    "a text has its name alone; to_jax of a program that from_jax gave has it, and a function that calls "
    "jax.export.deserialize can be traced again"
)

# Params that are text to JAX too.
_TEXTS = frozenset({"fmt", "name"})

_INT_ENUMS: dict[tuple[str, str], Callable[[int], Any]] = {
    ("round", "rounding_method"): jax.lax.RoundingMethod,
    ("fft", "fft_type"): jax.lax.FftType,
}


def _unknown_param(prim: Any, key: str, v: Any) -> Any:
    fail(
        UnsupportedError,
        f"{prim.name}: the param {key}={v!r} is known only as text, and JAX needs the object",
        "opaque-param",
        help=_EXPORTED if key == "exported" else _ANEW,
    )


def _named(prim: Any, key: str, v: Any) -> Any:
    """Return the object for which a word, or a text outside of the grammar, stands."""
    text = str(v)
    last = text.rpartition(".")[2]
    if key == "policy" and policy_maker(last):
        return policy_maker(last)
    if key == "select_prim":
        return jax_primitive(text)
    found = object_of_text(key, text)
    if found is not UNREADABLE:
        return found
    # A string, which JAX prints without quotes; a name may be any.
    if (isinstance(v, Word) and "." not in text) or _is_text(prim, key):
        return text
    return _unknown_param(prim, key, v)


def _is_text(prim: Any, key: str) -> bool:
    """Whether a param's values are strings, which may look like anything."""
    declared = find_primitive(our_name(prim.name)).params.get(key)
    return declared is not None and any(
        isinstance(k, (NameKind, JsonTextKind)) for k in declared.kind.parts
    )


def _attribute(v: Any) -> Any:
    """Return the value of an attribute of a call, which JAX takes as a text or a tuple of texts."""
    return tuple(map(_attribute, v)) if isinstance(v, (tuple, list)) else str(v)
