"""Random well-typed programs of a given size: seeds that are joined, mutated and nested in one another."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.generation.changes import copied, mutated, retyped
from jaxprtool.generation.seeds import primitives_in, seeds
from jaxprtool.generation.wrapping import WRAPS, wrapped
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Lit, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["draw_typed", "is_sized"]

_SIZES = (1, 1, 2, 2, 3, 4, 6)
# how often a seed is changed, is put into another equation, takes types that the program has, takes its values
_CHANGED, _WRAPPED, _RETYPED, _TAKEN = 0.4, 0.15, 0.8, 0.85
_TRIES = 40  # tries for each equation
_MOST, _MOST_AXES = 1 << 12, 16  # elements and axes of an argument


def draw_typed(
    rng: random.Random, size: int | None = None, primitives: Collection[str] = ()
) -> ClosedJaxpr:
    """Return a random well-typed program whose arguments are arrays.

    Args:
      rng: the only source of randomness.
      size: the number of equations, not counting those in nested jaxprs; a seed of several may
        exceed it. By default a few.
      primitives: the names of the primitives to use; all by default.

    Returns:
      A program. Values that no equation reads are among its results.

    Raises:
      ValueError: no seed, or nothing that is well-typed, uses only these primitives.
    """
    among = _seeds_of(frozenset(primitives))
    size = size or rng.choice(_SIZES)
    program = ClosedJaxpr(Jaxpr([], [], [], []), [])
    for _ in range(_TRIES * size):
        if len(program.jaxpr.eqns) >= size:
            break
        program = _longer(rng, program, among, primitives)
    if not program.eqns:
        raise ValueError(f"no program of {', '.join(sorted(primitives))} alone is found")
    return _finished(rng, program)


def _seeds_of(primitives: frozenset[str]) -> dict[str, list[ClosedJaxpr]]:
    """Return the seeds that use only these primitives."""
    if primitives not in _SEEDS:
        fitting = {
            name: [p for p in programs if _is_usable(p) and _consists(p, primitives)]
            for name, programs in seeds().items()
        }
        _SEEDS[primitives] = {name: programs for name, programs in fitting.items() if programs}
    if not _SEEDS[primitives]:
        raise ValueError(f"no seed consists of {', '.join(sorted(primitives))} alone")
    return _SEEDS[primitives]


_SEEDS: dict[frozenset[str], dict[str, list[ClosedJaxpr]]] = {}


def _is_usable(program: ClosedJaxpr) -> bool:
    """Whether a program can be written as text and run from it, and takes only arrays as arguments."""
    of_python = any(e.primitive in _OF_PYTHON for e in all_eqns(program.jaxpr))
    sized = all(is_sized(v.aval) for v in program.jaxpr.in_binders)
    return sized and not program.consts and not of_python


# What calls functions of Python, which no text holds.
_OF_PYTHON = frozenset(
    op.primitive for op in (lax.debug_callback, lax.io_callback, lax.pure_callback)
)


def _consists(program: ClosedJaxpr, primitives: Collection[str]) -> bool:
    return not primitives or primitives_in(program) <= {*primitives}


def is_sized(aval: Any) -> bool:
    """Whether a type is that of small arrays of numbers, booleans or keys."""
    if not isinstance(aval, ShapedArray) or not all(isinstance(n, int) for n in aval.shape):
        return False
    return aval.dtype.kind in "fciubk" and aval.size <= _MOST and aval.ndim <= _MOST_AXES


def _longer(
    rng: random.Random,
    program: ClosedJaxpr,
    among: dict[str, list[ClosedJaxpr]],
    primitives: Collection[str],
) -> ClosedJaxpr:
    """Return the program with the equations of another seed appended; the program itself where the
    result is ill-typed.
    """
    piece = rng.choice(among[rng.choice([*among])])
    if rng.random() < _CHANGED:
        piece = mutated(rng, piece)
    if rng.random() < _WRAPPED:
        piece = _inside(rng, piece, primitives)
    if primitives and not _consists(piece, {*primitives, *WRAPS}):
        return program
    makers: list[Callable[[], Jaxpr]] = [
        lambda: _taking(rng, program.jaxpr, piece.jaxpr, of_any_type=True),
        lambda: _taking(rng, program.jaxpr, piece.jaxpr, of_any_type=False),
    ]
    for make in makers:
        made = make()
        sized = all(is_sized(v.aval) for v in made.in_binders)
        if sized and _has_values(made) and _is_accepted(made):
            return ClosedJaxpr(made, [])
    return program


def _has_values(jaxpr: Jaxpr) -> bool:
    """Whether all literals have values, at any depth.

    A literal that is an array has none in a text.
    """
    stack = [jaxpr]
    for inner in stack:
        atoms = [*inner.outs, *(x for e in inner.eqns for x in e.inputs)]
        if any(isinstance(x, Lit) and x.val is None for x in atoms):
            return False
        stack += [closed.jaxpr for e in inner.eqns for closed in sub_jaxprs(e)]
    return True


def _inside(rng: random.Random, piece: ClosedJaxpr, primitives: Collection[str]) -> ClosedJaxpr:
    """Return the program wrapped in a call, a branch or a loop, where that is possible."""
    allowed = [wrap for name, wrap in WRAPS.items() if not primitives or name in primitives]
    if not allowed or not _is_accepted(piece.jaxpr):
        return piece
    return wrapped(rng, piece, allowed)


def _taking(rng: random.Random, first: Jaxpr, second: Jaxpr, *, of_any_type: bool) -> Jaxpr:
    """Return one program followed by another, whose arguments are partly values of the first.

    Args:
      rng: chooses the values.
      first, second: the programs.
      of_any_type: whether arguments of the second may be replaced by values of another type,
        together with all arguments of the same type.
    """
    second = copied(second)
    given = [*first.in_binders, *(v for e in first.eqns for v in e.out_binders)]
    recent, new = given[-6:], dict[Var, Any]()
    if of_any_type and recent:
        for aval in dict.fromkeys(v.aval for v in second.in_binders):
            if rng.random() < _RETYPED:
                other = rng.choice(recent).aval
                same = [v for v in given if v.aval is other]
                new |= {v: rng.choice(same) for v in second.in_binders if v.aval is aval}
    for v in second.in_binders:
        fitting = [x for x in given if x.aval is v.aval]
        if v not in new and fitting and rng.random() < _TAKEN:
            new[v] = rng.choice(fitting[-6:])

    def renamed(x: Any) -> Any:
        return x if isinstance(x, Lit) else new.get(x, x)

    added = [e.replace(inputs=map(renamed, e.inputs)) for e in second.eqns]
    retyped(added)
    ins = [*first.in_binders, *(v for v in second.in_binders if v not in new)]
    return Jaxpr(ins, [*first.eqns, *added], [], [])


def _is_accepted(jaxpr: Jaxpr) -> bool:
    try:
        typecheck_jaxpr(jaxpr)
    except JaxprToolError:
        return False
    return True


def _finished(rng: random.Random, program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with its results and the arguments it reads.

    The results are the values that nothing reads, and sometimes one other value.
    """
    eqns = program.jaxpr.eqns
    used = {x for e in eqns for x in e.inputs if isinstance(x, Var)}
    made = [v for e in eqns for v in e.out_binders if is_sized(v.aval)]
    outs = [v for v in made if v not in used]
    inner = [v for v in made if v in used]
    if inner and rng.random() < 0.3:
        outs.append(rng.choice(inner))
    read = {*used, *outs}
    ins = [v for v in program.jaxpr.in_binders if v in read]
    return ClosedJaxpr(program.jaxpr.replace(in_binders=ins, outs=outs), [])
