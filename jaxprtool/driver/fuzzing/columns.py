"""Columns for random programs: each compares the results of one implementation with another that
has to give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from jaxprtool.driver.compile import compile as compile_program
from jaxprtool.driver.fuzzing.taken import Taking, taken_part
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.lower import lower
from jaxprtool.driver.run import run
from jaxprtool.driver.running.prints import silent
from jaxprtool.driver.vjp import vjp
from jaxprtool.driver.vmap import vmap
from jaxprtool.interpreters.columns.determined import is_determined
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value
from jaxprtool.passes.precisions.double import doubled, in_double
from jaxprtool.passes.precisions.jitter import Jitter, flushed

__all__ = ["COLUMNS", "Deviation", "Refused", "Tried", "column_named", "deviation", "tried"]

_NOISY = 48  # runs with their own rounding errors, of one place or a few
MAX_BYTES, STEP_LIMIT = 1 << 26, 200  # limits of a run
BATCH = 3  # elements of a batch


@dataclass(frozen=True)
class Deviation:
    """How a program fails in a column.

    Attributes:
      column: its name.
      kind: `differs`, or `crash`.
      message: what differs, in words.
      of: the type of the exception, for a crash.
    """

    column: str
    kind: str
    message: str
    of: str = ""


class Refused(Exception):
    """A side of a column does not accept the program, and gives the reason."""


@dataclass(frozen=True)
class Sides:
    """The two sides that a column compares: a program on NumPy, and another way to its results.

    Attributes:
      program: the program that is evaluated on NumPy.
      args: its arguments.
      theirs: returns the results of the other implementation, for such arguments.
      names: the names of the two sides.
      check: raises JaxprToolError where the other implementation refuses the program, without
        computing anything.
    """

    program: ClosedJaxpr
    args: Sequence[Value]
    theirs: Callable[[Sequence[Value]], Sequence[Value]]
    names: tuple[str, str]
    check: Callable[[], object] = lambda: None


def _evaluated(program: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    return run(program, args, max_bytes=MAX_BYTES, step_limit=STEP_LIMIT)


def _numpy(program: ClosedJaxpr, args: Sequence[Value]) -> Sides:
    """Run NumPy twice.

    This finds exceptions other than messages, and random numbers drawn without a key.
    """
    return Sides(program, args, lambda given: _evaluated(program, given), ("numpy", "numpy"))


def _xla(program: ClosedJaxpr, args: Sequence[Value]) -> Sides:
    def theirs(given: Sequence[Value]) -> Sequence[Value]:
        compiled = compile_program(program)
        compiled.check_size(MAX_BYTES)
        return compiled(*given)

    return Sides(program, args, theirs, ("numpy", "xla"), lambda: lower(program))


def _jax(program: ClosedJaxpr, args: Sequence[Value]) -> Sides:
    from jaxprtool.backends.jax.derivatives import values_with_jax  # noqa: PLC0415 (gateway: JAX)

    return Sides(
        program,
        args,
        lambda given: run(program, given, through="jax", max_bytes=MAX_BYTES),
        ("numpy", "jax"),
        lambda: values_with_jax(program).check(args, []),
    )


def _jvp(program: ClosedJaxpr, args: Sequence[Value]) -> Sides:
    """Compare the jvp of the program on NumPy with JAX's."""
    from jaxprtool.backends.jax.derivatives import jvp_with_jax  # noqa: PLC0415 (gateway: JAX)

    tangents, n = _directions(program.in_avals, 1), len(args)
    compiled = jvp_with_jax(program)

    def theirs(given: Sequence[Value]) -> Sequence[Value]:
        return compiled(given[:n], given[n:])

    def check() -> None:
        compiled.check(args, tangents)

    return Sides(jvp(program), [*args, *tangents], theirs, ("jvp", "jax.jvp"), check)


def _vjp(program: ClosedJaxpr, args: Sequence[Value]) -> Sides:
    """Compare the vjp of the program on NumPy with JAX's."""
    from jaxprtool.backends.jax.derivatives import vjp_with_jax  # noqa: PLC0415 (gateway: JAX)

    cotangents, n = _directions(program.out_avals, 2), len(args)
    compiled = vjp_with_jax(program)

    def theirs(given: Sequence[Value]) -> Sequence[Value]:
        return compiled(given[:n], given[n:])

    def check() -> None:
        compiled.check(args, cotangents)

    return Sides(vjp(program), [*args, *cotangents], theirs, ("vjp", "jax.vjp"), check)


