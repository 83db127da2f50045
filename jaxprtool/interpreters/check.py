"""Compute the types of operations, and check the types of whole jaxprs.

Contract of an `abstract_eval` rule:

    rule(*in_avals, **params) -> aval            (a list of avals where the primitive has multiple_results)

It gets the type of each operand (without weak-type marks) and all params, and returns the type of
the result. When operands or params are wrong it raises through `ill_typed`, with a message that
names the primitive, the param and its value, and the rule. It must not depend on anything else.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from jaxprtool.core.axes import current_axes
from jaxprtool.core.bind import state
from jaxprtool.core.declared import FAULTS, check_declared, failed_rule, holds_integers, no_type
from jaxprtool.core.primitive import vocabulary
from jaxprtool.core.rule_table import FactTable, RuleTable
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import get_aval
from jaxprtool.core.unknown import printed_object, unknown_primitive
from jaxprtool.core.verification import verifying
from jaxprtool.interpreters.cells import Cells, binds_references
from jaxprtool.interpreters.columns.layouts import fault_of_sums, laid_out
from jaxprtool.ir.avals import ARRAY_LIMIT, ShapedArray
from jaxprtool.ir.diagnostics import (
    Diagnostic,
    InternalError,
    JaxprToolError,
    JaxprTypeError,
    MissingRuleError,
    are,
    counted,
    place_of,
)
from jaxprtool.ir.jaxpr import (
    Aval,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    JaxprType,
    Lit,
    Primitive,
    Value,
    Var,
)
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.params import Opaque, ParamValue
from jaxprtool.ir.placement import Placement, placed, placement_of, same_but_for_placement
from jaxprtool.ir.sharding import varying_axes, with_varying
from jaxprtool.ir.synonyms import close_names
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.ops.parallel import inner_axes
from jaxprtool.syntax.infer import set_type_rule
from jaxprtool.syntax.inference.open_programs import missing_types, untyped_constants
from jaxprtool.syntax.releases.earlier import OLDER
from jaxprtool.syntax.scanning.parts import param_place, primitive_place
from jaxprtool.syntax.types import UNTYPED

__all__ = [
    "abstract_eval",
    "abstract_eval_rules",
    "check_constants",
    "check_split",
    "annotated_rule",
    "ill_typed",
    "memory_facts",
    "typecheck_eqn",
    "typecheck_jaxpr",
    "typecheck_partial_eval_jaxpr",
    "varying_facts",
    "verified",
]

abstract_eval_rules = RuleTable("abstract_eval")
# Whether the memory and the varying axes of a result follow from the operands, or are given by the `abstract_eval` rule.
memory_facts = FactTable("memory", "operands", "rule")
varying_facts = FactTable("varying", "operands", "rule", "untracked")


def ill_typed(message: str, code: str = "operand-types", help: str = "") -> NoReturn:
    """Raise a type error for the current operation; the checker adds its position."""
    raise JaxprTypeError(Diagnostic(message, code, help=help))


_is_annotated = operator.attrgetter("annotated")


def abstract_eval(
    primitive: Primitive, in_avals: Sequence[Aval], params: dict[str, ParamValue]
) -> list[Value]:
    """Return the result types of an operation, always as a list. Raises JaxprTypeError."""
    rule = abstract_eval_rules.rules.get(primitive) or abstract_eval_rules[primitive]
    if any(map(_is_annotated, in_avals)):
        rule = annotated_rule(primitive, rule)
    try:
        out = rule(*in_avals, **params)
    except JaxprToolError as e:
        d = e.diagnostics[0]
        if d.code != ARRAY_LIMIT:
            raise
        sizes = [f" {k}={v}" for k, v in params.items() if v and holds_integers(v)]
        message = f"{primitive}{''.join(sizes)}: {d.message}"
        raise JaxprTypeError(replace(d, message=message)) from e
    except FAULTS as e:
        raise JaxprTypeError(failed_rule(primitive, in_avals, e)) from e
    wrong = no_type(primitive, out)
    if wrong is not None:
        raise JaxprTypeError(wrong)
    return list(out) if primitive.multiple_results else [out]


def _memory_of(primitive: Primitive, in_avals: Sequence[Aval]) -> str:
    """Return the memory space of the operands of an ordinary operation; its results are in the same one.

    As in JAX (`lax.utils._default_memory_space_rule`) operands of rank 0 may be in any memory, and
    all others have to be in the same one.
    """
    arrays = [a for a in in_avals if isinstance(a, ShapedArray) and a.shape]
    for a in arrays:
        if a.memory != arrays[0].memory:
            ill_typed(
                f"{primitive} needs operands in one memory, got {arrays[0]} and {a}",
                "operand-memories",
                help="device_put moves an array from one to the other",
            )
    return arrays[0].memory if arrays else ""


def annotated_rule(primitive: Primitive, rule: Any) -> Value:
    """Return the type rule for operands whose types have annotations: varying axes (`{V:i}`), layout, memory.

    The result of an ordinary operation varies along every axis along which some operand varies. As
    in JAX, the results of some operations do not keep track of this.
    """
    fact = varying_facts[primitive]
    if fact == "rule":
        return rule

    def typed(*in_avals: Aval, **params: ParamValue) -> Value:
        names = dict.fromkeys(n for a in in_avals for n in varying_axes(a))
        somewhere = any(isinstance(a, ShapedArray) and a.memory for a in in_avals)
        if not somewhere and not names and not any(any(placement_of(a)) for a in in_avals):
            return rule(*in_avals, **params)
        wrong = fault_of_sums(primitive, in_avals)
        if wrong:
            ill_typed(wrong, "varying", help="reshard or psum gives the sum")
        if fact == "untracked":
            names = {}
        moves = primitive in memory_facts
        memory = "" if moves else _memory_of(primitive, in_avals)
        order = current_axes().sizes
        out = rule(*[placed(with_varying(a, ()), Placement()) for a in in_avals], **params)

        def annotated(aval: Aval) -> Value:
            aval = with_varying(laid_out(primitive, in_avals, aval, params), names, order)
            return (
                aval if moves or not isinstance(aval, ShapedArray) else aval.update(memory=memory)
            )

        return [annotated(a) for a in out] if isinstance(out, list) else annotated(out)

    return typed


@deep
def typecheck_jaxpr(jaxpr: Jaxpr | ClosedJaxpr, *, allow_unknown: bool = False) -> JaxprType:
    """Check a jaxpr and every jaxpr inside it.

    Args:
      jaxpr: what to check.
      allow_unknown: whether to trust the result types that a text gives for undeclared primitives.

    Returns:
      Its type: types of constants and arguments, types of results.

    Raises:
      JaxprTypeError: with a diagnostic for each fault, at any depth: unbound variables, variables
        bound twice, wrong arity, a result that does not have its binder's type, bad params. Where
        there are none, with those for constants whose values do not have the types of their
        variables.
    """
    opened = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    problems = missing_types(opened)
    if not problems:
        problems, _ = _check_all(opened, allow_unknown)
    if isinstance(jaxpr, ClosedJaxpr) and not problems:
        problems = _misfits(jaxpr)
    if problems:
        raise JaxprTypeError(problems)
    return type_of(opened)


def type_of(jaxpr: Jaxpr) -> JaxprType:
    """Return the type of a jaxpr without checking it."""
    return JaxprType([v.aval for v in jaxpr.all_binders], jaxpr.out_avals)


def _check_all(
    jaxpr: Jaxpr, allow_unknown: bool, trusting: bool = False
) -> tuple[list[Diagnostic], set[Jaxpr]]:
    """Return the faults of a jaxpr and of all jaxprs inside it, and the jaxprs that were checked.

    With `trusting`, jaxprs that were verified before are not checked again.
    """
    problems: list[Diagnostic] = []
    consequences: list[Diagnostic] = []
    seen: set[tuple] = set()
    types: dict[Any, dict[tuple[Any, ...], list[Any]]] = {}  # keyed by the names of the bound axes
    outer = state.axes
    pending = [(jaxpr, outer)]
    try:
        while pending:  # nested jaxprs are closed, so each is checked on its own
            current, axes = pending.pop()
            key = current, axes and axes.key
            if key not in seen and not (trusting and _VERIFIED.find(current)):
                seen.add(key)
                state.axes = axes
                known = types.setdefault(key[1], {})
                problems += untyped_constants(current)
                _Checker(current, allow_unknown, problems, consequences, pending, known).check()
    finally:
        state.axes = outer
    problems = problems or consequences
    problems.sort(key=lambda d: d.span.start if d.span else 0)
    return problems, {checked for checked, _ in seen}


# -- verification ------------------------------------------------------------------------------

_Made = TypeVar("_Made", Jaxpr, ClosedJaxpr)


_VERIFIED = Memo[bool]("verified")


def verified(made: _Made) -> _Made:
    """Check a new jaxpr where verification is on, and return it.

    The result types that a text gives for undeclared primitives are trusted. Jaxprs that were
    checked already are not checked again, so verification takes time linear in the size of the new
    part.

    Raises:
      InternalError: it is ill-typed, or its constants are not of the types of their binders.
    """
    if verifying():
        jaxpr = made.jaxpr if isinstance(made, ClosedJaxpr) else made
        problems, seen = _check_all(jaxpr, True, trusting=True)
        if isinstance(made, ClosedJaxpr):
            problems += _misfits(made)
        if problems:
            found = "; ".join(d.message for d in problems)
            raise InternalError(f"a jaxpr that was made is ill-typed: {found}\n{jaxpr!r}")
        for checked in seen:
            _VERIFIED.keep(checked, True)
    return made


def _misfits(closed: ClosedJaxpr) -> list[Diagnostic]:
    """Return diagnostics for constants whose values do not have the types of their binders."""
    binders, consts = closed.jaxpr.const_binders, closed.consts
    if len(binders) != len(consts):
        return [
            Diagnostic(
                f"{counted(len(binders), 'constant')}, {counted(len(consts), 'value')}",
                "constant-count",
                closed.jaxpr.span,
            )
        ]
    found: list[Diagnostic] = []
    for v, c in zip(binders, consts, strict=True):
        if not (c is None or hasattr(c, "dtype") or hasattr(c, "aval") or type(c) in _NUMBERS):
            message = (
                f"the value of the constant {v.name or v} is no array but a {type(c).__name__}"
            )
            found.append(Diagnostic(message, "constant-type", v.span))
        elif hasattr(c, "dtype") and not _is_constant_of(get_aval(c), v.aval):
            message = (
                f"the value of the constant {v.name or v} is {get_aval(c)}, and {v.aval} is needed"
            )
            found.append(Diagnostic(message, "constant-type", v.span))
    return found


def _is_constant_of(value: Aval, binder: Aval) -> bool:
    """Whether a value of a type may be the value of a constant.

    The type of the binder may have varying axes that the value lacks; the value is then the same on
    all devices. A binder without a type accepts any value.
    """
    if binder is UNTYPED or same_but_for_placement(value, binder):
        return True
    return bool(varying_axes(binder)) and same_but_for_placement(value, with_varying(binder, ()))


def check_constants(closed: ClosedJaxpr) -> None:
    """Raise JaxprTypeError unless the values of the constants have the number and the types that
    the jaxpr declares.
    """
    if _FITTING.find(closed) is None:
        if problems := _misfits(closed):
            raise JaxprTypeError(problems)
        _FITTING.keep(closed, True)


_NUMBERS = (bool, int, float, complex)
_FITTING = Memo[bool]("whether the constants have their types")


def typecheck_eqn(eqn: JaxprEqn) -> list[Value]:
    """Return the types of an equation's results by its primitive's rule; raises JaxprTypeError."""
    check_declared(eqn)
    return abstract_eval(eqn.primitive, [x.aval.strong for x in eqn.inputs], eqn.params)


class _Checker:
    """The check of one jaxpr. It appends the jaxprs inside it to `pending`.

    Attributes:
      problems: the faults found.
      consequences: faults that may follow from other faults; they are reported only where there are
        no `problems`.
      doubtful: variables declared with another type than their equations give them.
      types: the result types of correct equations, by primitive, id of the params (which cannot
        change, and which the program keeps alive) and operand types; one table for all jaxprs in
        which the same axis names are bound.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        allow_unknown: bool,
        problems: list[Diagnostic],
        consequences: list[Diagnostic],
        pending: list[Value],
        types: dict[tuple[Any, ...], list[Any]],
    ):
        self.jaxpr, self.allow_unknown = jaxpr, allow_unknown
        self.problems, self.pending, self.types = problems, pending, types
        self.consequences = consequences
        self.bound: set[Var] = set()
        # variables declared with another type than their equation gives them
        self.doubtful: set[Var] = set()

    def report(
        self,
        message: str,
        code: str,
        span: Any = None,
        help: str = "",
        eqn: Any = None,
        follows: bool = False,
    ) -> None:
        where = place_of(eqn) if eqn is not None and span is None else ""
        if span is not None and span.origin is None and eqn is not None:
            span = span._replace(origin=eqn.origin)
        found = self.consequences if follows else self.problems
        found.append(Diagnostic(message, code, span=span, help=help, where=where))

    def bind(self, v: Var) -> None:
        if v in self.bound:
            self.report(f"variable {v.name} is bound twice", "bound-twice", v.span)
        self.bound.add(v)

    def check(self) -> None:
        jaxpr, bound = self.jaxpr, self.bound
        for v in jaxpr.all_binders:
            self.bind(v)
        rules = abstract_eval_rules.rules
        cells = Cells() if binds_references(jaxpr) else None
        for eqn in jaxpr.eqns:
            typed = True
            for x in eqn.inputs:
                if type(x) is not Lit and x not in bound:
                    self.unbound(x, eqn.span)
                    typed = False
            if cells is not None:
                self.problems += cells.faults(eqn)
            if eqn.primitive in rules or eqn.primitive in abstract_eval_rules:
                if typed:
                    self.check_eqn(eqn)
                else:
                    self.check_declared(eqn)
            elif eqn.primitive.known:
                self.without_rule(eqn)
            elif not self.allow_unknown:
                self.unknown(eqn)
            elif any(v.aval is UNTYPED for v in eqn.out_binders):
                self.untold(eqn)
            for v in eqn.out_binders:
                if v in bound:
                    self.bind(v)
                else:
                    bound.add(v)
        if cells is not None:
            self.problems += cells.results(jaxpr)
        for x in jaxpr.outs:
            if type(x) is not Lit and x not in bound:
                self.unbound(x, jaxpr.span)

    def unbound(self, x: Value, span: Any) -> None:
        self.report(f"variable {x.name or x} is not bound here", "unbound-variable", x.span or span)

    def without_rule(self, eqn: JaxprEqn) -> None:
        try:
            abstract_eval_rules[eqn.primitive]
        except MissingRuleError as e:
            self.problems.append(replace(e.diagnostics[0], span=eqn.span))

    def is_unread_older(self, eqn: JaxprEqn) -> bool:
        """Report an equation of an earlier release with a param that could not be read; return whether it is one."""
        name, unread = (
            eqn.primitive.name,
            [k for k, v in eqn.params.items() if type(v) is Opaque or v == ""],
        )
        if name not in OLDER or not unread:
            return False
        message = f"{name} is one of an earlier JAX, and its param {unread[0]} cannot be read"
        self.report(message, "bad-param", param_place(eqn.span, unread[0]), eqn=eqn)
        return True

    def unknown(self, eqn: JaxprEqn) -> None:
        name = eqn.primitive.name
        if self.is_unread_older(eqn):
            return
        held = next((str(eqn.params[k]) for k in ("_prim", "prim") if k in eqn.params), "")
        found = unknown_primitive(printed_object(name, held), also="--allow-unknown accepts it")
        self.report(found.message, found.code, primitive_place(eqn.span), found.help, eqn)

    def untold(self, eqn: JaxprEqn) -> None:
        names = ", ".join(v.name or "_" for v in eqn.out_binders)
        near = close_names(eqn.primitive.name, vocabulary())
        help = f"did you mean {near[0]}?" if near else "write it after a colon (a:f32[3])"
        message = f"the type of {names} is not in the text, and nobody declares {eqn.primitive}"
        self.report(message, "no-type", primitive_place(eqn.span), help, eqn)

    def is_shape_open(self, eqn: JaxprEqn) -> bool:
        """Report an equation whose text has neither a certain param nor the type of the result that would imply it.

        Returns whether it is such an equation.
        """
        lacks = [k for k, _ in eqn.primitive.recovered if k not in eqn.params]
        found = [v for v in eqn.out_binders if v.aval is UNTYPED]
        if not lacks or not found:
            return False
        name = found[0].name or "_"
        message = f"the type of {name} is not in the text, and nothing decides its {lacks[0]}"
        help = f"write it after a colon ({name}:f32[3]), or the param: {lacks[0]}=(3,)"
        self.report(message, "no-type", primitive_place(eqn.span), help, eqn)
        return True

    def pend(self, eqn: JaxprEqn) -> None:
        """Append the jaxprs in an equation to `pending`, with the axis names that are in scope in them."""
        try:
            axes = inner_axes(eqn) or state.axes
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # the params are wrong, and the type rule reports that
        self.pending.extend((c.jaxpr, axes) for c in sub_jaxprs(eqn))

    def check_declared(self, eqn: JaxprEqn) -> None:
        """Check an equation as far as possible without the types of its operands, some of which are unknown."""
        try:
            check_declared(eqn)
        except JaxprTypeError as e:
            self.problems += [replace(d, span=d.span or _place(eqn, d)) for d in e.diagnostics]

    def check_eqn(self, eqn: JaxprEqn) -> None:
        key = (eqn.primitive, id(eqn.params), *[x.aval for x in eqn.inputs])
        expected = self.types.get(key)
        if expected is None:
            if eqn.primitive.holds_jaxprs:
                self.pend(eqn)
            try:
                expected = self.types[key] = typecheck_eqn(eqn)
            except JaxprToolError as e:
                if any(x.aval is UNTYPED for x in eqn.inputs):
                    return  # the cause of the missing type is reported already
                if any(d.code == "unknown-param" for d in e.diagnostics) and self.is_unread_older(
                    eqn
                ):
                    return
                if self.is_shape_open(eqn):
                    return
                follows = self.is_doubtful(eqn)
                for d in e.diagnostics:
                    self.report(d.message, d.code, d.span or _place(eqn, d), d.help, eqn, follows)
                return
        binders = eqn.out_binders
        if len(expected) != len(binders):
            self.report(
                f"{eqn.primitive} has {counted(len(expected), 'result')}, and {are(len(binders))} bound",
                "result-count",
                eqn.span,
                eqn=eqn,
            )
            return
        for v, aval in zip(binders, expected, strict=True):
            if v.aval is not aval and not same_but_for_placement(v.aval, aval):
                follows = aval is UNTYPED or v.aval is UNTYPED or self.is_doubtful(eqn)
                if not follows:
                    self.doubtful.add(v)
                self.report(
                    f"{eqn.primitive} gives {aval}, and {v.name or 'its binder'} is declared as {v.aval}",
                    "binder-type",
                    v.span or eqn.span,
                    eqn=eqn,
                    follows=follows,
                )

    def is_doubtful(self, eqn: JaxprEqn) -> bool:
        """Whether a fault of an equation may follow from another: an operand's type is doubtful, or
        an inner result's unknown.
        """
        return any(x in self.doubtful for x in eqn.inputs if type(x) is not Lit) or any(
            x.aval is UNTYPED for c in sub_jaxprs(eqn) for x in c.jaxpr.outs
        )


