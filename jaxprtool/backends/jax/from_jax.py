"""Convert JAX's jaxprs to ours, object by object: nothing goes through text, so nothing is lost.

A param that our value classes cannot hold becomes a `LiveOpaque`: it prints as JAX prints it, and
keeps JAX's object, so that `to_jax` can return it in the same process.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
import re
from typing import Any

import jax
import numpy as np

from jaxprtool.backends.jax import private
from jaxprtool.backends.jax.batching import LiveVmapRule
from jaxprtool.backends.jax.foreign import give_rules
from jaxprtool.backends.jax.kernels import kernel_from_jax, plain_reference
from jaxprtool.backends.jax.live import (
    LiveFunction,
    LiveOpaque,
    LivePrimitive,
    LiveRecord,
    LiveWord,
    live_jaxpr,
    masked_text,
)
from jaxprtool.backends.jax.objects import UNREADABLE, array_of_print
from jaxprtool.backends.jax.origins import origin_of
from jaxprtool.backends.jax.placement import Surroundings, mapped_over
from jaxprtool.backends.jax.plug_ins import is_stand_in
from jaxprtool.backends.jax.policies import policy_from_jax
from jaxprtool.backends.jax.primitives import (
    by_own_name,
    key_generator,
    live_primitive,
    primitive_from_jax,
)
from jaxprtool.backends.jax.refs import index_from_jax, references_and_indices
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.jax.rules import capture_custom_rule
from jaxprtool.backends.jax.to_jax import eqn_to_jax
from jaxprtool.backends.jax.vocabulary import entering, jit_says_nothing, keep_hints
from jaxprtool.backends.numpy_eval import KeyArray
from jaxprtool.core.kinds.numbers import TypeKind
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.avals import (
    AbstractToken,
    AxisGroups,
    FutureType,
    OpaqueType,
    RefType,
    ShapedArray,
    SymbolicDim,
)
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.dtypes import DType, custom_dtype, dtype_of, find_dtype
from jaxprtool.ir.frozen import FrozenDict, FrozenList, amend, private_array
from jaxprtool.ir.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Lit,
    Params,
    Primitive,
    Var,
    Written,
)
from jaxprtool.ir.params import (
    NumpyScalar,
    PrintedArray,
    PrintedFunction,
    RangeTuple,
    Record,
    Structured,
    Word,
    spelled,
)
from jaxprtool.ir.placement import placement_of
from jaxprtool.syntax.params import read_value
from jaxprtool.syntax.releases.dialects import installed
from jaxprtool.syntax.releases.earlier import of_leaves, takes_leaves

__all__ = ["as_struct", "aval_from_jax", "from_jax"]


def from_jax(closed_jaxpr: Any, *, rules: bool = True) -> ClosedJaxpr:
    """Convert a program from JAX's `ClosedJaxpr` (or `Jaxpr`, whose constants then have no values).

    Weak types, constants of nested jaxprs (as NumPy arrays), sharing of nested jaxprs and all
    params are kept. Variables have no names; the printer gives them JAX's. The rules of
    `custom_jvp` and `custom_vjp` functions are traced and become jaxprs, where that is possible.

    Args:
      closed_jaxpr: the program.
      rules: whether to trace the derivative rules; without them the functions themselves are
        differentiated.

    Raises:
      UsageError: the argument is no jaxpr.
    """
    if not isinstance(closed_jaxpr, (private.ClosedJaxpr, private.Jaxpr)):
        fail(UsageError, f"not a jaxpr of JAX: {type(closed_jaxpr).__name__}", "not-a-jaxpr")
    return _Reader(rules).program(closed_jaxpr)


def as_struct(aval: ShapedArray) -> Any:
    """Return a type of ours as JAX's `ShapeDtypeStruct`."""
    if aval.dtype.kind == "k":
        key = jax.eval_shape(lambda: jax.random.key(0, impl=key_generator(aval.dtype).name))
        return jax.ShapeDtypeStruct(aval.shape, key.dtype)
    return jax.ShapeDtypeStruct(aval.shape, jax.numpy.dtype(aval.dtype.name))


