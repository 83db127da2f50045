"""Forward-mode differentiation (jvp).

Contract of a `jvp` rule:

    rule(primals, tangents, **params) -> (primal_out, tangent_out)   (two lists for multiple_results)

Each tangent has the shape and dtype of its primal or is a `Zero`, which stands for no dependence (and is the
only tangent that integers and booleans have); at least one is not a `Zero`. The rule computes the
primal result itself, by applying operations, and may return `Zero` tangents. Tangents are used linearly.

Makers: `derivative`, `jvp_terms`, `linear`, `bilinear`, `zero_derivative`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.bind import interpreted, interpreting, set_current_trace, state
from jaxprtool.core.env import Env
from jaxprtool.core.partition import check_flags, unzip2
from jaxprtool.core.rule_table import FactTable, Maker, RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import Symbolic, Trace, Tracer, get_aval, inexact, scalar_lit
from jaxprtool.core.tree import tree_flatten, tree_unflatten
from jaxprtool.interpreters.discharge import transformable
from jaxprtool.interpreters.evaluate import as_value, numpy_namespace
from jaxprtool.interpreters.functions.parameters import of_pair
from jaxprtool.interpreters.interfaces import of_jvp, with_interface
from jaxprtool.interpreters.memory_spaces import put_in_memory
from jaxprtool.interpreters.reuse.copies import once
from jaxprtool.interpreters.reuse.replay import Replayer, joined
from jaxprtool.interpreters.stage import JaxprTrace, argument_names, flatten_fun
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import same_but_for_placement
from jaxprtool.ir.sharding import varying_axes

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "MadeRule",
    "Zero",
    "add_tangents",
    "bilinear",
    "derivative",
    "derivative_facts",
    "fill_zeros",
    "instantiate",
    "jvp",
    "jvp_jaxpr",
    "jvp_rules",
    "jvp_terms",
    "linear",
    "zero_derivative",
    "zeros",
]

jvp_rules = RuleTable("jvp")
# What the derivative of an operation is. "jaxprs": made from the derivatives of the jaxprs in its params, if it has some. "rule": given
# by a rule of its own. "zero": no result changes with small changes of the operands. "quantile": that of a quantile of the
# distribution it draws from, since its draws by acceptance and rejection are another function of the operands.
derivative_facts = FactTable("derivative", "jaxprs", "rule", "zero", "quantile")


class Zero(Symbolic):
    """A tangent or cotangent known to be zero, of a value of type `aval`; the attribute `aval` is
    the type of the tangent.
    """

    __slots__ = ()

    def __init__(self, aval: Aval):
        self.aval = aval.tangent()

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


def zeros(aval: ShapedArray) -> Value:
    """Return zeros of an array type: a literal for rank 0, else a broadcast literal.

    Raises UnsupportedError for other types.
    """
    if not isinstance(aval, ShapedArray):
        fail(UnsupportedError, f"there are no zeros of type {aval}", "no-zeros")
    kind = aval.dtype.kind
    if kind == "0":
        return numpy_namespace().float0_zeros(aval.shape)
    zero = scalar_lit(False if kind == "b" else 0, aval.dtype)
    out = lax.broadcast_in_dim(zero, shape=aval.shape) if aval.shape else zero
    out = put_in_memory(out, aval.memory) if aval.memory else out
    return lax.pvary(out, axes=varying_axes(aval)) if aval.vary else out


def instantiate(tangent: Value) -> Value:
    """Return a tangent or cotangent as a value."""
    return zeros(tangent.aval) if type(tangent) is Zero else tangent


def fill_zeros(flags: Iterable[bool], live: Iterable[Value], avals: Iterable[Aval]) -> list[Value]:
    """Return tangents or cotangents of values of these types: those in `live` where the flag is
    True, `Zero` elsewhere.
    """
    rest = iter(live)
    return [next(rest) if f else Zero(a) for f, a in zip(flags, avals, strict=True)]


def add_tangents(x: Value, y: Value) -> Value:
    """Return the sum of two tangents, either of which may be Zero."""
    if type(x) is Zero or type(y) is Zero:
        return y if type(x) is Zero else x
    if isinstance(x, Tracer) and isinstance(y, Tracer):  # the common case: tracers need no checks
        return state.trace.process_primitive(lax.add_any.primitive, (x, y), {})
    return lax.add_any(x, y)


class JVPTracer(Tracer):
    """A primal value with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Value, tangent: Value):
        self._trace, self.primal, self.tangent = trace, primal, tangent

    @property
    def aval(self) -> Aval:
        return get_aval(self.primal)

    def full_lower(self) -> Value:
        return self.primal if type(self.tangent) is Zero else self

    def origin(self) -> str:
        return self.primal.origin() if isinstance(self.primal, Tracer) else ""

    def concrete(self, wanted: str) -> Value:
        return self.primal.concrete(wanted) if isinstance(self.primal, Tracer) else self.primal