def _place(eqn: JaxprEqn, found: Diagnostic) -> Any:
    """Return the position of a fault of an equation: that of a param, or of the whole equation."""
    param = found.param
    if found.code == "param-value" and not param:  # the message of the type rule names the param
        message = found.message.replace("=", " ")
        named = [key for key in eqn.params if f" {key} " in message]
        param = min(named, key=lambda key: message.find(f" {key} "), default="")
    return param_place(eqn.span, param) if param else eqn.span


def typecheck_partial_eval_jaxpr(
    jaxpr: Jaxpr, unks_in: Sequence[bool], unks_out: Sequence[bool], known: Jaxpr, unknown: Jaxpr
) -> None:
    """Check that `known` and `unknown` are a split of `jaxpr` (Autodidax's function of this name).

    jaxpr: (a1, a2) -> (b1, b2); known: a1 -> (b1, res); unknown: (res, a2) -> b2, where the flags
    of a2 and b2 are True. Raises JaxprTypeError where the parts have other types.
    """
    for j in (jaxpr, known, unknown):
        typecheck_jaxpr(j)
    check_split(jaxpr, unks_in, unks_out, known, unknown)


def check_split(
    jaxpr: Jaxpr, unks_in: Sequence[bool], unks_out: Sequence[bool], known: Jaxpr, unknown: Jaxpr
) -> None:
    """`typecheck_partial_eval_jaxpr` of jaxprs that are known to be well-typed."""
    whole, first, second = map(type_of, (jaxpr, known, unknown))
    a1 = [t for t, u in zip(whole.in_types, unks_in, strict=True) if not u]
    a2 = [t for t, u in zip(whole.in_types, unks_in, strict=True) if u]
    b1 = [t for t, u in zip(whole.out_types, unks_out, strict=True) if not u]
    b2 = [t for t, u in zip(whole.out_types, unks_out, strict=True) if u]
    residuals = first.out_types[len(b1) :]
    # constants of inner jaxprs that the known part uses outside of them come after the jaxpr's own constants
    inner = slice(len(jaxpr.const_binders), len(known.const_binders))
    known_ins = [t for i, t in enumerate(first.in_types) if not inner.start <= i < inner.stop]
    got = JaxprType(
        known_ins + second.in_types[len(residuals) :],
        first.out_types[: len(b1)] + second.out_types,
    )
    want = JaxprType(a1 + a2, b1 + b2)
    if _strong(got) != _strong(want) or _strong_list(residuals) != _strong_list(
        second.in_types[: len(residuals)]
    ):
        ill_typed(f"the parts of a split do not fit: {first} and {second} of {whole}", "split-type")


def _strong_list(avals: Sequence[Aval]) -> list[Value]:
    return [a.strong for a in avals]


def _strong(t: JaxprType) -> tuple[list[Value], list[Value]]:
    return _strong_list(t.in_types), _strong_list(t.out_types)


set_type_rule(abstract_eval)
