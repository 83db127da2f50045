"""Change the origins of the equations of whole programs: name stacks under transformations, and what is printed."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.origin import NAMES, SOURCE, Frame, Origin
from jaxprtool.ir.walk import map_programs, with_eqns

__all__ = ["map_origins", "show_origins", "within", "within_jaxpr", "without_origins"]


def within(program: ClosedJaxpr, transformation: str) -> ClosedJaxpr:
    """Return the program with the name of a transformation around its name stacks: `attn` becomes `jvp(attn)`.

    As in JAX, name stacks in nested jaxprs are relative to the equation that holds them, and stay
    as they are. The result is the same object each time, and the program itself where no equation
    has names.
    """
    found = _WITHIN.find(program, transformation)
    if found is None:
        jaxpr = within_jaxpr(program.jaxpr, transformation)
        found = program if jaxpr is program.jaxpr else program.replace(jaxpr=jaxpr)
        _WITHIN.keep(program, transformation, found)
    return found


_WITHIN = MemoTable[ClosedJaxpr]("names within a transformation")


def within_jaxpr(jaxpr: Jaxpr, transformation: str) -> Jaxpr:
    """Do as `within`, for a jaxpr."""
    if all(e.origin is None or e.origin.names is None for e in jaxpr.eqns):
        return jaxpr
    return jaxpr.replace(eqns=[_renamed(e, transformation) for e in jaxpr.eqns])


def _renamed(eqn: JaxprEqn, transformation: str) -> JaxprEqn:
    origin = eqn.origin
    return eqn if origin is None else eqn.with_origin(origin.within(transformation))


def map_origins(program: ClosedJaxpr, f: Callable[[Origin], Origin | None]) -> ClosedJaxpr:
    """Return the program with `f` applied to the origin of each equation that has one, nested jaxprs included."""
    changed = functools.cache(f)

    def body(closed: ClosedJaxpr) -> ClosedJaxpr:
        eqns = [e if e.origin is None else e.with_origin(changed(e.origin)) for e in closed.eqns]
        if all(a is b for a, b in zip(eqns, closed.eqns, strict=True)):
            return closed
        return with_eqns(closed, eqns)

    return map_programs(program, body)


def without_origins(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without the origins of its equations."""
    return map_origins(program, lambda origin: None)


def show_origins(program: ClosedJaxpr, root: str) -> ClosedJaxpr:
    """Return the program whose text shows the origin of each equation: line of Python and name stack, where known.

    Args:
      program: as it was traced.
      root: paths below this folder are written relative to it.
    """

    def shown(origin: Origin) -> Origin:
        frame = origin.frame
        if frame is not None:
            frame = _relative(frame, root)
        return Origin(
            frame, origin.names, SOURCE * (frame is not None) | NAMES * bool(origin.names)
        )

    return map_origins(program, shown)


def _relative(frame: Frame, root: str) -> Frame:
    path = os.path.realpath(frame.file)
    base = os.path.realpath(root)
    if not os.path.isabs(frame.file) or os.path.commonpath([path, base]) != base:
        return frame
    return frame._replace(file=os.path.relpath(path, base))
