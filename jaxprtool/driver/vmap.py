"""vmap: vectorisation of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxprtool.driver.arguments import describe, positions_named
from jaxprtool.driver.verify import check_arrays, check_input, positions
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["DEFAULT_SIZE", "vmap"]

Axes = Sequence[int | None]
DEFAULT_SIZE = 8


def vmap(
    program: ClosedJaxpr,
    in_axes: Axes | Mapping[str, int | None] = (0,),
    out_axes: Axes = (0,),
    axis_size: int = DEFAULT_SIZE,
) -> ClosedJaxpr:
    """The program that does for a batch what `program` does for one element.

    Args:
      program: the program.
      in_axes: for each argument its batch axis, or None; a single one stands for all arguments. Or by the names
        of arguments; those that are not named are not mapped.
      out_axes: the same for the results; None for one that does not depend on the batch.
      axis_size: size of the batch.

    Raises:
      UsageError: wrong number of axes, an axis out of range, nothing is mapped, a result without an
        axis that depends on the batch.
    """
    check_arrays(check_input(program), "vmap")
    if axis_size < 1:
        fail(UsageError, f"--axis-size {axis_size}: a batch has at least one element", "axis-size")
    if isinstance(in_axes, Mapping):
        in_axes = _named(program, in_axes)
    ins = _spread(in_axes, len(program.in_avals), "--in-axes", "argument")
    outs = _spread(out_axes, len(program.out_avals), "--out-axes", "result")
    if ins and all(d is None for d in ins):
        fail(
            UsageError,
            "--in-axes: no argument is mapped",
            "in-axes",
            help="give an axis to at least one argument",
        )
    in_dims = [
        _axis(d, a, f"--in-axes: {describe(program, i)}")
        for i, (d, a) in enumerate(zip(ins, program.in_avals, strict=True))
    ]
    wanted = [
        _axis(d, a, f"--out-axes: result {i}")
        for i, (d, a) in enumerate(zip(outs, program.out_avals, strict=True))
    ]
    with positions(program):
        batched, dims = vmap_jaxpr(within(program, "vmap"), axis_size, in_dims, wanted)
    for i, (d, want) in enumerate(zip(dims, wanted, strict=True)):
        if want is None and d is not None:
            fail(
                UsageError,
                f"--out-axes: result {i} depends on the batch, and no axis is given for it",
                "out-axes",
            )
    return batched


def _named(program: ClosedJaxpr, axes: Mapping[str, int | None]) -> list[int | None]:
    """The axis of each argument, where axes are given by name."""
    found: list[int | None] = [None] * len(program.in_avals)
    given: set[int] = set()
    for name, axis in axes.items():
        for i in positions_named(program, name, "--in-axes"):
            if i in given:
                fail(UsageError, f"--in-axes names {describe(program, i)} twice", "in-axes")
            given.add(i)
            found[i] = axis
    return found


def _spread(axes: Axes, n: int, option: str, what: str) -> list[int | None]:
    if len(axes) == 1:
        return list(axes) * n
    if len(axes) != n:
        message = (
            f"{option} has {counted(len(axes), 'entry')}, and the program has {counted(n, what)}"
        )
        fail(UsageError, message, "axes-count", help="one entry stands for all; - is not mapped")
    return list(axes)


def _axis(axis: int | None, aval: Any, what: str) -> int | None:
    if axis is None:
        return None
    n = aval.ndim + 1
    if not -n <= axis < n:
        fail(
            UsageError,
            f"{what} is {aval}, and batch axis {axis} is out of range for it",
            "axis-range",
            help=f"with a batch axis it has {n}: {-n} to {n - 1}",
        )
    return axis % n