def _vmap(program: ClosedJaxpr, args: Sequence[Value]) -> Sides:
    """Compare the vmap of the program on NumPy with a loop over the batch."""
    from jaxprtool.backends import batches  # noqa: PLC0415 (gateway: NumPy)

    axes = [None if i % 4 == 3 else i % (a.ndim + 1) for i, a in enumerate(program.in_avals)]
    if not axes:
        raise Refused("it has no arguments")
    batched = [
        x if d is None else batches.batch(x, a, d, BATCH, i)
        for i, (x, a, d) in enumerate(zip(args, program.in_avals, axes, strict=True))
    ]

    def theirs(given: Sequence[Value]) -> Sequence[Value]:
        pairs = [*zip(given, axes, strict=True)]
        runs = [
            _evaluated(program, [batches.element(x, d, k) for x, d in pairs]) for k in range(BATCH)
        ]
        return [batches.stacked(outs) for outs in zip(*runs, strict=True)]

    made = vmap(program, axes, (0,), BATCH)
    return Sides(made, batched, theirs, ("vmap", "a loop"))


_DERIVATIVES = ("jvp", "vjp")  # at a pole they are infinite or NaN, as terms are ordered
COLUMNS: dict[str, Callable[[ClosedJaxpr, Sequence[Value]], Sides]] = {
    "numpy": _numpy,
    "xla": _xla,
    "jax": _jax,
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap": _vmap,
}


_NEEDS = {"xla": "jaxlib", "jax": "jax", "jvp": "jax", "vjp": "jax"}


def column_named(name: str) -> str:
    """Return the name of a column.

    Raises UsageError where there is none of that name, or it needs a package that is missing.
    """
    if name not in COLUMNS:
        message = f"there is no column {name!r}, but {', '.join(COLUMNS)}"
        fail(UsageError, message, "option", help=f"--check {','.join(COLUMNS)}")
    if name in _NEEDS:
        from jaxprtool.backends import installed  # noqa: PLC0415 (gateway: JAX)

        installed.need(_NEEDS[name])
    return name


def _directions(avals: Sequence[Any], seed: int) -> list[Value]:
    """Return a tangent for each inexact type."""
    from jaxprtool.backends.arrays import generate  # noqa: PLC0415 (gateway: NumPy)

    pairs = enumerate(avals)
    return [
        generate("random", seed, i, a)
        for i, a in pairs
        if isinstance(a, ShapedArray) and a.dtype.is_inexact
    ]


def deviation(name: str, program: ClosedJaxpr, args: Sequence[Value]) -> Deviation | None:
    """Return how a program fails in a column; None where it does not.

    Args:
      name: a key of `COLUMNS`.
      program: a well-typed program whose results its arguments determine.
      args: values of its arguments.

    Raises:
      Refused: a side does not accept the program, and says so.
    """
    try:
        with silent():
            if not is_determined(program):
                raise Refused("its arguments do not determine its results")
            sides = COLUMNS[name](program, args)
            determined = is_determined(sides.program)
            if not determined:
                raise Refused("its arguments do not determine its results")
            if name in _DERIVATIVES and not _is_finite(program, args):
                raise Refused("it is not finite where it is differentiated")
            finite = "finite" in (determined, is_determined(program))
            found = _compared(name, sides, finite=finite)
            if found is not None and name in _DERIVATIVES:
                found = _compared(name, _beside_a_run(program, args, sides), finite=finite)
            return found
    except JaxprToolError as e:
        raise Refused(str(e)) from e
    except (Refused, KeyboardInterrupt, MemoryError):
        raise
    except Exception as e:  # any exception counts, since a user would see it
        return Deviation(name, "crash", f"{type(e).__name__}: {e}", type(e).__name__)


def _beside_a_run(program: ClosedJaxpr, args: Sequence[Value], sides: Sides) -> Sides:
    """Return a column of derivatives whose results, apart from derivatives, are those of a plain run by JAX.

    JAX's rules may compute a result anew: that of `cumlogsumexp` has complex numbers on another
    branch of the logarithm.
    """

    def theirs(given: Sequence[Value]) -> Sequence[Value]:
        results = run(program, given[: len(args)], through="jax", max_bytes=MAX_BYTES)
        return [*results, *sides.theirs(given)[len(results) :]]

    return replace(sides, theirs=theirs)