class JVPTrace(Trace):
    """Applies jvp rules to pairs of primals and tangents, in terms of its parent."""

    __slots__ = ()

    def __init__(self, parent: Trace):
        self.parent = parent

    def pure(self, value: Value) -> JVPTracer:
        return JVPTracer(self, value, Zero(get_aval(value)))

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Value], params: dict[str, ParamValue]
    ) -> Value:
        primals, tangents, active = [], [], False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                active = active or type(x.tangent) is not Zero
            else:
                primals.append(x)
                tangents.append(Zero(get_aval(x)))
        previous, state.trace = state.trace, self.parent
        try:
            if not active:
                return self.parent.process_primitive(primitive, primals, params)
            rule = jvp_rules.rules.get(primitive) or jvp_rules[primitive]
            out, out_tangent = rule(primals, tangents, **params)
        finally:
            state.trace = previous
        if primitive.multiple_results:
            return [self.box(p, t) for p, t in zip(out, out_tangent, strict=True)]
        return self.box(out, out_tangent)

    def box(self, primal: Value, tangent: Value) -> Value:
        """Make a tracer, or return the bare primal where the tangent is Zero."""
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def unbox(self, x: Value) -> tuple[Value, Value]:
        """Return primal and tangent of a result."""
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(get_aval(x))


