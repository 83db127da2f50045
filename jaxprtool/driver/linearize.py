"""linearize: a program's value, and its derivative as a linear program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxprtool.analyses.memory import residuals as analysis
from jaxprtool.analyses.memory.residuals import Residual
from jaxprtool.driver.run import run
from jaxprtool.driver.running.results import shown
from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import Position, differentiated
from jaxprtool.driver.words.values import arguments, open_binders
from jaxprtool.interpreters.interfaces import of_open
from jaxprtool.interpreters.linearize import linearize_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Value

__all__ = [
    "LinearizedAt",
    "header",
    "linearize",
    "linearize_at",
    "linearize_words",
    "residuals",
    "residuals_table",
]


@dataclass(frozen=True)
class LinearizedAt:
    """The results of a program at a point, and its derivative at that point.

    Attributes:
      outs: the results, NumPy arrays.
      linear: (tangents of a) -> (tangents of the inexact b); its constants are the residuals.
      interface: of the program itself.
    """

    outs: list[Value]
    linear: ClosedJaxpr
    interface: Interface | None = None


def linearize(
    program: ClosedJaxpr, wrt: Sequence[Position] | None = None
) -> dict[str, ClosedJaxpr]:
    """Split the jvp of a program into a primal program and a linear program, which maps tangents.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, with a tangent; all inexact leaves by default.

    Returns:
      `primal`: (a) -> (b, residuals); `linear`: (residuals, tangents of a) -> (tangents of b).
    """
    check_arrays(check_input(program), "linearize")
    flags, _ = differentiated(program, wrt)
    primal, linear, _ = linearize_jaxpr(within(program, "jvp"), flags)
    return {"primal": primal, "linear": linear}


def residuals(program: ClosedJaxpr, wrt: Sequence[Position] | None = None) -> list[Residual]:
    """The residuals that the linear program reads: type, bytes and origin of each.

    Args:
      program: (a) -> (b).
      wrt: positions of leaves, or names of arguments or of parts of them, with a tangent; all inexact leaves by default.
    """
    return analysis.residuals(program, linearize(program, wrt)["primal"])


def residuals_table(found: Sequence[Residual]) -> str:
    """Residuals as lines of text: origin, type and bytes of each, and the sums."""
    rows = [(r.origin, str(r.aval), f"{r.nbytes:,}") for r in found]
    a, b, c = [max(map(len, column)) for column in zip(*rows, strict=True)] or [0, 0, 0]
    lines = [f"{x:{a}}  {y:{b}}  {z:>{c}} bytes\n" for x, y, z in rows]
    total, computed = sum(r.nbytes for r in found), sum(r.nbytes * r.is_computed for r in found)
    lines.append(f"total: {total:,} bytes, {computed:,} of them besides arguments and constants\n")
    return "".join(lines)


def linearize_at(
    program: ClosedJaxpr,
    args: Sequence[Value],
    wrt: Sequence[Position] | None = None,
    *,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> LinearizedAt:
    """The results of a program at a point, and its derivative at that point.

    Args:
      program: (a) -> (b).
      args: values for a, after those of constants that the file does not hold.
      wrt: positions of leaves, or names of arguments or of parts of them, with a tangent; all inexact leaves by default.
      max_bytes: refuse to start when intermediate results may take more than this.
      step_limit: as of `driver.run`.
    """
    parts = linearize(program, wrt)
    values = run(parts["primal"], args, max_bytes=max_bytes, step_limit=step_limit)
    n = len(program.jaxpr.outs)
    jaxpr = parts["linear"].jaxpr
    n_res = len(values) - n
    closed = Jaxpr(
        jaxpr.in_binders[n_res:], jaxpr.eqns, jaxpr.outs, jaxpr.in_binders[:n_res], jaxpr.span
    )
    interface = parts["linear"].interface
    if interface is not None:  # without the residuals
        interface = interface._replace(args=interface.args[1:])
    linear = ClosedJaxpr(closed, values[n:], interface)
    return LinearizedAt(values[:n], linear, program.interface)


def linearize_words(
    program: ClosedJaxpr,
    words: Sequence[str],
    wrt: Sequence[Position] | None = None,
    *,
    max_bytes: int | None = None,
    step_limit: int | None = None,
) -> LinearizedAt:
    """`linearize_at` a point that is spelt as words (see `driver.words.values`)."""
    check_arrays(check_input(program), "linearize", sized=True)
    interface = of_open(program)
    args = arguments(open_binders(program), words, interface=interface, max_bytes=max_bytes)
    return linearize_at(program, args, wrt, max_bytes=max_bytes, step_limit=step_limit)


def header(at: LinearizedAt) -> str:
    """The values of the results as comment lines, which stand above the linear jaxpr."""
    lines = [line for text in shown(at.outs, at.interface) for line in text.splitlines()]
    return "".join(f"# {line}\n" for line in lines)
