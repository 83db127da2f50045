"""Run long programs piece by piece, since compiling takes XLA memory for each equation (20 KB), and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.function import FlatFunction
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Var

__all__ = ["goes_in_pieces", "run_in_pieces"]


def goes_in_pieces(program: ClosedJaxpr, size: int) -> bool:
    """Whether a program is longer than a piece, and each of its values can be the result of a compiled function."""
    if len(program.eqns) <= size:
        return False
    return all(isinstance(v.aval, ShapedArray) for e in program.eqns for v in e.out_binders)


def run_in_pieces(
    program: ClosedJaxpr,
    args: Sequence[Any],
    size: int,
    check: Callable[[ClosedJaxpr], object] = lambda piece: None,
    flags: dict[str, Any] | None = None,
) -> list[Any]:
    """Run a program that `goes_in_pieces`: `jax.jit` compiles each piece, which is dropped after it has run.

    Args:
      program: the program.
      args: values of the constants that it does not hold, then of its arguments.
      size: the number of equations of a piece.
      check: called with each piece before the first one is run; it may raise.
      flags: flags of XLA.

    Returns:
      Arrays of JAX's, of the types of the program's results.

    Raises:
      UsageError, UnsupportedError: as `FlatFunction`; and what JAX raises.
    """
    jaxpr = program.jaxpr
    pairs = [*zip(jaxpr.const_binders, program.consts, strict=True)]
    consts = {v: c for v, c in pairs if c is not None}
    binders = (*(v for v, c in pairs if c is None), *jaxpr.in_binders)
    held: dict[Any, Any] = dict(zip(binders, args, strict=True))
    last = {x: i for i, eqn in enumerate(jaxpr.eqns) for x in eqn.inputs}
    last.update((x, len(jaxpr.eqns)) for x in jaxpr.outs)
    stops = range(size, len(jaxpr.eqns) + size, size)
    pieces = [_piece(jaxpr, stop - size, stop, last, consts) for stop in stops]
    for piece in pieces:
        check(piece)
    results: list[Any] = []
    for stop, piece in zip(stops, pieces, strict=True):
        flat = FlatFunction(piece)
        taken = flat.arguments([held[v] for v in piece.jaxpr.in_binders])
        results = jax.jit(flat, compiler_options=flags)(*taken)
        held.update(zip(piece.jaxpr.outs, results, strict=True))
        held = {v: x for v, x in held.items() if last.get(v, -1) >= stop}
    return results


def _piece(
    jaxpr: Jaxpr, start: int, stop: int, last: Mapping[Any, int], consts: Mapping[Var, Any]
) -> ClosedJaxpr:
    """Return the equations from start to stop as a program, whose results are the values that later equations read.

    Args:
      last: for each variable the position of the last equation that reads it; results of the
        program count as read after all equations.
      consts: the values of the variables that the piece has as constants.
    """
    eqns = jaxpr.eqns[start:stop]
    own = dict.fromkeys(v for eqn in eqns for v in eqn.out_binders)
    is_last = stop >= len(jaxpr.eqns)
    outs = jaxpr.outs if is_last else [v for v in own if last.get(v, -1) >= stop]
    atoms = [x for eqn in eqns for x in eqn.inputs] + [*outs]
    read = dict.fromkeys(x for x in atoms if isinstance(x, Var) and x not in own)
    binders = [v for v in read if v not in consts]
    own_consts = [v for v in read if v in consts]
    return ClosedJaxpr(Jaxpr(binders, eqns, outs, own_consts), [consts[v] for v in own_consts])
