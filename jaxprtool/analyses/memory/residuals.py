"""The residuals of a linearized program, and their sizes: the values that its primal part saves for the linear part."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprtool.core.stack import deep
from jaxprtool.ir.interface import argument_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit

__all__ = ["Residual", "residuals"]


class Residual(NamedTuple):
    """A value that the linear part of a program reads.

    Attributes:
      aval: its type.
      nbytes: its size; 0 for what is no array.
      origin: where it comes from: an argument, a constant, or the primitive that computes it.
      is_computed: whether it takes memory besides the arguments and constants.
    """

    aval: Any
    nbytes: int
    origin: str
    is_computed: bool


@deep
def residuals(program: ClosedJaxpr, primal: ClosedJaxpr) -> list[Residual]:
    """Return the residuals of a linearized program, each value once.

    Args:
      program: (a) -> (b).
      primal: (a) -> (b, residuals), as `linearize_jaxpr` gives it.
    """
    jaxpr = primal.jaxpr
    origins: dict[Any, tuple[str, bool]] = dict.fromkeys(jaxpr.const_binders, ("constant", False))
    labels = argument_labels([v.name for v in program.jaxpr.in_binders], program.interface)
    origins |= {v: (label, False) for v, label in zip(jaxpr.in_binders, labels, strict=True)}
    for eqn in jaxpr.eqns:
        origins.update((v, (eqn.primitive.name, True)) for v in eqn.out_binders)
    kept = dict.fromkeys(x for x in jaxpr.outs[len(program.jaxpr.outs) :] if type(x) is not Lit)
    return [Residual(v.aval, getattr(v.aval, "nbytes", 0), *origins[v]) for v in kept]