class _Reader:
    """One conversion: jaxprs, variables and types that were met before are the same objects again.

    Attributes:
      captures: whether derivative rules are traced.
      variables: JAX's variable -> ours, in all jaxprs: jaxprs that share a variable print it with
        one name.
      rules: names of the custom rules that are being captured, to bound rules that call themselves.
    """

    def __init__(self, captures: bool) -> None:
        self.captures = captures
        self.jaxprs: dict[int, Jaxpr] = {}
        self.variables: dict[Any, Var] = {}
        self.closeds: dict[tuple, ClosedJaxpr] = {}
        self.avals: dict[Any, Any] = {}
        self.shared_params: dict[tuple[Any, ...], Params] = {}
        self.rules: list[Any] = []
        self.alive: list[Any] = []  # keeps ids unique

    def program(self, jaxpr: Any) -> ClosedJaxpr:
        """Convert the whole program, and record the dialect where that affects the names of unread results."""
        closed = self.without_unread(jaxpr)
        dialect = installed()
        if not dialect.names_inner_drops:  # each result here is dropped or named as JAX has it
            amend(closed.jaxpr, written=Written(FrozenDict(), dialect=dialect.name))
        return closed

    def without_unread(self, jaxpr: Any) -> ClosedJaxpr:
        """Convert the program; drop unread results in its outermost jaxpr, as JAX does."""
        closed = self.closed(jaxpr)
        closed = self.with_weak_results(closed, private.open_and_consts(jaxpr)[0])
        used = {x for x in closed.jaxpr.outs if type(x) is not Lit}
        eqns = []
        for eqn in reversed(closed.jaxpr.eqns):
            binders = [v if v in used else DropVar(v.aval) for v in eqn.out_binders]
            same = all(map(operator.is_, binders, eqn.out_binders))
            eqns.append(eqn if same else eqn.replace(out_binders=binders))
            used.update(x for x in eqn.inputs if type(x) is not Lit)
        if all(map(operator.is_, reversed(eqns), closed.eqns)):
            return closed
        changed = closed.replace(jaxpr=closed.jaxpr.replace(eqns=reversed(eqns)))
        live_jaxpr.keep(changed, live_jaxpr.find(closed))
        return changed

    def with_weak_results(self, closed: ClosedJaxpr, jaxpr: Any) -> ClosedJaxpr:
        """Return the program with the weak types of literals among its results, which no equation determines."""
        pairs = zip(closed.jaxpr.outs, jaxpr.outvars, strict=True)
        outs = [Lit(x.val, self.aval(y.aval)) if type(x) is Lit else x for x, y in pairs]
        if all(x.aval is y.aval for x, y in zip(outs, closed.jaxpr.outs, strict=True)):
            return closed
        changed = closed.replace(jaxpr=closed.jaxpr.replace(outs=outs))
        live_jaxpr.keep(changed, live_jaxpr.find(closed))
        return changed

    def closed(self, jaxpr: Any) -> ClosedJaxpr:
        """Convert a `ClosedJaxpr` or `Jaxpr`; the same object for the same jaxpr with the same constants."""
        inner, consts = private.open_and_consts(jaxpr)
        key = (id(inner), *map(id, consts))
        found = self.closeds.get(key)
        if found is None:
            self.alive.append(jaxpr)
            values = [const_value(c) for c in consts]
            found = self.closeds[key] = ClosedJaxpr(self.jaxpr(inner), values)
            live_jaxpr.keep(found, jaxpr)
        return found

    def jaxpr(self, jaxpr: Any) -> Jaxpr:
        found = self.jaxprs.get(id(jaxpr))
        if found is None:
            env: dict[Any, Var] = {}
            constvars = [self.binder(v, env) for v in jaxpr.constvars]
            invars = [self.binder(v, env) for v in jaxpr.invars]
            eqns = [part for e in jaxpr.eqns for part in self.eqns(e, env)]
            outs = [self.atom(x, env) for x in jaxpr.outvars]
            found = self.jaxprs[id(jaxpr)] = Jaxpr(invars, eqns, outs, constvars)
            self.alive.append(jaxpr)
        return found

    def binder(self, v: Any, env: dict[Any, Var]) -> Var:
        aval = self.aval(v.aval)
        if isinstance(v, private.DropVar):
            return DropVar(aval)
        if v not in self.variables:
            self.variables[v] = Var(aval)
        var = env[v] = self.variables[v]
        return var

    def atom(self, x: Any, env: dict[Any, Var]) -> Any:
        if not isinstance(x, private.Literal):
            return env[x]
        array = np.asarray(x.val)
        return Lit(array if array.shape else array.item(), self.aval(x.aval).strong)

    def eqns(self, eqn: Any, env: dict[Any, Var]) -> list[JaxprEqn]:
        """Convert an equation; a collective of a tree (to JAX 0.8.1) becomes one equation for each
        leaf, as in texts.
        """
        count = len(eqn.invars)
        if not takes_leaves(eqn.primitive) or count != len(eqn.outvars) or not count:
            return [self.eqn(eqn, env)]
        pairs = zip(eqn.invars, eqn.outvars, strict=True)
        return of_leaves([self.eqn(eqn.replace(invars=[x], outvars=[v]), env) for x, v in pairs])

    def eqn(self, eqn: Any, env: dict[Any, Var]) -> JaxprEqn:
        eqn = plain_reference(by_own_name(eqn))
        primitive = primitive_from_jax(eqn.primitive)
        if primitive.library and not self.is_known(eqn, primitive):
            primitive = live_primitive(eqn.primitive)
        if isinstance(primitive, LivePrimitive):
            give_rules(primitive, from_jax, aval_from_jax)
        operands = eqn.invars
        if primitive.notation:
            operands = references_and_indices(eqn)
        inputs = [self.atom(x, env) for x in operands]
        params: dict[str, Any] = self.params(eqn, primitive)
        outs = [self.binder(v, env) for v in eqn.outvars]
        if primitive.known:
            absent, given = primitive.optional - params.keys(), params.keys()
            params = {**primitive.defaults, **params}
            params = {k: v for k, v in params.items() if k not in absent} if absent else params
            for name, recover in primitive.recovered:
                if name not in given:
                    params[name] = recover(params[name], [v.aval for v in outs])
        key = primitive, *params, *map(_exact, params.values())
        params = self.shared_params.setdefault(key, Params(params))
        return JaxprEqn(primitive, inputs, params, outs, origin=origin_of(eqn.source_info))

    def is_known(self, eqn: Any, primitive: Primitive) -> bool:
        """Whether an equation of a library's primitive has the params and result types that our
        declaration gives it.
        """
        if is_stand_in(eqn.primitive):
            return True
        needed = primitive.params.keys() - primitive.optional
        if not needed <= eqn.params.keys() <= primitive.params.keys():
            return False
        params = {k: self.value(v) for k, v in eqn.params.items()}
        try:
            found = abstract_eval(primitive, [self.aval(x.aval).strong for x in eqn.invars], params)
        except JaxprToolError:
            return False
        return found == [self.aval(v.aval).strong for v in eqn.outvars]

    def params(self, eqn: Any, primitive: Primitive) -> dict[str, Any]:
        if not primitive.known:
            in_print_order = getattr(primitive, "given", None) is not None
            names = eqn.params if in_print_order else sorted(eqn.params)
            return {k: self.value(eqn.params[k]) for k in names}
        if is_stand_in(eqn.primitive):
            return dict(eqn.params)
        name, theirs = primitive.name, entering(eqn, primitive)
        if name in ("custom_jvp_call", "custom_vjp_call", "custom_lin"):
            active = self.rules if self.captures else None
            return capture_custom_rule(eqn, self.closed, self.value, active)
        with mapped_over(name, theirs):
            params: dict[str, Any] = {
                k: self.aval(v)
                if k in primitive.params and _is_type(primitive, k, v)
                else self.value(v)
                for k, v in sorted(theirs.items())
            }
        keep_hints(name, eqn.params, params)
        if name in _HIDES_SHARDING and _is_unsharded(eqn):
            params["sharding"] = None
        if name == "reshard" and _HIDES_LAYOUT:
            return {"dst_sharding": placement_of(self.aval(eqn.outvars[0].aval))}
        if name == "custom_vmap_call":
            params["rule"] = LiveVmapRule(eqn, from_jax, as_struct, Surroundings.now())
        if name == "linear_call":
            params["transpose_jaxpr"] = self.linear_transpose(eqn)
        if primitive.notation:
            flags = {k: True for k in ("mask", "other") if eqn.params.get(k)}
            params = {"index": index_from_jax(eqn), **flags}
        if name == "remat2":
            params["policy"] = policy_from_jax(eqn.params["policy"], self.value, eqn_to_jax)
        if name == "jit":
            params.update(dict.fromkeys(jit_says_nothing(eqn.params)))
        if name == "pallas_call":
            params.update(kernel_from_jax(eqn.params, self.closed))
        return params

    def linear_transpose(self, eqn: Any) -> ClosedJaxpr:
        """Return the transpose of a `linear_call`, with the values it closes over as constants."""
        theirs, consts = eqn.params["transpose_thunk"]()
        closed = self.closed(theirs)
        jaxpr, n = closed.jaxpr, len(consts)
        binders = [*jaxpr.const_binders, *jaxpr.in_binders[:n]]
        moved = Jaxpr(jaxpr.in_binders[n:], jaxpr.eqns, jaxpr.outs, binders)
        return ClosedJaxpr(moved, [*closed.consts, *map(const_value, consts)])

    def aval(self, aval: Any) -> Any:
        """Convert a type of JAX's to ours."""
        try:
            found = self.avals.get(aval)
        except TypeError:
            return aval_from_jax(aval)
        if found is None:
            found = self.avals[aval] = aval_from_jax(aval)
        return found

    def value(self, v: Any, *, top: bool = True) -> Any:
        """Convert a param value; `top` is False inside containers, where JAX prints the repr."""
        if v is None or v is ... or type(v) in (bool, int, float, complex, str):
            return v
        if isinstance(v, (private.ClosedJaxpr, private.Jaxpr)):
            return self.closed(v)
        if type(v) in (tuple, list):
            parts = [self.value(x, top=False) for x in v]
            return tuple(parts) if type(v) is tuple else FrozenList(parts)
        if type(v) is dict:
            pairs = [(self.value(k, top=False), self.value(x, top=False)) for k, x in v.items()]
            return FrozenDict(pairs)
        if type(v) is frozenset:
            return frozenset(self.value(x, top=False) for x in v)
        if type(v) is slice:
            return v
        if type(v) is range and len(v) <= 1000:
            return RangeTuple(v)
        if isinstance(v, enum.Enum):
            return _enum_value(v, top)
        if isinstance(v, np.integer):
            return int(v) if top else NumpyScalar(int(v), f"np.{v.dtype.name}")
        if isinstance(v, private.ShapedArray):
            aval = self.aval(v)
            exact = not top and str(aval) == private.type_text(v)
            return aval if exact else _opaque(v, top)
        return self.record(v, top) or _leaf_value(v, top)

    def record(self, v: Any, top: bool) -> Record | None:
        """Convert a named tuple or dataclass that prints as `Name(field=value, ...)`; None for anything else."""
        if isinstance(v, tuple):
            names = getattr(v, "_fields", None)
        elif dataclasses.is_dataclass(v) and not isinstance(v, type):
            names = tuple(f.name for f in dataclasses.fields(v) if f.repr)
        else:
            return None
        if names is None:
            return None
        values = {n: getattr(v, n) for n in names}
        shown = ", ".join(f"{n}={x!r}" for n, x in values.items())
        if f"{type(v).__name__}({shown})" != (str(v) if top else repr(v)):
            return None
        fields = {n: self.value(x, top=False) for n, x in values.items()}
        return LiveRecord.of(Record(type(v).__name__, (), **fields), v)


