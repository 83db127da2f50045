"""Staging: Python functions to jaxprs.

`JaxprTrace` records every operation, operations on constants included. A value that the function closes over, an array or a
tracer of an outer trace, becomes a constant; a concrete scalar becomes a literal.

Contract of an `identity` rule:

    rule(params) -> bool

It says whether an operation with these params returns its first operand unchanged, where the result has that operand's type.
Copies of such equations from other jaxprs are left out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import compress, repeat, zip_longest
from typing import Any

from jaxprtool.core.bind import NO_EQN, interpreting, set_current_trace, state
from jaxprtool.core.caller import CALLER, caller_origin
from jaxprtool.core.declared import FAULTS
from jaxprtool.core.env import Env
from jaxprtool.core.identity import identity_rules
from jaxprtool.core.trace import Trace, Tracer, get_aval, scalar_lit
from jaxprtool.core.tree import tree_flatten, tree_leaves, tree_node, tree_unflatten
from jaxprtool.core.verification import verifying
from jaxprtool.interpreters.check import (
    abstract_eval,
    abstract_eval_rules,
    annotated_rule,
    verified,
)
from jaxprtool.interpreters.dce import live_atoms, live_eqns, rebound
from jaxprtool.interpreters.functions.jax_functions import call
from jaxprtool.interpreters.functions.parameters import Statics, by_position
from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.frozen import private_array
from jaxprtool.ir.interface import (
    argument_labels,
    interface_of,
    leaf_names,
    named_arguments,
    tree_of,
)
from jaxprtool.ir.jaxpr import (
    Aval,
    ClosedJaxpr,
    JaxprEqn,
    Lit,
    Primitive,
    Value,
    Var,
    new_closed,
    new_eqn,
    new_jaxpr,
    new_var,
    type_of,
)
from jaxprtool.ir.params import ParamValue

__all__ = [
    "JaxprTrace",
    "JaxprTracer",
    "hoist_consts",
    "make_jaxpr",
    "stage",
    "stage_shared",
]


_TYPE_RULES = abstract_eval_rules.rules


# Memo of result types of operations with no params or simple ones: those and the operands' types determine them.
_OUT_TYPES: dict[tuple[Any, ...], Any] = {}
# Types of values that are only equal where they are the same object.
_SIMPLE: frozenset[type[Any]] = frozenset([type(None), bool, DType])


def _is_again(eqn: JaxprEqn, avals: Sequence[Aval], params: dict[str, ParamValue]) -> bool:
    """Whether an equation has these params and operand types, so that its result types can be reused.

    False for equations without operands (`axis_index`), whose types may depend on where they stand.
    """
    known = eqn.params
    return (
        bool(avals)
        and len(params) == len(known)
        and all(map(operator.is_, params.values(), known.values()))
        and all(map(operator.eq, params, known))
        and avals == [*map(type_of, eqn.inputs)]
    )


_aval_of = operator.attrgetter("aval")
_annotated_of = operator.attrgetter("annotated")


def _out_types(
    primitive: Primitive,
    avals: Sequence[Aval],
    params: dict[str, ParamValue],
    key: tuple[Any, ...] | None,
) -> Any:
    """Return the result's type by the primitive's type rule, or a list for multiple results; cached under `key`."""
    rule = _TYPE_RULES.get(primitive) or abstract_eval_rules[primitive]
    annotated = True in map(_annotated_of, avals)
    if annotated:
        rule = annotated_rule(primitive, rule)
    try:
        out = rule(*avals, **params)
    except FAULTS:  # `abstract_eval` raises them again as an error of the operation
        out = abstract_eval(primitive, avals, params)
        out = out if primitive.multiple_results else out[0]
    if key is not None and not annotated:
        _OUT_TYPES[key] = out
    return out


class JaxprTracer(Tracer):
    """A variable of a jaxpr under construction, or a literal in it."""

    __slots__ = ("atom", "aval")

    def __init__(self, trace: JaxprTrace, atom: Var | Lit):
        self._trace, self.atom, self.aval = trace, atom, atom.aval

    def origin(self) -> str:
        return self._trace.describe(self.atom)


def _is_operand(eqn: JaxprEqn, x: Value) -> bool:
    """Whether x is a tracer of the type of the equation's only result."""
    return type(x) is JaxprTracer and x.aval is eqn.out_binders[0].aval