def jvp_flat(
    f: Callable[..., Sequence[Value]], primals: Sequence[Value], tangents: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """Apply jvp to a function of flat lists; tangents may be Zero, in and out."""
    trace = JVPTrace(state.trace)
    args = [trace.box(p, t) for p, t in zip(primals, tangents, strict=True)]
    with set_current_trace(trace):
        outs = f(*args)
    return unzip2(trace.unbox(x) for x in outs)


def jvp(
    f: Callable[..., Value],
    primals: Sequence[Value],
    tangents: Sequence[Value],
    has_aux: bool = False,
) -> Any:
    """Return the value of f at a point, and its directional derivative there.

    Args:
      f: a function of pytrees.
      primals: the arguments, a tuple.
      tangents: for each argument a pytree of the same structure, shapes and dtypes; the tangent of
        an integer or boolean is float0 (a zero array of the primal's shape is accepted).
      has_aux: whether f returns a pair whose second part is not differentiated.

    Returns:
      (f(*primals), tangents of the results), with float0 zeros for results that are not inexact;
        with `has_aux` also the second part.

    Raises:
      UsageError: structure, shape or dtype of a tangent differ from its primal's; no pair with
        `has_aux`.
    """
    leaves, in_tree = tree_flatten(tuple(primals))
    tangent_leaves, tangent_tree = tree_flatten(tuple(tangents))
    if in_tree != tangent_tree:
        fail(UsageError, f"the tangents are {tangent_tree}, the primals {in_tree}", "tangent-tree")
    checked = [
        check_tangent(t, get_aval(p), lambda i=i: tangent_of(f, primals, i))
        for i, (p, t) in enumerate(zip(leaves, tangent_leaves, strict=True))
    ]
    flat, out_tree = flatten_fun(f, in_tree)
    outs, out_tangents = jvp_flat(flat, leaves, checked)
    whole = tree_unflatten(out_tree[0], outs)
    value, aux = of_pair(whole, f) if has_aux else (whole, None)
    tree = tree_flatten(value)[1]
    made = tree_unflatten(tree, [as_value(instantiate(t)) for t in out_tangents[: tree.num_leaves]])
    return (value, made, aux) if has_aux else (value, made)


def tangent_of(f: Callable[..., Value], args: Sequence[Value], i: int) -> str:
    """Return the name of the tangent of leaf i of the arguments, for messages."""
    return f"the tangent of {argument_names(f, args)[i]}"


def check_tangent(tangent: Value, primal: Value, what: Callable[[], str]) -> Value:
    """Check a tangent (or cotangent) that a caller gives for a value of type `primal`.

    Returns:
      The tangent; Zero for integers and booleans.

    Raises:
      UsageError: its shape or dtype is not that of the tangents of `primal`; `what()` names it in
        the message.
    """
    aval, want = get_aval(tangent), primal.tangent()
    if want.dtype.kind == "0":
        if aval.shape != primal.shape:
            message = f"{what()} has the shape of {aval}; {primal} was expected"
            fail(UsageError, message, "tangent-type")
        return Zero(primal)
    if type(tangent) in (bool, int, float, complex) and not want.shape:
        return scalar_lit(tangent, want.dtype)
    if not same_but_for_placement(aval, want):
        fail(UsageError, f"{what()} has type {aval}; {want} was expected", "tangent-type")
    return tangent


@deep
def jvp_jaxpr(
    closed: Jaxpr | ClosedJaxpr,
    nonzeros: Sequence[bool] | None = None,
    *,
    instantiate_outs: bool | Sequence[bool] = True,
) -> tuple[ClosedJaxpr, list[bool]]:
    """Differentiate a jaxpr in forward mode.

    Args:
      closed: (a) -> (b); its constants are not differentiated.
      nonzeros: for each argument whether it has a tangent; all inexact ones by default.
      instantiate_outs: whether zero tangents of inexact results are results too, for all or for each.

    Returns:
      (*a, *tangents of a) -> (*b, *tangents of b), with tangents of the arguments in `nonzeros` only; and for each result
      whether its tangent is among the results.

    Raises:
      MissingRuleError: a primitive that a tangent reaches has no `jvp` rule.
      UsageError: there are more or fewer `nonzeros` than arguments.
    """
    closed = transformable(closed)
    flags = tuple(inexact(closed.in_avals) if nonzeros is None else nonzeros)
    wanted = instantiate_outs
    if isinstance(wanted, bool):
        wanted = [wanted and flag for flag in inexact(closed.out_avals)]
    key = (flags, tuple(wanted))
    found = _JVP.find(closed, key)
    if found is None:
        check_flags("jvp_jaxpr", flags, closed.in_avals)
        made, flags_out = _jvp_jaxpr(closed, flags, wanted)
        if closed.interface is not None:
            made = with_interface(made, of_jvp(closed.interface, flags, flags_out))
        found = _JVP.keep(closed, key, (made, flags_out))
        # also kept under the flags of the results, since some callers know those and ask by them
        _JVP.keep(closed, (flags, tuple(found[1])), found)
    return found


_JVP = MemoTable[tuple[ClosedJaxpr, list[bool]]]("jvp")


def _jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], wanted: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    from_jaxpr = closed.jaxpr
    trace = JaxprTrace()
    with set_current_trace(trace):
        consts = trace.new_consts(closed)
        primals = trace.new_inputs(from_jaxpr.in_binders)
        tangents = [
            trace.new_input(p.aval.tangent()) if nz else Zero(p.aval)
            for p, nz in zip(primals, nonzeros, strict=True)
        ]
        outs, out_tangents = jvp_interpret(from_jaxpr, consts, primals, tangents, trace.copy_eqn)
        flags = [type(t) is not Zero or w for t, w in zip(out_tangents, wanted, strict=True)]
        kept = [instantiate(t) for t, flag in zip(out_tangents, flags, strict=True) if flag]
    return once(trace.build_live([*outs, *kept])), flags


