"""Faults that are planted in programs: a NaN that an equation makes at any depth, alone or dropped again at once."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.analyses.places import Place, Watch
from jaxprtool.analyses.sites import Sites
from jaxprtool.driver.run import run
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.walk import all_eqns

STEPS = 2000  # of a loop: a NaN in its condition may leave it without an end


class Recorder(Watch):
    """Keeps the first place of each equation that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[Any, Place] = {}

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        if eqn.span not in self.first:
            self.first[eqn.span] = self.place(eqn)


def results(program: ClosedJaxpr, args: Sequence[Any], observer: Any = None) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(x) for x in run(program, args, observer=observer, step_limit=STEPS)]


def has_nan(x: Any) -> bool:
    return x.dtype.kind in "fcV" and x.dtype.itemsize > 0 and bool(np.isnan(x).any())


def same(a: Any, b: Any) -> bool:
    return a.tobytes() == b.tobytes()


def is_planted(eqn: JaxprEqn) -> bool:
    """Whether an equation is the quotient of zero by itself that `planted` writes."""
    return (
        eqn.primitive.name == "div"
        and eqn.inputs[0] is eqn.inputs[1]
        and type(eqn.inputs[0]) is not Lit
    )


def candidates(program: ClosedJaxpr, args: Sequence[Any]) -> list[JaxprEqn]:
    """The equations that run and have one floating result of a size that is not 0."""
    recorder, sites = Recorder(), Sites(program)
    results(program, args, recorder)
    known = {*all_eqns(program.jaxpr)}
    found = [sites.written(place.eqn) for place in recorder.first.values()]
    return [e for e in found if e in known and not e.primitive.multiple_results and _is_float(e)]


def _is_float(eqn: JaxprEqn) -> bool:
    aval = eqn.out_binders[0].aval
    return (
        type(aval) is ShapedArray
        and aval.dtype.kind == "f"
        and aval.dtype.bits >= 16
        and aval.size > 0
    )


def planted(program: ClosedJaxpr, where: JaxprEqn, *, masked: bool = False) -> ClosedJaxpr:
    """The program in which the result of an equation is a NaN; masked: a `select_n` takes the result in its place."""

    def rule(eqn: JaxprEqn) -> Any:
        if eqn.span != where.span or eqn.primitive is not where.primitive:
            return None

        def faulty(*xs: Any) -> Any:
            (out,) = bind_eqn(eqn, xs)
            zero = lax.convert_element_type(
                lax.ne(out, out), new_dtype=where.out_binders[0].aval.dtype
            )
            nan = lax.div(zero, zero)
            return lax.select_n(lax.eq(zero, zero), nan, out) if masked else lax.add(out, nan)

        return faulty

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jt.rewrite(program, rule)


def spots(name: str, program: ClosedJaxpr, args: Sequence[Any], most: int) -> list[JaxprEqn]:
    """Some of the equations in which a fault can be planted, the same ones in each run."""
    found = candidates(program, args)
    return random.Random(name).sample(found, min(most, len(found)))