class Tried(NamedTuple):
    """What a column compared.

    Attributes:
      program, args: the program that was drawn, or the part of it that the column accepts.
      found: how it fails; None where it does not.
    """

    program: ClosedJaxpr
    args: Sequence[Value]
    found: Deviation | None


def tried(name: str, program: ClosedJaxpr, args: Sequence[Value]) -> Tried:
    """Run a program through a column or, where that refuses it, the part of it that the column accepts.

    See `driver.fuzzing.taken`. Parameters are those of `deviation`.

    Raises:
      Refused: it accepts no part either.
    """
    parts = [
        lambda: (program, args),
        lambda: _taken(name, program, args, references=True),
        lambda: _taken(name, program, args, references=False),
        lambda: _taken(name, program, args, references=False, running=True),
    ]
    reason = Refused()
    for part in parts:
        try:
            of = part()
            return Tried(*of, deviation(name, *of))
        except Refused as e:
            reason = e
    raise reason


def _taken(
    name: str,
    program: ClosedJaxpr,
    args: Sequence[Value],
    *,
    references: bool,
    running: bool = False,
) -> tuple[ClosedJaxpr, Sequence[Value]]:
    """Return the part of a program that a column accepts.

    Raises Refused where it accepts no equation.

    Args:
      name: the name of the column.
      program, args: the program.
      references: whether equations of references and tokens stay.
      running: whether each equation is run by itself, which shows what XLA refuses.
    """
    finite, takes = name in _DERIVATIVES, partial(_takes, name, running=running)
    with silent():
        part = taken_part(program, args, Taking(takes, MAX_BYTES, STEP_LIMIT, finite, references))
    if not part[0].eqns:
        raise Refused("it takes no equation of the program")
    return part


def _takes(
    name: str, program: ClosedJaxpr, args: Sequence[Value], *, running: bool = False
) -> bool:
    """Whether both sides of a column accept the types of a program and, with `running`, run it."""
    try:
        sides = COLUMNS[name](program, args)
        sides.check()
        if running:
            sides.theirs(sides.args)
        return bool(is_determined(sides.program))
    except (JaxprToolError, Refused):
        return False
    except Exception:
        return True  # the column reports it when it is tried


def _is_finite(program: ClosedJaxpr, args: Sequence[Value]) -> bool:
    """Whether the arguments and the results of a program are finite."""
    from jaxprtool.backends.stability import all_finite  # noqa: PLC0415 (gateway: NumPy)

    return all(map(all_finite, args)) and all(map(all_finite, _evaluated(program, args)))


def _compared(name: str, sides: Sides, *, finite: bool) -> Deviation | None:
    """Return what differs.

    With `finite`, the results have to agree only where all values are finite.
    """
    from jaxprtool.backends.stability import (  # noqa: PLC0415 (gateway: NumPy)
        all_finite,
        normal,
        stable_differences,
    )

    program = sides.program
    ours, theirs = _evaluated(program, sides.args), sides.theirs(sides.args)
    if finite and not all(map(all_finite, (*sides.args, *ours, *theirs))):
        raise Refused("its values are not finite, which its results are determined for")

    def again(args: Sequence[Value]) -> Sequence[Value]:
        return _evaluated(program, args)

    def shadow(args: Sequence[Value]) -> Sequence[Value]:
        return _evaluated(in_double(program), [*map(doubled, args)])

    jitters = Jitter(), Jitter(places=4)

    def noisy(seed: int, args: Sequence[Value]) -> Sequence[Value]:
        with jitters[seed % 2].drawn(seed):
            return _evaluated(program, args)

    def flush(args: Sequence[Value]) -> Sequence[Value]:
        return _evaluated(flushed(program), [*map(normal, args)])

    shadows = [shadow, flush, *(partial(noisy, seed) for seed in range(_NOISY))]
    found = stable_differences(
        (ours, again), (theirs, sides.theirs), sides.args, shadows, poles=name in _DERIVATIVES
    )
    if not found:
        return None
    i, worst = found[0]
    return Deviation(name, "differs", _told(i, worst, sides.names))


def _told(i: int, worst: Any, names: tuple[str, str]) -> str:
    if worst.type_a != worst.type_b:
        return f"result {i}: {worst.type_a} by {names[0]}, {worst.type_b} by {names[1]}"
    where = f"[{', '.join(map(str, worst.where))}]" if worst.where else ""
    return (
        f"result {i}{where}: {worst.a} by {names[0]}, {worst.b} by {names[1]} "
        f"({worst.n_different} of {worst.size} elements differ)"
    )