def jvp_interpret(
    jaxpr: Jaxpr,
    consts: Sequence[Value],
    primals: Sequence[Value],
    tangents: Sequence[Value],
    copy_eqn: Callable[[JaxprEqn, Sequence[Value]], list[Value]],
    rule_of: Callable[[Primitive], Callable[..., Value] | None] = jvp_rules.rules.get,
) -> tuple[list[Value], list[Value]]:
    """Apply a jaxpr to primals and tangents (or Zeros), rule by rule, in the current trace.

    Args:
      jaxpr: (a) -> (b).
      consts: the values of its constants.
      primals: the values of a.
      tangents: the tangents of a; Zero where there is none.
      copy_eqn: copy_eqn(eqn, operands) applies an equation to the primals.
      rule_of: rule_of(primitive) is the rule to use, or None for the rule of the table.

    Returns:
      b, and the tangents of b, which may be Zero.
    """
    env = Env(zip(jaxpr.all_binders, [*consts, *primals], strict=True))
    tangent_env, rules, replayer = _Tangents(), jvp_rules.rules, Replayer(state.trace, jaxpr.eqns)
    for v, t in zip(jaxpr.in_binders, tangents, strict=True):
        if type(t) is not Zero:
            tangent_env[v] = t
    with interpreting():
        for eqn in interpreted(jaxpr.eqns):
            inputs, binders, primitive = eqn.inputs, eqn.out_binders, eqn.primitive
            ins = env.read(inputs)
            if tangent_env.keys().isdisjoint(inputs):
                env.write(binders, copy_eqn(eqn, ins))
                continue
            rule = rule_of(primitive) or rules.get(primitive) or jvp_rules[primitive]
            ts, n = tangent_env.read(inputs), len(binders)
            if eqn in replayer.often and not getattr(rule, "is_linear", False):
                given = eqn, rule, ins, ts, copy_eqn
                made = replayer.apply(eqn, [*ins, *ts], (), _differentiated, *given)
            else:
                made = _differentiated(eqn, rule, ins, ts, copy_eqn)
            if n == 1:
                env[binders[0]], t = made
                if type(t) is not Zero:
                    tangent_env[binders[0]] = t
                continue
            env.write(binders, made[:n])
            for v, t in zip(binders, made[n:], strict=True):
                if type(t) is not Zero:
                    tangent_env[v] = t
    outs = env.read(jaxpr.outs)
    return outs, tangent_env.read(jaxpr.outs)


def _differentiated(
    eqn: JaxprEqn,
    rule: Callable[..., Value],
    primals: Sequence[Value],
    tangents: Sequence[Value],
    copy_eqn: Callable[[JaxprEqn, Sequence[Value]], list[Value]],
) -> list[Value]:
    """Apply the jvp rule of an equation; return its results followed by their tangents."""
    if isinstance(rule, MadeRule):
        (out,) = copy_eqn(eqn, primals)
        return [out, rule.tangent_of(eqn, out, primals, tangents)]
    out, out_tangent = rule(primals, tangents, **eqn.params)
    if not eqn.primitive.multiple_results:
        return [out, out_tangent]
    return joined(eqn, out, out_tangent)


class _Tangents(Env):
    """Variable -> tangent, for variables that have one; the tangents of others, and of literals, are zero."""

    __slots__ = ()

    def __missing__(self, atom: Any) -> Zero:
        return Zero(atom.aval)


# -- makers: op -> rule ------------------------------------------------------------------------


