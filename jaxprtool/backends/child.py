"""Run work that may end the process in a process of its own: decide for which programs, and how."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys

from jaxprtool import ops as lax
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Aval, Jaxpr
from jaxprtool.ir.walk import all_eqns

__all__ = ["calls_host_in_while", "has_fragile_types", "signal_of"]

# XLA's CPU compiler ends the process at constants of six bits, and, as JAX lowers them, where arrays of two bits are joined.
_FRAGILE = frozenset({"int2", "uint2", "float6_e2m3fn", "float6_e3m2fn"})


def has_fragile_types(jaxpr: Jaxpr) -> bool:
    """Whether an equation, at any depth, has an operand or result of an element type on which XLA
    may end the process.
    """
    around = (*jaxpr.all_binders, *jaxpr.outs)
    inside = (x for eqn in all_eqns(jaxpr) for x in (*eqn.inputs, *eqn.out_binders))
    return any(_is_fragile(x.aval) for x in itertools.chain(around, inside))


def _is_fragile(aval: Aval) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.name in _FRAGILE


def calls_host_in_while(jaxpr: Jaxpr) -> bool:
    """Whether the program may call the host in a `while` loop that takes no step.

    XLA removes a loop that it finds to take none, and ends the process where a call with constant
    operands is left over.
    """
    loops = (e for e in all_eqns(jaxpr) if e.primitive is lax.while_call.primitive)
    return any(has_effects(loop) for loop in loops)


def signal_of(script: str, data: str, *words: str) -> str | None:
    """Return the name of the signal that ends a Python script; None where it ends by itself, even if it fails.

    Args:
      script: the program.
      data: its standard input.
      words: its arguments.
    """
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        input=data.encode(),
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return _name(-done.returncode) if done.returncode < 0 else None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
