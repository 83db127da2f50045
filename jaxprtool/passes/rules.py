"""Rewrite rules: replace an equation, depending on the equations that compute its operands.

    @rewrite_rule("neg")
    def neg_of_neg(match: Match):
        '''neg (neg x) is x.'''
        inner = match.made(0, "neg")
        return inner and inner.inputs[0]

A rule is a function of a `Match`. It returns None where it does not apply; an atom that is the
result; or `match.new(f, *atoms)`, for the result of a function of atoms, written with
`jaxprtool.lax`. A result of another type than the equation's is not used. A rule is a pass of its
own, under its name with `-` for `_`, and so are all rules of a module that it is loaded from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.columns.flow import passed_on
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.passes.bodies import NewBody, in_each_body, is_pure
from jaxprtool.passes.registry import define_pass

__all__ = ["Match", "New", "Rule", "apply_rules", "rewrite_rule"]


class New(NamedTuple):
    """The result of a function of atoms.

    Attributes:
      function: the function.
      operands: the atoms.
      instead_of: equations that only this equation needs, and that are removed with it.
    """

    function: Callable[..., Any]
    operands: tuple[Atom, ...]
    instead_of: tuple[JaxprEqn, ...] = ()


class Match:
    """An equation with one result, and access to the equations of its jaxpr that compute its operands.

    Attributes:
      eqn: the equation.
      inputs: its operands.
      params: its params.
      out: the type of its result.
    """

    def __init__(
        self,
        eqn: JaxprEqn,
        defined: Mapping[Any, JaxprEqn],
        reads: Mapping[Any, int] | None = None,
    ):
        self.eqn, self._defined, self._reads = eqn, defined, reads or {}
        self.inputs, self.params = eqn.inputs, eqn.params
        self.out = eqn.out_binders[0].aval

    def made(self, i: int, *primitives: str) -> JaxprEqn | None:
        """Return the equation that computes operand i, if it has one of these primitives; else None."""
        found = self.maker(self.inputs[i])
        return found if found is not None and found.primitive.name in primitives else None

    def value(self, i: int) -> Any:
        """Return the number that operand i is, or that all of its elements are; None where none is known."""
        x = self.inputs[i]
        for _ in range(_STEPS):
            if type(x) is Lit:
                return x.val if isinstance(x.val, (bool, int, float, complex)) else None
            eqn = self.maker(x)
            operand = None if eqn is None else passed_on(eqn, eqn.out_binders.index(x), _MOVED)
            if operand is None:
                return None
            x = operand
        return None

    def maker(self, x: Atom) -> JaxprEqn | None:
        """Return the equation of the jaxpr that computes an atom; None for an argument or a literal."""
        return None if type(x) is Lit else self._defined.get(x)

    def read_once(self, x: Atom) -> bool:
        """Whether exactly one operand or result of the jaxpr is this variable; False where that is not known."""
        return self._reads.get(x) == 1

    def is_zero(self, i: int, *, negative: bool) -> bool:
        """Whether operand i is zero with this sign; the only zero of integers counts for both."""
        value, dtype = self.value(i), getattr(self.inputs[i].aval, "dtype", None)
        if value is None or isinstance(value, complex) or value != 0:
            return False
        if dtype is not None and not dtype.has_zero:
            return False
        return not isinstance(value, float) or (math.copysign(1.0, value) < 0) == negative

    def new(
        self,
        function: Callable[..., Any],
        *operands: Atom,
        instead_of: Sequence[JaxprEqn] = (),
    ) -> New:
        """Return the result of a function of atoms.

        instead_of: equations that only this one needs, and that are removed with it.
        """
        return New(function, operands, tuple(instead_of))


_MOVED = ("kept", "permuted")  # if all elements are one number after these, they are before
_STEPS = 8  # moves that `value` looks through

Rule = Callable[[Match], "Atom | New | None"]


def rewrite_rule(*primitives: str, laws: str = "bits types") -> Callable[[Rule], Rule]:
    """Return a decorator that makes a function a rewrite rule for equations of some primitives, and a pass.

    Args:
      primitives: the names of the primitives.
      laws: what the pass promises; see `registry.LAWS`.
    """

    def define(rule: Rule) -> Rule:
        own = {name: [rule] for name in primitives}

        def run(program: ClosedJaxpr) -> ClosedJaxpr:
            return apply_rules(program, own)

        run.__doc__, run.__module__ = rule.__doc__, rule.__module__
        define_pass(rule.__name__.replace("_", "-"), laws)(run)
        return rule

    return define


def apply_rules(
    program: ClosedJaxpr, rules: Mapping[str, Sequence[Rule]], first: Rule | None = None
) -> ClosedJaxpr:
    """Apply rules to the equations of a program in order, at any depth; of several rules the first one that applies counts.

    Args:
      program: the program.
      rules: the rules by the name of the primitive.
      first: a rule for all equations, which is tried before.
    """
    return in_each_body(program, lambda closed: _rewritten(closed, rules, first))


def _rewritten(
    closed: ClosedJaxpr, rules: Mapping[str, Sequence[Rule]], first: Rule | None
) -> ClosedJaxpr:
    body = NewBody(closed)
    reads = Counter(x for eqn in closed.eqns for x in eqn.inputs if type(x) is not Lit)
    reads.update(x for x in closed.jaxpr.outs if type(x) is not Lit)
    for old in closed.eqns:
        eqn = body.renamed(old)
        own = rules.get(eqn.primitive.name, ())
        own = own if first is None else [first, *own]
        if not own or len(eqn.out_binders) != 1 or not is_pure(eqn):
            body.add(eqn)
            continue
        match = Match(eqn, body.defined, reads)
        if not any(_applied(body, eqn, _given(rule, match), reads) for rule in own):
            body.add(eqn)
    return body.result()


def _given(rule: Rule, match: Match) -> Any:
    """Return what a rule gives. Raises UsageError where a rule may not give that."""
    found: Any = rule(match)
    if found is None or isinstance(found, (New, Var, Lit)):
        return found
    message = f"the rewrite rule {rule.__name__} returned {type(found).__name__}"
    help = "a rule returns None, an atom (such as match.inputs[0]) or match.new(function, *atoms)"
    fail(UsageError, message, "plugin-failed", help=help)


def _applied(body: NewBody, eqn: JaxprEqn, found: Any, reads: Counter[Any]) -> bool:
    """Replace an equation by what a rule gives; return whether it gives anything that fits.

    reads: how often a variable is read at most: what the equation has read counts although it is
    gone.
    """
    if found is None:
        return False
    (binder,) = eqn.out_binders
    if isinstance(found, New):
        before = len(body.eqns)
        if not body.put(eqn, found.function, found.operands):
            return False
        reads.update(x for e in body.eqns[before:] for x in e.inputs if type(x) is not Lit)
        body.leave_out(found.instead_of)
    elif found.aval != binder.aval:
        return False
    else:
        body.put_instead(binder, found)
    reads[body.atom(binder)] += reads[binder]
    return True
