"""Candidates: programs with values for their arguments, and how smaller ones are made of them.

All constants of a candidate are arguments. A candidate shares equations and variables with the
candidate that it was made from, so that an edit can be described by equations and be tried on any
later candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.interpreters.dce import dce_jaxpr, has_effects
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import count_eqns, sub_jaxprs

__all__ = ["Candidate", "Edit", "Size", "first_candidate", "is_well_typed", "zeros_of"]


class Size(NamedTuple):
    """How large a candidate is; candidates are compared by these numbers in order.

    Attributes:
      eqns: how many equations there are, those of nested jaxprs included.
      elements: how many elements all arguments and results of equations have, at any depth.
      args: how many arguments there are.
      outs: how many results there are.
    """

    eqns: int
    elements: int
    args: int
    outs: int

    def __str__(self) -> str:
        parts = [
            f"{self.eqns:,} equation{'s' * (self.eqns != 1)}",
            f"{self.args:,} argument{'s' * (self.args != 1)}",
            f"{self.elements:,} element{'s' * (self.elements != 1)}",
        ]
        return ", ".join(parts)


class Candidate:
    """A program without constants, and values for its arguments.

    Attributes:
      jaxpr: the program.
      args: a value for each argument; None where the test needs none.
    """

    __slots__ = ("_size", "args", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, args: Sequence[Value] | None):
        self.jaxpr, self.args = jaxpr, None if args is None else (*args,)
        self._size: Size | None = None

    @property
    def program(self) -> ClosedJaxpr:
        """The program as a closed jaxpr, without constants."""
        return ClosedJaxpr(self.jaxpr)

    @property
    def size(self) -> Size:
        """How large it is."""
        if self._size is None:
            jaxpr = self.jaxpr
            total = sum(map(_elements, jaxpr.in_binders)) + _inner_elements(jaxpr)
            self._size = Size(count_eqns(jaxpr), total, len(jaxpr.in_binders), len(jaxpr.outs))
        return self._size

    def with_args(self, args: Sequence[Value]) -> Candidate:
        """Return the candidate with other values for its arguments."""
        return Candidate(self.jaxpr, args)

    def rebuilt(
        self,
        eqns: Sequence[JaxprEqn],
        outs: Sequence[Any],
        fresh: Sequence[Var] = (),
        value_of: Callable[[Var], Value] = lambda v: zeros_of(v.aval),
        hold: bool = False,
    ) -> Candidate | None:
        """Return the candidate with these equations and results, without the arguments that they do not read.

        Args:
          eqns: the equations.
          outs: the results. Those that no equation computes are left out; where none is left, the
            results are what no equation reads.
          fresh: variables that become arguments.
          value_of: returns the value of such a variable.
          hold: whether all results stay, in their order, arguments and repeated ones among them.

        Returns:
          None where nothing is left, or a variable cannot be an argument.
        """
        old = self.jaxpr
        made = {v for e in eqns for v in e.out_binders}
        read = {x for e in eqns for x in e.inputs}
        results = [*outs] if hold else [*dict.fromkeys(x for x in outs if x in made)]
        results = results or _unread(eqns, read)
        if not (results or any(map(has_effects, eqns))) or not all(map(_can_be_given, fresh)):
            return None
        read |= {*results}
        kept = [i for i, v in enumerate(old.in_binders) if v in read]
        binders = [*(old.in_binders[i] for i in kept), *fresh]
        jaxpr = Jaxpr(binders, eqns, results)
        if self.args is None:
            return Candidate(jaxpr, None)
        return Candidate(jaxpr, [*(self.args[i] for i in kept), *map(value_of, fresh)])

    def without(
        self, gone: Iterable[JaxprEqn], value_of: Callable[[Var], Value], *, hold: bool = False
    ) -> Candidate | None:
        """Return the candidate without some equations; those of their results that others read become arguments.

        With `hold`, results of the program do as well, which then has as many results as before. A
        reference cannot be an argument: when the equation that makes one goes, so do those that use
        it. None where nothing is left, or nothing is removed.
        """
        removed = _closed_over_references(self.jaxpr.eqns, {*gone})
        kept = [e for e in self.jaxpr.eqns if e not in removed]
        if len(kept) == len(self.jaxpr.eqns):
            return None
        read = {x for e in kept for x in e.inputs} | ({*self.jaxpr.outs} if hold else set())
        fresh = [v for e in self.jaxpr.eqns if e in removed for v in e.out_binders if v in read]
        return self.rebuilt(kept, self.jaxpr.outs, fresh, value_of, hold)

    def live(self) -> Candidate:
        """Return the candidate without equations and arguments that no result depends on."""
        jaxpr, used = dce_jaxpr(self.jaxpr)
        if jaxpr is self.jaxpr:
            return self
        args = self.args
        if args is not None:
            args = [x for x, u in zip(args, used, strict=True) if u]
        return Candidate(jaxpr, args)


# Makes a smaller candidate from a candidate; None where it does not apply.
Edit = Callable[[Candidate], Candidate | None]


def first_candidate(program: ClosedJaxpr, args: Sequence[Value] | None) -> Candidate:
    """Return the candidate of a program whose constants are loaded.

    Args:
      program: the program.
      args: values of the constants that it does not hold, then of its arguments, in their types;
        None where no values are needed.
    """
    jaxpr = program.jaxpr
    opened = jaxpr.replace(const_binders=(), in_binders=jaxpr.all_binders)
    if args is None:
        return Candidate(opened, None)
    xp, given = numpy_namespace(), iter(args)
    pairs = zip(jaxpr.const_binders, program.consts, strict=True)
    values = [next(given) if c is None else xp.value(c, v.aval) for v, c in pairs]
    return Candidate(opened, [*values, *given])


def is_well_typed(candidate: Candidate) -> bool:
    """Whether a candidate is well-typed; the types that a text gives for undeclared primitives are trusted."""
    try:
        typecheck_jaxpr(candidate.jaxpr, allow_unknown=True)
    except JaxprToolError:
        return False
    return True


def zeros_of(aval: Aval) -> Value:
    """Return zeros of a type; for keys, those of the seed 0."""
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    return arrays.generate("zeros", 0, 0, aval)


def _unread(eqns: Sequence[JaxprEqn], read: set[Any]) -> list[Var]:
    """Return the results of equations that none of them reads, without those that have no name."""
    binders = [v for e in eqns for v in e.out_binders if v not in read]
    return [v for v in binders if _can_be_given(v) and not isinstance(v, DropVar)]


def _can_be_given(v: Var) -> bool:
    return isinstance(v.aval, ShapedArray) and v.aval.size >= 0


def _closed_over_references(eqns: Sequence[JaxprEqn], gone: set[JaxprEqn]) -> set[JaxprEqn]:
    """Return the equations to remove, including those that use a reference (or a token) which one of them makes."""
    dead: set[Var] = set()
    for eqn in eqns:
        if eqn in gone or not dead.isdisjoint(x for x in eqn.inputs if type(x) is not Lit):
            gone.add(eqn)
            dead.update(v for v in eqn.out_binders if not isinstance(v.aval, ShapedArray))
    return gone


def _elements(v: Any) -> int:
    aval = v.aval.inner if isinstance(v.aval, RefType) else v.aval
    shape = getattr(aval, "shape", ())
    return math.prod(d for d in shape if isinstance(d, int))


@deep
def _inner_elements(jaxpr: Jaxpr) -> int:
    """Return how many elements the results of all equations of a jaxpr have, those of nested jaxprs included."""
    found = _ELEMENTS.find(jaxpr)
    if found is None:
        inner = [c.jaxpr for e in jaxpr.eqns for c in sub_jaxprs(e)]
        own = sum(_elements(v) for e in jaxpr.eqns for v in e.out_binders)
        found = _ELEMENTS.keep(jaxpr, own + sum(map(_inner_elements, inner)))
    return found


_ELEMENTS = Memo[int]("elements of results")