# Primitives that do not print a param `sharding` on an empty mesh, from the release on that hides it.
_HIDES_SHARDING = {
    name
    for name, release in {"broadcast_in_dim": (0, 10), "convert_element_type": (0, 9, 1)}.items()
    if since(*release)
}


_HIDES_LAYOUT = since(0, 10)  # a `reshard`, whose result says it


def _is_type(primitive: Primitive, key: str, v: Any) -> bool:
    """Whether a value is the type of an array, in a param that holds types."""
    return isinstance(v, private.ShapedArray) and isinstance(primitive.params[key].kind, TypeKind)


def _is_unsharded(eqn: Any) -> bool:
    """Whether the mesh of the param `sharding` is empty."""
    mesh = getattr(eqn.params.get("sharding"), "mesh", None)
    return mesh is not None and mesh.empty


def _exact(value: Any) -> Any:
    """Return a key that is equal for values which can replace each other: 1 is neither True nor 1.0."""
    kind = type(value)
    if kind is tuple:
        return (tuple, *map(_exact, value))
    if kind is NumpyScalar:
        return kind, value.type_name, int(value)
    if kind is LiveRecord:
        parts = _exact(value.args), *value.fields, *map(_exact, value.fields.values())
        return kind, type(value.value), value.name, *parts
    if kind is LiveWord:
        return kind, str(value), id(value.value)
    return (kind, value) if kind in _EXACT else (kind, id(value))


