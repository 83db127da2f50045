"""Which values of a program exist when its memory is at its peak."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprtool.analyses.memory.liveness import Memory, Sizes, last_uses
from jaxprtool.analyses.places import Place, Step
from jaxprtool.ir.interface import argument_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr

__all__ = ["Live", "live_at_peak"]


class Live(NamedTuple):
    """A value that exists at the peak.

    Attributes:
      name: the variable, or what an argument is called.
      aval: its type.
      nbytes: its size, on all devices that hold it.
      maker: the place of the equation that computes it, or `argument` or `constant`.
    """

    name: str
    aval: Any
    nbytes: int
    maker: Place | str

    @property
    def place(self) -> Place | None:
        """The equation that computes it; None for arguments and constants."""
        return None if isinstance(self.maker, str) else self.maker


def live_at_peak(program: ClosedJaxpr, memory: Memory) -> list[Live]:
    """Return the values that exist at the peak in the order of the equations as written, the largest first.

    Where the peak is inside a nested jaxpr, these are what the program holds then, and what the
    jaxpr has computed.
    """
    sizes = Sizes()
    found = _held(program, sizes)
    jaxpr: Jaxpr | None = program.jaxpr
    path: tuple[Step, ...] = ()
    devices = 1
    while jaxpr is not None:
        peak = memory.peaks[jaxpr]
        if peak.at < 0:
            break
        eqn = jaxpr.eqns[peak.at]
        inner = peak.run
        made_inside = inner is not None and not inner.turns and inner.times == inner.devices
        last = last_uses(jaxpr)
        for maker in jaxpr.eqns[: peak.at + (not made_inside)]:
            for v in maker.out_binders:
                if last[v] >= peak.at:
                    nbytes = sizes[v.aval] * devices
                    found.append(Live(v.name or "", v.aval, nbytes, Place(maker, path)))
        if inner is None:
            break
        path = (*path, Step(eqn, inner.param, inner.branch))
        devices *= inner.devices
        jaxpr = inner.jaxpr.jaxpr
    return sorted([x for x in found if x.nbytes], key=lambda x: -x.nbytes)


def _held(program: ClosedJaxpr, sizes: Sizes) -> list[Live]:
    jaxpr = program.jaxpr
    labels = argument_labels([v.name for v in jaxpr.in_binders], program.interface)
    named: list[tuple[Any, str, str]] = [(v, v.name or "", "constant") for v in jaxpr.const_binders]
    pairs = zip(jaxpr.in_binders, labels, strict=True)
    named += [(v, n.removeprefix("argument "), "argument") for v, n in pairs]
    return [Live(n, v.aval, sizes[v.aval], what) for v, n, what in named]
