"""Operations and bytes are only counted of programs whose sizes are numbers."""

from __future__ import annotations

from jaxprtool.ir.avals import FIX_SIZES, ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["check_sizes"]


def check_sizes(program: ClosedJaxpr) -> None:
    """Refuse a program in which an argument, a constant or a result has a symbolic size.

    Raises:
      UnsupportedError: at the first such type.
    """
    jaxpr = program.jaxpr
    for x in (*jaxpr.all_binders, *jaxpr.outs):
        aval = getattr(x.aval, "inner", x.aval)
        if isinstance(aval, ShapedArray) and aval.size < 0:
            name = getattr(x, "name", None)
            whose = f"the type {x.aval} of {name}" if name else f"the type {x.aval}"
            message = (
                f"operations and bytes are numbers where sizes are, and {whose} has a symbolic size"
            )
            span = getattr(x, "span", None) or jaxpr.span
            fail(UnsupportedError, message, "symbolic-dimensions", span=span, help=FIX_SIZES)
