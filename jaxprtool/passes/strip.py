"""strip: without what a program says besides what it computes."""

from __future__ import annotations

from typing import Any

from jaxprtool.core.kinds.functions import neutral_names
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value, Var
from jaxprtool.ir.origin import NAMES, SOURCE, Origin
from jaxprtool.passes.rebuild import Rebuild
from jaxprtool.passes.registry import define_pass

__all__ = ["strip"]


@define_pass("strip", "types no-more-equations idempotent linear-time")
def strip(
    program: ClosedJaxpr,
    *,
    source: bool | None = None,
    names: bool | None = None,
    consts: bool | None = None,
) -> ClosedJaxpr:
    """Leave out lines of Python (source), names of variables, arguments, scopes and functions (names), values of constants (consts).

    Without options source and names; `source=false` is names alone. Constants without values are what `run` then asks for.
    """
    rest = not (source or names or consts)  # the default of options: yes if none is asked for
    source, names = (rest if x is None else x for x in (source, names))
    return _Stripping(source, names, bool(consts)).closed(program)


class _Stripping(Rebuild):
    def __init__(self, source: bool, names: bool, consts: bool):
        super().__init__()
        self.source, self.names, self.consts = source, names, consts

    def name(self, v: Var) -> str | None:
        return None if self.names else v.name

    def const(self, value: Value) -> Value:
        return None if self.consts else value

    def interface(self, program: ClosedJaxpr) -> Interface | None:
        return None if self.names else program.interface

    def params(self, eqn: JaxprEqn) -> dict[str, Any]:
        if not self.names:
            return eqn.params
        return {**eqn.params, **neutral_names(eqn)}

    def origin(self, eqn: JaxprEqn) -> Origin | None:
        old = eqn.origin
        if old is None or (self.source and self.names):
            return None
        if self.names:
            return Origin(old.frame, None, old.shown & SOURCE)
        return Origin(None, old.names, old.shown & NAMES) if self.source else old
