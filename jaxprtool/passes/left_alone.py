"""Run passes that leave some equations alone."""

from __future__ import annotations

from collections.abc import Callable, Container

from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Primitive
from jaxprtool.ir.walk import map_programs, with_eqns

__all__ = ["left_alone"]


def left_alone(
    program: ClosedJaxpr,
    eqns: Container[JaxprEqn],
    run: Callable[[ClosedJaxpr], ClosedJaxpr],
) -> ClosedJaxpr:
    """Run passes on a program in which some equations stay, apart from changes to how their operands are computed.

    While the passes run, each of these equations has a primitive that is not declared: as far as a
    pass knows it has effects, and no other equation does the same.

    Args:
      program: the program.
      eqns: the equations that stay, in the program or in nested jaxprs.
      run: the passes.
    """
    own: dict[Primitive, Primitive] = {}  # the primitives of equations, by their stand-ins

    def hidden(eqn: JaxprEqn) -> JaxprEqn:
        primitive = eqn.primitive
        stand_in = Primitive(
            primitive.name, multiple_results=primitive.multiple_results, known=False
        )
        own[stand_in] = primitive
        return eqn.replace(primitive=stand_in)

    def shown(eqn: JaxprEqn) -> JaxprEqn:
        return eqn.replace(primitive=own[eqn.primitive])

    held = _changed(program, lambda eqn: eqn in eqns, hidden)
    return run(program) if held is program else _back(program, held, run(held), own, shown)


def _back(
    program: ClosedJaxpr,
    held: ClosedJaxpr,
    made: ClosedJaxpr,
    own: Container[Primitive],
    shown: Callable[[JaxprEqn], JaxprEqn],
) -> ClosedJaxpr:
    return program if made is held else _changed(made, lambda eqn: eqn.primitive in own, shown)


def _changed(
    program: ClosedJaxpr,
    is_meant: Callable[[JaxprEqn], bool],
    change: Callable[[JaxprEqn], JaxprEqn],
) -> ClosedJaxpr:
    """Return the program with some equations changed, at any depth; the same object where there are none of them."""

    def in_one(closed: ClosedJaxpr) -> ClosedJaxpr:
        if not any(map(is_meant, closed.eqns)):
            return closed
        return with_eqns(closed, [change(e) if is_meant(e) else e for e in closed.eqns])

    return map_programs(program, in_one)
