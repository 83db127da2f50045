"""The part of a program that a column accepts: without the equations that it refuses, whose results
become arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxprtool.generation.programs import is_sized
from jaxprtool.interpreters.columns.determined import is_determined
from jaxprtool.interpreters.evaluate import eval_jaxpr
from jaxprtool.interpreters.evaluation.limits import limited_bytes, limited_steps
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Value, Var

__all__ = ["Taking", "taken_part"]


class Taking(NamedTuple):
    """Which equations are taken.

    Attributes:
      takes: whether a column accepts a program of one equation, with these arguments.
      max_bytes, step_limit: limits for the run of one equation.
      finite: whether equations with infinities or NaNs in their results are left out, and such
        arguments replaced by ordinary numbers.
      references: whether equations of references and tokens are taken; `takes` cannot be asked
        about them alone.
      seed: the seed of the ordinary numbers.
    """

    takes: Callable[[ClosedJaxpr, Sequence[Value]], bool]
    max_bytes: int
    step_limit: int
    finite: bool
    references: bool = True
    seed: int = 0


def taken_part(
    program: ClosedJaxpr, args: Sequence[Value], how: Taking
) -> tuple[ClosedJaxpr, list[Value]]:
    """Return the equations of a program that a column accepts, each by itself, at their values on NumPy.

    An equation is left out if the column refuses it, if it fails when it runs, or if its operands
    do not determine its results. Its results become arguments, with the values that they have, or
    with ordinary ones where there are none.

    Args:
      program: a well-typed program without constants.
      args: values of its arguments.
      how: which equations are taken.

    Returns:
      A program, without equations where none is taken, and values of its arguments. Values that no
        equation reads are among its results.
    """
    part = _Part(how)
    for v, x in zip(program.jaxpr.in_binders, args, strict=True):
        part.give(v, x)
    for eqn in program.jaxpr.eqns:
        part.add(eqn)
    return part.made(program)


class _Part:
    """The part under construction.

    Attributes:
      eqns: the equations taken so far.
      given: the arguments.
      values: the values of arguments and results.
    """

    def __init__(self, how: Taking):
        self.how = how
        self.eqns: list[JaxprEqn] = []
        self.given: list[Var] = []
        self.values: dict[Var, Value] = {}

    def give(self, v: Var, x: Value | None) -> None:
        """Make a variable an argument with this value; an ordinary one is drawn where there is
        none, or where finite ones are needed.
        """
        from jaxprtool.backends import samples, stability  # noqa: PLC0415 (gateway: NumPy)

        if x is None or (self.how.finite and not stability.all_finite(x)):
            x = stability.normal(samples.draw(v.aval, None, self.how.seed, len(self.given), 0))
        self.given.append(v)
        self.values[v] = x

    def add(self, eqn: JaxprEqn) -> None:
        """Take an equation, or else make its results arguments, as far as their types allow it."""
        read = [*dict.fromkeys(x for x in eqn.inputs if isinstance(x, Var))]
        known = all(v in self.values for v in read)
        outs, taken = self._tried(eqn, read) if known else (None, False)
        if taken and outs is not None:
            self.eqns.append(eqn)
            self.values.update(zip(eqn.out_binders, outs, strict=True))
            return
        for v, x in zip(eqn.out_binders, outs or [None] * len(eqn.out_binders), strict=True):
            if is_sized(v.aval):
                self.give(v, x)

    def _tried(self, eqn: JaxprEqn, read: Sequence[Var]) -> tuple[list[Value] | None, bool]:
        """Return the values of the results of an equation, where it determines any, and whether it is taken."""
        from jaxprtool.backends.stability import all_finite  # noqa: PLC0415 (gateway: NumPy)

        outs = [*eqn.out_binders]
        alone = ClosedJaxpr(Jaxpr([*read], [eqn], outs, []), [])
        args = [self.values[v] for v in read]
        determined = is_determined(alone)
        if not determined:
            return None, False
        try:
            with limited_bytes(self.how.max_bytes), limited_steps(self.how.step_limit):
                found = eval_jaxpr(alone, args)
        except JaxprToolError:
            return None, False
        values = [*zip(read, args, strict=True), *zip(outs, found, strict=True)]
        arrays = [x for v, x in values if is_sized(v.aval)]
        if (self.how.finite or determined == "finite") and not all(map(all_finite, arrays)):
            return found, False
        if len(arrays) < len(values):
            return found, self.how.references
        return found, self.how.takes(alone, args)

    def made(self, program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Value]]:
        """Return the program of the equations, and the values of its arguments."""
        used = {x for e in self.eqns for x in e.inputs if isinstance(x, Var)}
        made = [v for e in self.eqns for v in e.out_binders if is_sized(v.aval)]
        asked = {x for x in program.jaxpr.outs if isinstance(x, Var)}
        outs = [v for v in made if v not in used or v in asked]
        ins = [v for v in self.given if v in used]
        return ClosedJaxpr(Jaxpr(ins, self.eqns, outs, []), []), [self.values[v] for v in ins]