_EXACT = frozenset({int, bool, str, type(None), DType})

_WORD = re.compile(r"[A-Za-z_][\w.]*\Z")


def _opaque(v: Any, top: bool) -> Any:
    return _by_text(masked_text(v, top), v)


def _by_text(text: str, v: Any) -> Any:
    """Return the value that the text of an object reads as, with the object: fields where it has
    any, else only the text.
    """
    found = read_value(text)
    if isinstance(v, jax.lax.Tolerance):
        return LiveRecord.of(Record("Tolerance", (), **vars(v)), v)
    # as a param itself, it prints what `str` of the array is
    if text.startswith("HashableArray(array(") and isinstance(found, Record):
        return LiveRecord.of(Record(found.name, (_printed_array(v.val),)), v)
    if isinstance(found, Structured):
        amend(found, live=v)
        return found
    if isinstance(found, Record):
        return LiveRecord.of(found, v)
    if isinstance(found, PrintedFunction):
        return LiveFunction(text, found.path, v)
    return LiveOpaque(text, v)


def _printed_array(array: Any) -> Any:
    """Convert an array among attributes: it prints as in JAX, perhaps with fewer digits or elements than it has."""
    text = repr(array)
    shown = read_value(text)
    found = array_of_print(shown) if isinstance(shown, PrintedArray) else UNREADABLE
    if (
        found is not UNREADABLE
        and found.dtype == array.dtype
        and found.tobytes() == array.tobytes()
    ):
        return shown
    fields = {"dtype": Word(array.dtype.name), "shape": array.shape}
    return spelled(PrintedArray(FrozenList(array.tolist()), fields, exact=False), text)


