"""The laws of passes, as a check of one pass on one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.driver.run import run
from jaxprtool.ir.walk import count_eqns
from jaxprtool.passes.pipeline import Stage

# Each built-in pass with options that make it do something.
STAGES = (
    "dce",
    "inline",
    "inline size=4",
    "outline",
    "outline size=2 saved=1",
    "cse",
    "fold",
    "simplify",
    "unroll",
    "roll",
    "roll turns=2 saved=1",
    "hoist",
    "remat",
    "discharge",
    "strip",
    "lift-consts",
    "sink-consts",
    "cast f32->f64",
)


def bits(x: Any) -> Any:
    """What is compared of a value: type, shape and bits; every NaN counts as the same."""
    x = x.data if isinstance(x, jt.KeyArray) else x
    if not isinstance(x, np.ndarray):
        return repr(x)
    if x.dtype.kind in "fc":
        x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    return x.dtype, x.shape, x.tobytes()


def broken(stage: Stage, program: jt.ClosedJaxpr, args: Sequence[Any] | None, **limits: Any) -> str:
    """Which law of a pass a program shows to be broken, in words; "" where all hold.

    Args:
      args: for `run`; None: the values are not compared.
      limits: of `run`.
    """
    made = stage(program)
    jt.typecheck_jaxpr(made)
    jt.typecheck_jaxpr(jt.parse(jt.format_jaxpr(made, lossless=True)))  # other verbs read its text
    laws = stage.of.laws
    if "types" in laws:
        if program.in_avals != made.in_avals:
            return f"types of the arguments: {made.in_avals}"
        if program.out_avals != made.out_avals:
            return f"types of the results: {made.out_avals}"
    if "no-more-equations" in laws and count_eqns(made.jaxpr) > count_eqns(program.jaxpr):
        return "there are more equations"
    if "idempotent" in laws and not same_program(stage(made), made):
        return f"a second run changes it:\n{stage(made)}"
    if args is not None and laws & {"bits", "values"}:
        before, after = run(program, args, **limits), run(made, args, **limits)
        if "bits" in laws and [*map(bits, before)] != [*map(bits, after)]:
            return f"values: {after}, and {before} before\n{made}"
    return ""
