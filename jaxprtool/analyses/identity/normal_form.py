"""A normal form of programs: equal normal forms mean equal results, whatever the arguments are.

Each value has a number (`NormalForms`), which stands for how it is computed: for the operation, its
params and the numbers of its operands. So the names of variables, the order of independent
equations, equations that are computed twice and equations that nobody reads make no difference.
Besides, these make none:

- Calls and derivative rules: a call is replaced by the equations of its jaxpr.
- The order of the operands of a commutative operation, also through nested ones where the operation
  is associative (`interpreters.columns.monoids`). Both laws hold exactly, rounding included.
- Operations on constants, which are computed on NumPy, and operations that return their operand.
- What `opt --passes simplify` leaves out or puts together, which is exact to the bit.

Jaxprs in params (bodies of loops, branches) have normal forms in turn. Equations with effects keep
their number and their order. Python functions that compute results are equal where they are one
object, or where texts name functions of modules alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from jaxprtool.analyses.identity.canonical import canonical_const, canonical_lit, canonical_params
from jaxprtool.core.identity import identity_rules
from jaxprtool.core.stack import deep
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.columns.monoids import algebra_of
from jaxprtool.interpreters.dce import dce_closed, draws_anew, has_effects, rebound
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.process_objects import process_objects
from jaxprtool.ir.walk import all_eqns, count_eqns, sub_jaxprs
from jaxprtool.passes.inline import inlined
from jaxprtool.passes.simplify import simplify

__all__ = ["NormalForms", "same_normal_form", "unknown_inside"]

_FOLDED = 64  # elements, at most, of a constant that is computed
_INLINED = 200_000  # equations of two programs, at most, for their calls to be inlined
Number = int


class NormalForms:
    """Hands out the numbers of values; numbers of different objects of this class do not compare.

    Attributes:
      values: the values of small constants, by number.
      terms: for the number of an associative operation, the operation and the numbers of all its
        operands, nested ones included.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, Number] = {}
        self.values: dict[Number, Any] = {}
        self.terms: dict[Number, tuple[Any, list[Number]]] = {}
        self._programs: dict[tuple[ClosedJaxpr, bool], Number] = {}
        self._unknown: dict[Any, int] = {}  # the order of the inner constants that have no value

    def number(self, *key: Any) -> Number:
        """Return the number of a hashable key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of_whole(self, program: ClosedJaxpr, inlines: bool) -> Number:
        """Return the number of an outermost program.

        Its constants without a value count as arguments, whether they are read or not. Such
        constants of nested jaxprs correspond to those of another program by their order.
        """
        program = _opened(inlined(program) if inlines else program)
        unknown = unknown_inside(program)
        if unknown or self._unknown:
            self._programs.clear()  # programs may share jaxprs, whose constants count by their order in each
        self._unknown = {v: k for k, v in enumerate(unknown)}
        return self.of(program, inlines)

    @deep
    def of(self, program: ClosedJaxpr, inlines: bool) -> Number:
        """Return the number of a program: of its arguments' types, its results, and its effects in their order.

        Args:
          program: the program; its dead equations make no difference.
          inlines: whether calls are inlined.
        """
        found = self._programs.get((program, inlines))
        if found is None:
            live = dce_closed(inlined(program) if inlines else program)
            body = _Body(self, inlines)
            args = [
                self.number("argument", i, _type(v.aval))
                for i, v in enumerate(live.jaxpr.in_binders)
            ]
            outs = body.run(live, args)
            types = tuple(_type(x.aval) for x in live.jaxpr.outs)
            found = self.number("program", tuple(args), tuple(outs), types, tuple(body.effects))
            self._programs[program, inlines] = found
        return found

    def unknown(self, v: Any) -> Number:
        """Return the number of a constant of a nested jaxpr that has no value."""
        where = self._unknown.setdefault(v, len(self._unknown))
        return self.number("unknown", where, _type(v.aval))

    def constant(self, value: Any, aval: Aval) -> Number:
        """Return the number of a constant, by its value and its type."""
        found = self.number("constant", canonical_const(value, aval), _type(aval))
        if getattr(aval, "size", _FOLDED + 1) <= _FOLDED and hasattr(value, "dtype"):
            self.values.setdefault(found, value)
        return found


def _type(aval: Aval) -> str:
    return str(aval.strong)


class _Body:
    """The equations of one jaxpr.

    Attributes:
      forms: the numbers.
      inlines: whether calls are inlined.
      effects: the numbers of the equations with effects, in order.
    """

    def __init__(self, forms: NormalForms, inlines: bool):
        self.forms, self.inlines = forms, inlines
        self.effects: list[Number] = []

    def run(self, program: ClosedJaxpr, args: Sequence[Number]) -> list[Number]:
        """Return the numbers of the results of a program, given those of its arguments."""
        jaxpr, forms = program.jaxpr, self.forms
        env: dict[Any, Number] = dict(zip(jaxpr.in_binders, args, strict=True))
        consts = zip(jaxpr.const_binders, program.consts, strict=True)
        for v, c in consts:
            env[v] = forms.unknown(v) if c is None else forms.constant(c, v.aval)
        for eqn in jaxpr.eqns:
            ins = [self.atom(x, env) for x in eqn.inputs]
            env.update(zip(eqn.out_binders, self.equation(eqn, ins), strict=True))
        return [self.atom(x, env) for x in jaxpr.outs]

    def atom(self, x: Any, env: dict[Any, Number]) -> Number:
        """Return the number of a variable, or of a literal, which is a constant."""
        if type(x) is not Lit:
            return env[x]
        found = self.forms.number("constant", _as_array(canonical_lit(x), x), _type(x.aval))
        if x.val is not None and isinstance(x.aval, ShapedArray) and x.aval.size <= _FOLDED:
            self.forms.values.setdefault(found, x)
        return found

    def equation(self, eqn: JaxprEqn, ins: list[Number]) -> list[Number]:
        """Return the numbers of the results of an equation."""
        effects = has_effects(eqn) or draws_anew(eqn)
        if not effects and not eqn.primitive.holds_jaxprs:
            simple = self.simplified(eqn, ins)
            if simple is not None:
                return simple
        params = *canonical_params(eqn, self.inner), *_functions(eqn)
        types = tuple(_type(v.aval) for v in eqn.out_binders)
        order = len(self.effects) if effects else None
        whole = self.forms.number(eqn.primitive.name, params, tuple(ins), types, order)
        if effects:
            self.effects.append(whole)
        return [self.forms.number("result", whole, k) for k in range(len(types))]

    def inner(self, program: ClosedJaxpr) -> str:
        """Return the text of a jaxpr in a param."""
        return f"{{{self.forms.of(program, self.inlines)}}}"

    def simplified(self, eqn: JaxprEqn, ins: list[Number]) -> list[Number] | None:
        """Return the numbers of the results of an equation that is its operand, a constant or commutative; else None."""
        same = identity_rules.find(eqn.primitive)
        if same is not None and same(eqn.params) and _keeps_type(eqn):
            return ins[:1]
        if ins and all(i in self.forms.values for i in ins):
            folded = self.folded(eqn, ins)
            if folded is not None:
                return folded
        laws = algebra_of(eqn) if len(ins) == 2 else None
        if laws is None or not laws.commutative:
            return None
        return [self.combined(eqn, ins, associative=laws.associative)]

    def folded(self, eqn: JaxprEqn, ins: list[Number]) -> list[Number] | None:
        """Return the constants that an equation of constants computes; None where they are large, or cannot be computed."""
        avals = [v.aval for v in eqn.out_binders]
        if not all(isinstance(a, ShapedArray) and a.size <= _FOLDED for a in avals):
            return None
        try:
            outs = bind_eqn(eqn, [self.forms.values[i] for i in ins])
        except JaxprToolError:  # there is no rule, or the operation is refused
            return None
        return [self.forms.constant(x, a) for x, a in zip(outs, avals, strict=True)]

    def combined(self, eqn: JaxprEqn, ins: list[Number], *, associative: bool) -> Number:
        """Return the number of a commutative operation; of an associative one, that of all operands of nested operations together."""
        forms = self.forms
        kind = eqn.primitive.name, tuple(canonical_params(eqn, self.inner))
        kind = (*kind, _type(eqn.out_binders[0].aval))
        if not associative:
            return forms.number("commutative", kind, tuple(sorted(ins)))
        operands: list[Number] = []
        for i in ins:
            of, below = forms.terms.get(i, (None, [i]))
            operands += below if of == kind else [i]
        known = [i for i in operands if i in forms.values]
        rest = [i for i in operands if i not in forms.values]
        while len(known) > 1:
            (both,) = bind_eqn(eqn, [forms.values[i] for i in known[:2]])
            known[:2] = [forms.constant(both, get_aval(both))]
        operands = sorted([*known, *rest])
        found = forms.number("commutative", kind, tuple(operands))
        forms.terms[found] = kind, operands
        return found


def _functions(eqn: JaxprEqn) -> tuple[Hashable, ...]:
    """Return keys of the Python functions that compute the results of an equation, which texts do not tell apart."""
    if eqn.primitive.holds_jaxprs or not eqn.out_binders:
        return ()
    return process_objects(eqn.params.values())


def _keeps_type(eqn: JaxprEqn) -> bool:
    return eqn.inputs[0].aval.strong == eqn.out_binders[0].aval.strong


def _as_array(text: str, x: Lit) -> str:
    """Return the text of a literal as that of a constant of its type."""
    return text if x.aval.shape else f"[{text}]"


def _opened(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with its constants that have no value as its first arguments."""
    if all(c is not None for c in program.consts):
        return program
    pairs = [*zip(program.jaxpr.const_binders, program.consts, strict=True)]
    binders = [*(v for v, c in pairs if c is None), *program.jaxpr.in_binders]
    known = [(v, c) for v, c in pairs if c is not None]
    jaxpr = rebound(program.jaxpr, binders, const_binders=[v for v, _ in known])
    return ClosedJaxpr(jaxpr, [c for _, c in known])


def unknown_inside(program: ClosedJaxpr) -> list[Var]:
    """Return the constants of nested jaxprs that have no value, in order; those without elements do not count."""
    found: dict[Var, None] = {}
    for eqn in all_eqns(program.jaxpr):
        for inner in sub_jaxprs(eqn):
            pairs = zip(inner.jaxpr.const_binders, inner.consts, strict=True)
            found.update((v, None) for v, c in pairs if c is None and getattr(v.aval, "size", -1))
    return [*found]


def same_normal_form(a: ClosedJaxpr, b: ClosedJaxpr) -> bool:
    """Whether two programs have the same normal form, so that they give the same results for all arguments.

    Constants without a value count as arguments, before the others. Where nested jaxprs have such
    constants (`unknown_inside`), the results are the same if the values of these are.
    """
    forms = NormalForms()
    inlines = count_eqns(a.jaxpr) + count_eqns(b.jaxpr) <= _INLINED
    if forms.of_whole(a, inlines) == forms.of_whole(b, inlines):
        return True
    if inlines:
        a, b = inlined(a), inlined(b)
    return forms.of_whole(simplify(a), inlines) == forms.of_whole(simplify(b), inlines)