def _enum_value(v: enum.Enum, top: bool) -> Any:
    text = str(v) if top else repr(v)
    if _WORD.match(text):
        return LiveWord(text, v)
    if isinstance(v, int) and text == str(int(v)):
        return int(v)
    return _opaque(v, top)


def _leaf_value(v: Any, top: bool) -> Any:
    """Convert a dtype, a NumPy number, a type, or an object that becomes opaque."""
    text = masked_text(v, top)
    if private.is_symbolic_dim(v):
        return SymbolicDim(text)
    if not isinstance(v, type):
        dtype = dtype_of(v) if isinstance(v, np.dtype) else find_dtype(text)
        if dtype is not None and top:
            return dtype
    if isinstance(v, (np.bool_, np.floating)) and top:
        return bool(v) if isinstance(v, np.bool_) else float(text)
    return LiveWord(text, v) if _WORD.match(text) else _by_text(text, v)


def aval_from_jax(aval: Any) -> Any:
    """Convert a type of JAX's to ours. Raises UnsupportedError for one that we do not have."""
    name = type(aval).__name__
    if isinstance(aval, private.ShapedArray):
        return _shaped(aval)
    if name == "AbstractToken":
        return AbstractToken()
    if name == "AbstractRef":
        space = "" if aval.memory_space is None else str(aval.memory_space)
        return RefType(aval_from_jax(aval.inner_aval), space)
    if name == "AbstractFuture":
        return FutureType(aval_from_jax(aval.inner_aval))
    return OpaqueType(private.type_text(aval))


def _shaped(aval: Any) -> Any:
    """Return a `ShapedArray` with the sharding, memory space and varying axes that JAX prints."""
    dtype = dtype_of(aval.dtype) or custom_dtype(aval.dtype.name)
    shape = tuple(d if isinstance(d, int) else SymbolicDim(str(d)) for d in aval.shape)
    spec, space = private.partitions(aval), aval.memory_space
    memory = "" if space == jax.memory.Space.Device else space.name.lower()
    vary = AxisGroups(*private.axis_groups(aval))
    return ShapedArray(shape, dtype, bool(aval.weak_type), spec if any(spec) else (), memory, vary)


def const_value(c: Any) -> Any:
    """Convert a constant: arrays to NumPy arrays, typed keys to `KeyArray`; anything else as it is."""
    if c is None or isinstance(c, private.Tracer):
        return None
    dtype = getattr(c, "dtype", None)
    if dtype is not None and jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
            tag = dtype.name.removeprefix("key<").removesuffix(">")
            return KeyArray(tag, np.asarray(jax.random.key_data(c)))
        return c
    try:
        return private_array(np.asarray(c))
    except TypeError:
        return c
