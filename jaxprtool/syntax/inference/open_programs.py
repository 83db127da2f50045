"""Programs whose text leaves types open: give types to their arguments, infer the others, and report what is missing.

The releases to 0.2.21 print no types, and `print_shapes=False` leaves them out. Such a program is
read as it stands: its variables and its literals have the type `UNTYPED` until the types of the
arguments are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.dtypes import COMPLEX128, FLOAT64, INT64, UINT64, DType
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.walk import all_eqns, map_programs
from jaxprtool.syntax.infer import UntypedLit, infer_literals, is_untyped, reachable
from jaxprtool.syntax.inference.propagate import propagate_types
from jaxprtool.syntax.types import UNTYPED

__all__ = ["infer_types", "is_open", "missing_types", "typed", "untyped_constants"]

_WIDE = frozenset({INT64, UINT64, FLOAT64, COMPLEX128})
_IN_TEXT = "write it in the text: `{ lambda c:f32[3]; ...`"
_HELP = "give the types of the arguments: --shape 'f32[3]' for each, jaxprtool.with_types in Python"


def is_open(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr has an open type: of an argument, or of a result of some equation, at any depth."""
    return _OPEN.of(jaxpr, lambda: _has_open(jaxpr))


def _has_open(jaxpr: Jaxpr) -> bool:
    if any(v.aval is UNTYPED for v in jaxpr.all_binders):
        return True
    return any(v.aval is UNTYPED for eqn in all_eqns(jaxpr) for v in eqn.out_binders)


_OPEN = Memo[bool]("open")
_TYPED = MemoTable[Jaxpr]("typed")


def missing_types(jaxpr: Jaxpr) -> list[Diagnostic]:
    """Return a diagnostic for each argument of a program that has no type."""
    return _untyped(jaxpr.all_binders, "argument", _HELP)


def untyped_constants(jaxpr: Jaxpr) -> list[Diagnostic]:
    """Return a diagnostic for each constant of an inner jaxpr that has no type: nothing around it
    determines the type.
    """
    return _untyped(jaxpr.const_binders, "constant", _IN_TEXT)


def _untyped(binders: Sequence[Var], what: str, help: str) -> list[Diagnostic]:
    return [
        Diagnostic(f"the type of the {what} {v.name} is not in the text", "no-type", v.span, help)
        for v in binders
        if v.aval is UNTYPED
    ]


def infer_types(program: ClosedJaxpr, definitions: Sequence[ClosedJaxpr], wide: bool) -> None:
    """Infer the missing types of a program that was just read, in place, if its arguments have types.

    Args:
      program: the outermost jaxpr.
      definitions: jaxprs that it may use.
      wide: whether a literal that nothing determines has 64 bits.
    """
    if any(v.aval is UNTYPED for v in program.jaxpr.all_binders):
        _leave_open([program, *definitions])
        return
    propagate_types(program, wide, warn=True)
    infer_literals([program, *definitions], wide)


def _leave_open(programs: Sequence[ClosedJaxpr]) -> None:
    """Replace the literals without a type of a program that was just read by literals of open type."""
    for jaxpr in reachable([closed.jaxpr for closed in programs]):
        for eqn in jaxpr.eqns:
            if any(map(is_untyped, eqn.inputs)):
                amend(eqn, inputs=tuple(map(_opened, eqn.inputs)))
        if any(map(is_untyped, jaxpr.outs)):
            amend(jaxpr, outs=tuple(map(_opened, jaxpr.outs)))


def _opened(x: Any) -> Any:
    return x.opened() if is_untyped(x) else x


def typed(jaxpr: Jaxpr, avals: Sequence[AbstractType]) -> Jaxpr:
    """Return a jaxpr with types for its arguments, and the types inferred from them; cached for each list of types.

    Args:
      jaxpr: the program.
      avals: a type for each constant and argument; those that the text has stay as they are.

    Returns:
      The jaxpr. A type that cannot be inferred stays open: the checker reports where.
    """
    key = tuple([a.strong for a in avals])
    closed = ClosedJaxpr(jaxpr, [None] * len(jaxpr.const_binders))
    return _TYPED.of(jaxpr, key, lambda: _typed(closed, key).jaxpr)


def _typed(program: ClosedJaxpr, avals: Sequence[AbstractType]) -> ClosedJaxpr:
    new = map_programs(program, _renewed)
    binders = new.jaxpr.all_binders
    for v, aval in zip(binders, avals, strict=True):
        if v.aval is UNTYPED:
            amend(v, aval=aval)
    written = new.jaxpr.written
    definitions = [] if written is None else [*written.definitions.values()]
    wide = not _WIDE.isdisjoint(_dtypes(new.jaxpr))
    propagate_types(new, wide)
    infer_literals([new, *definitions], wide)
    return new


def _dtypes(jaxpr: Jaxpr) -> set[DType | None]:
    """Return the element types that the arguments and the params of a program mention."""
    found: set[DType | None] = {getattr(v.aval, "dtype", None) for v in jaxpr.all_binders}
    for eqn in all_eqns(jaxpr):
        found.update(v for v in eqn.params.values() if isinstance(v, DType))
    return found


def _renewed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a copy of a jaxpr with variables, equations and open literals of its own, to which types may be given."""
    jaxpr = closed.jaxpr
    new: dict[Var, Var] = {}

    def binder(v: Var) -> Var:
        made = new[v] = type(v)(v.aval, v.name, v.place)
        return made

    def atom(x: Atom) -> Any:
        if isinstance(x, Lit):
            return UntypedLit.of(x) if x.aval is UNTYPED else x
        return new[x] if x in new else binder(x)  # unbound ones, too

    def equation(eqn: JaxprEqn) -> JaxprEqn:
        inputs, outs = [*map(atom, eqn.inputs)], [*map(binder, eqn.out_binders)]
        kept = eqn.span, eqn.comments, eqn.origin
        return JaxprEqn(eqn.primitive, inputs, eqn.params, outs, *kept)

    consts, ins = [*map(binder, jaxpr.const_binders)], [*map(binder, jaxpr.in_binders)]
    eqns = [*map(equation, jaxpr.eqns)]
    outs = [*map(atom, jaxpr.outs)]
    renewed = Jaxpr(ins, eqns, outs, consts, jaxpr.span, jaxpr.comments, jaxpr.written)
    return ClosedJaxpr(renewed, closed.consts, closed.interface)