class JaxprTrace(Trace):
    """Records operations as equations.

    Attributes:
      eqns: the equations so far.
      in_binders: the binders of the arguments.
      const_binders: the binders of the constants.
      consts: the values of the constants.
      arg_names: the names of the first arguments, for messages.
    """

    __slots__ = ("arg_names", "const_binders", "const_vars", "consts", "eqns", "in_binders")
    inline_scalars = True

    def __init__(self) -> None:
        self.parent = None
        self.eqns: list[JaxprEqn] = []
        self.in_binders: list[Var] = []
        self.const_binders: list[Var] = []
        self.consts: list[Any] = []
        self.const_vars: dict[int, Var] = {}
        self.arg_names: Sequence[str] = ()

    def new_input(self, aval: Aval) -> JaxprTracer:
        """Add an argument."""
        var = new_var(aval.strong)
        self.in_binders.append(var)
        return JaxprTracer(self, var)

    def new_inputs(self, binders: Sequence[Var]) -> list[JaxprTracer]:
        """Add arguments of the types of the binders of another jaxpr."""
        variables = [*map(new_var, map(type_of, binders))]
        self.in_binders += variables
        return self._tracers(variables)

    def new_const(self, aval: Aval, value: Value) -> JaxprTracer:
        """Add a constant, also one without a value."""
        var = new_var(aval.strong)
        self.const_binders.append(var)
        self.consts.append(value)
        return JaxprTracer(self, var)

    def new_consts(self, closed: ClosedJaxpr) -> list[Value]:
        """Add the constants of another jaxpr, with their values where they have some."""
        pairs = zip(closed.jaxpr.const_binders, closed.consts, strict=True)
        return [self.new_const(v.aval, c) for v, c in pairs]

    def atom(self, x: Value) -> Value:
        """Return `x` as an operand: a variable of this jaxpr or a literal."""
        if type(x) is JaxprTracer and x._trace is self:
            return x.atom
        return x if type(x) is Lit else self.constant(x)

    def atoms(self, args: Sequence[Value]) -> list[Value]:
        """Return `atom` of each."""
        return [
            x.atom
            if type(x) is JaxprTracer and x._trace is self
            else x
            if type(x) is Lit
            else self.const_vars.get(id(x)) or self.constant(x)
            for x in args
        ]

    def constant(self, value: Value) -> Value:
        """Return a literal for a Python scalar or a concrete scalar, else a constant binder."""
        var = self.const_vars.get(id(value))
        if var is not None:
            return var
        if type(value) is JaxprTracer:  # a tracer of an outer trace
            if type(value.atom) is Lit:
                return value.atom
            aval = value.aval
        elif type(value) in (bool, int, float, complex):
            return scalar_lit(value, get_aval(value).dtype)
        else:
            refuse = getattr(value, "refuse_as_constant", None)  # an object that stands for a value
            if refuse is not None:
                refuse()
            aval = get_aval(value)
            if self.inline_scalars and aval.shape == () and aval.dtype.kind in "biufc":
                item = None if isinstance(value, Tracer) else value.item()
                if item is not None:
                    return Lit(item, aval)
        var = new_var(aval.strong)
        self.const_vars[id(value)] = var
        self.const_binders.append(var)
        self.consts.append(value)
        return var

    def literal(self, lit: Lit) -> Value:
        return JaxprTracer(self, lit)

    def recorders(self) -> tuple[Any, Any]:
        return self, None

    def mark(self) -> tuple[int, int]:
        return len(self.eqns), len(self.consts)

    def forget(self, mark: tuple[int, int]) -> None:
        eqns, consts = mark
        dropped = {*self.const_binders[consts:]}
        self.const_vars = {k: v for k, v in self.const_vars.items() if v not in dropped}
        del self.eqns[eqns:], self.const_binders[consts:], self.consts[consts:]

    def pure(self, value: Value) -> Value:
        atom = self.atom(value)
        return atom if type(atom) is Lit else JaxprTracer(self, atom)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Value], params: dict[str, ParamValue]
    ) -> Value:
        inputs, avals = [], []
        for x in args:
            if type(x) is JaxprTracer and x._trace is self:
                a = x.atom
            else:
                a = x if type(x) is Lit else self.const_vars.get(id(x)) or self.constant(x)
            inputs.append(a)
            avals.append(a.aval)
        eqn = state.eqn
        key: tuple[Any, ...] | None = None
        if not params:
            key = (primitive, *avals)
            out = _OUT_TYPES.get(key)
        elif _SIMPLE.issuperset(map(type, params.values())):
            key = (primitive, *avals, *params, *params.values())
            out = _OUT_TYPES.get(key)
        elif primitive is eqn.primitive and _is_again(eqn, avals, params):
            out, params = [*map(type_of, eqn.out_binders)], eqn.params
            out = out if primitive.multiple_results else out[0]
        else:
            out = None
        if out is None:
            out = _out_types(primitive, avals, params, key)
        if primitive.multiple_results:
            return self.emit(primitive, inputs, params, out)
        var = new_var(out)
        origin = eqn.origin
        if origin is CALLER:
            origin = caller_origin()
        self.eqns.append(new_eqn(primitive, inputs, params, (var,), eqn.span, None, origin))
        return JaxprTracer(self, var)

    def process_again(self, eqn: JaxprEqn, args: Sequence[Value]) -> Value:
        inputs = self.atoms(args)
        if [*map(_aval_of, inputs)] != [*map(type_of, eqn.inputs)]:
            return self.process_primitive(eqn.primitive, args, eqn.params)
        return self._again(eqn, inputs)

    def _again(self, eqn: JaxprEqn, inputs: list[Value]) -> JaxprTracer:
        """Record an equation with one result again, with other operands of the same types."""
        var = new_var(eqn.out_binders[0].aval.strong)
        self.eqns.append(
            new_eqn(eqn.primitive, inputs, eqn.params, (var,), eqn.span, None, eqn.origin)
        )
        return JaxprTracer(self, var)

    def process_typed(
        self,
        primitive: Primitive,
        args: Sequence[Value],
        params: dict[str, ParamValue],
        out_avals: Sequence[Aval],
    ) -> list[Value]:
        return self.emit(primitive, self.atoms(args), params, out_avals)

    def emit(
        self,
        primitive: Primitive,
        inputs: list[Value],
        params: dict[str, ParamValue],
        out_avals: Sequence[Aval],
    ) -> list[JaxprTracer]:
        """Record an equation whose operands are atoms and whose result types are known."""
        binders = [*map(new_var, out_avals)]
        eqn = state.eqn
        origin = eqn.origin
        if origin is CALLER:
            origin = caller_origin()
        self.eqns.append(new_eqn(primitive, inputs, params, binders, eqn.span, None, origin))
        return self._tracers(binders)

    def copy_eqn(self, eqn: JaxprEqn, args: Sequence[Value]) -> list[JaxprTracer]:
        """Record an equation of another jaxpr with other operands of the same types.

        An equation that returns its operand is left out.
        """
        same = identity_rules.find(eqn.primitive)
        if same is not None and _is_operand(eqn, args[0]) and same(eqn.params):
            return [args[0]]
        inputs = self.atoms(args)
        if len(eqn.out_binders) == 1:
            return [self._again(eqn, inputs)]
        binders = [*map(new_var, map(type_of, eqn.out_binders))]
        self.eqns.append(
            new_eqn(eqn.primitive, inputs, eqn.params, binders, eqn.span, None, eqn.origin)
        )
        return self._tracers(binders)

    def copy_jaxpr(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        """Record the equations of another jaxpr. Returns its results: tracers, or literals."""
        jaxpr = closed.jaxpr
        env = Env(zip(jaxpr.in_binders, args, strict=True))
        env.write(jaxpr.const_binders, self.new_consts(closed))
        for eqn in jaxpr.eqns:
            ins = env.read(eqn.inputs)
            env.write(eqn.out_binders, self.copy_eqn(eqn, ins))
        return env.read(jaxpr.outs)

    def build(self, outs: Sequence[Value]) -> ClosedJaxpr:
        """Return the jaxpr with these results."""
        atoms = self.atoms(outs)
        jaxpr = new_jaxpr(self.in_binders, self.eqns, atoms, self.const_binders)
        return verified(new_closed(jaxpr, self.consts))

    def _tracers(self, variables: Sequence[Var]) -> list[JaxprTracer]:
        return [*map(JaxprTracer, repeat(self), variables)]

    def build_live(self, outs: Sequence[Value]) -> ClosedJaxpr:
        """Return the jaxpr with these results, without dead equations; all arguments and constants stay."""
        return self._live(outs, keep_consts=True)

    def finish(self, outs: Sequence[Value]) -> ClosedJaxpr:
        """Return the jaxpr with these results, without dead equations and constants; all arguments stay."""
        return self._live(outs, keep_consts=False)

    def _live(self, outs: Sequence[Value], *, keep_consts: bool) -> ClosedJaxpr:
        if verifying():
            self.build(outs)  # equations that are dead are checked as well
        atoms = self.atoms(outs)
        eqns, live = live_eqns(self.eqns, atoms)
        binders, consts = self.const_binders, self.consts
        if not keep_consts:
            read = [*map(live.__contains__, binders)]
            binders, consts = [*compress(binders, read)], [*compress(consts, read)]
        jaxpr = new_jaxpr(self.in_binders, eqns, atoms, binders)
        live_atoms.keep(jaxpr, live)
        return verified(new_closed(jaxpr, consts))

    def describe(self, var: Any) -> str:
        """Return the arguments that a variable depends on, in words."""
        producer = {v: e for e in self.eqns for v in e.out_binders}
        seen, stack = set(), [var]
        while stack:
            v = stack.pop()
            if v not in seen:
                seen.add(v)
                stack += [x for x in getattr(producer.get(v), "inputs", ()) if isinstance(x, Var)]
        named = zip_longest(self.in_binders, self.arg_names)
        names = [name or f"argument {i}" for i, (v, name) in enumerate(named) if v in seen]
        return ", ".join(names)


def stage(
    f: Callable[..., Sequence[Value]], in_avals: Sequence[Aval], names: Sequence[str] = ()
) -> ClosedJaxpr:
    """Record a function of flat arguments that returns flat results.

    Values it closes over are the constants of the result; pass them on as arguments where they may
    be tracers (`closed_jaxpr.consts`).
    """
    trace = JaxprTrace()
    trace.arg_names = names
    tracers = [trace.new_input(a) for a in in_avals]
    with set_current_trace(trace):
        outs = f(*tracers)
    return trace.build(outs)


def stage_shared(f: Callable[..., Sequence[Value]], in_avals: Sequence[Aval]) -> ClosedJaxpr:
    """Do as `stage`, for a jaxpr that many equations share: its equations do not get the position
    of the current equation.
    """
    with interpreting():
        state.eqn = NO_EQN
        return stage(f, in_avals)


def argument_names(f: Callable[..., Value], args: Sequence[Value]) -> list[str]:
    """Return the names of the leaves of the arguments for messages: `argument x["w"] of loss`.

    The arguments of a program have the names of its interface.
    """
    leaves, program = tree_leaves(tuple(args)), getattr(f, "program", None)
    if isinstance(program, ClosedJaxpr) and len(leaves) == len(program.in_avals):
        return argument_labels([v.name for v in program.jaxpr.in_binders], program.interface)
    of = f" of {f.__name__}" if getattr(f, "__name__", "<lambda>") != "<lambda>" else ""
    names = leaf_names(named_arguments(f, args), tree_node)
    return [f"argument {name}{of}" for name, _ in zip(names, leaves, strict=False)]


def flatten_fun(
    f: Callable[..., Value], in_tree: Any
) -> tuple[Callable[..., list[Value]], list[Value]]:
    """Return `f` on flat lists; the second result holds the tree of f's result once it was called."""
    out_tree: list[Any] = []

    def flat(*leaves: Value) -> list[Value]:
        outs, tree = tree_flatten(call(f, tree_unflatten(in_tree, leaves)))
        out_tree[:] = [tree]
        return outs

    return flat, out_tree


def leaf_aval(x: Aval) -> Aval:
    """Return the type of a leaf of an argument, which is a type itself or a value."""
    return x if isinstance(x, AbstractType) else get_aval(x)


def make_jaxpr(
    f: Callable[..., Value],
    static_argnums: int | Sequence[int] | None = None,
    *,
    return_tree: bool = False,
) -> Callable[..., Value]:
    """Return a function that records `f` as a jaxpr.

    Args:
      f: a function of pytrees of arrays, written with `jaxprtool.lax`, operators or NumPy.
      static_argnums: positions of arguments that are not traced.
      return_tree: whether the tree of f's result is returned with the jaxpr.

    Returns:
      A function of pytrees of values or of types (`ShapedArray`) that returns a `ClosedJaxpr`. Its
        arguments and results are the leaves, those of keyword arguments last, in the order of their
        names; its `interface` has the names and the trees. Python floats are f64, ints i64.

    Raises:
      TracerBoolConversionError: f reads a value that is not known.
      JaxprTypeError: f applies an operation to operands it does not take.
    """

    statics = Statics.of(f, static_argnums, ())

    def maker(*given: Value, **keywords: Value) -> Value:
        of_args, left, keywords, _ = statics.apart(f, given, keywords)
        of_args, args = by_position(of_args, left, keywords)
        leaves, in_tree = tree_flatten(args)
        flat, out_tree = flatten_fun(of_args, in_tree)
        closed = stage(flat, [leaf_aval(x) for x in leaves], argument_names(of_args, args))
        result = tree_of(tree_unflatten(out_tree[0], closed.jaxpr.outs), tree_node)
        interface = interface_of(named_arguments(of_args, args), result, tree_node)
        consts = [*map(private_array, closed.consts)]
        closed = closed.replace(interface=interface, consts=consts)
        return (closed, out_tree[0]) if return_tree else closed

    return maker


def hoist_consts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr with its constants as leading arguments."""
    jaxpr = closed.jaxpr
    if not closed.consts:
        return closed
    return verified(ClosedJaxpr(rebound(jaxpr, jaxpr.all_binders, const_binders=[])))