class MadeRule:
    """A jvp rule that applies the operation to the primals, and computes the tangent of the result from its result.

    It is for operations with one result. An interpreter of equations copies the equation of the
    primals, and asks only for the tangent.

    Attributes:
      op: the operation.
      tangent: (y, primals, tangents, **params) -> the tangent of the result y.
      is_linear: whether the tangent is the operation applied to the tangents.
    """

    __slots__ = ("is_linear", "op", "tangent")

    def __init__(self, op: Any, tangent: Callable[..., Value], *, is_linear: bool = False):
        self.op, self.tangent, self.is_linear = op, tangent, is_linear

    def __call__(
        self, primals: Sequence[Value], tangents: Sequence[Value], /, **params: ParamValue
    ) -> tuple[Value, Value]:
        y = self.op(*primals, **params)
        return y, self.tangent(y, primals, tangents, **params)

    def tangent_of(
        self, eqn: JaxprEqn, y: Value, primals: Sequence[Value], tangents: Sequence[Value]
    ) -> Value:
        """Return the tangent of the result y of an equation of the operation."""
        if self.is_linear:
            return state.trace.process_again(eqn, [*map(instantiate, tangents)])
        return self.tangent(y, primals, tangents, **eqn.params)


def derivative(factor: Callable[..., Value]) -> Maker:
    """Return the jvp rule t * factor(x, y) of a function y = op(x) of one operand.

    `factor` may take the params too, by keyword.
    """
    return jvp_terms(lambda t, y, x, **params: lax.mul(t, factor(x, y, **params)))


def jvp_terms(*terms: Callable[..., Value] | None) -> Maker:
    """Return the jvp rule of a function y = op(x1, ...) as a sum over operands.

    terms[i](t, y, *xs, **params) is the contribution of the tangent t of operand i; None for an
    operand on which y does not depend.
    """

    def tangent(
        y: Value, primals: Sequence[Value], tangents: Sequence[Value], /, **params: ParamValue
    ) -> Value:
        out: Any = None
        if get_aval(y).dtype.is_inexact:  # with a `preferred_element_type` y may be of integers
            for t, term in zip(tangents, terms, strict=True):
                if term is not None and type(t) is not Zero:
                    part = term(t, y, *primals, **params)
                    if type(part) is not Zero:
                        out = part if out is None else lax.add_any(out, part)
        return Zero(get_aval(y)) if out is None else out

    return Maker(lambda op: MadeRule(op, tangent))


@Maker
def linear(op: Any) -> Value:
    """Return the jvp rule of an operation that is linear in all of its operands together."""

    def apply(tangents: Sequence[Value], /, **params: ParamValue) -> Value:
        return op(*map(instantiate, tangents), **params)

    if op.primitive.multiple_results:
        return lambda p, t, /, **params: (op(*p, **params), apply(t, **params))
    return MadeRule(op, lambda y, p, t, /, **params: apply(t, **params), is_linear=True)


@Maker
def bilinear(op: Any) -> Value:
    """Return the jvp rule of an operation that is linear in each of its two operands."""

    def tangent(
        out: Value, primals: Sequence[Value], tangents: Sequence[Value], /, **params: ParamValue
    ) -> Value:
        (x, y), (dx, dy) = primals, tangents
        if not get_aval(out).dtype.is_inexact:
            return Zero(get_aval(out))
        left = dx if type(dx) is Zero else op(dx, y, **params)
        right = dy if type(dy) is Zero else op(x, dy, **params)
        return add_tangents(left, right)

    return MadeRule(op, tangent)


@Maker
def zero_derivative(op: Any) -> Value:
    """The jvp rule of an operation whose results do not change with small changes of its operands."""
    if not op.primitive.multiple_results:
        return MadeRule(op, lambda y, p, t, /, **params: Zero(get_aval(y)))

    def rule(primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue) -> Value:
        out = op(*primals, **params)
        return out, [Zero(get_aval(x)) for x in out]

    return rule
