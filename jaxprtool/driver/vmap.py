"""vmap: vectorisation of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from jaxprtool.driver.verify import check_arrays, check_input
from jaxprtool.driver.words.arguments import describe, part_named
from jaxprtool.driver.words.trees import is_node, spread
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.origins import within
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.interface import Part, result_label
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["DEFAULT_SIZE", "vmap"]

Axes = Sequence[Any] | Mapping[str, Any]
DEFAULT_SIZE = 8


def vmap(
    program: ClosedJaxpr,
    in_axes: Axes = (0,),
    out_axes: Axes = (0,),
    axis_size: int = DEFAULT_SIZE,
) -> ClosedJaxpr:
    """Return the vmap of a program: it applies `program` to each example of a batch.

    Args:
      program: the program.
      in_axes: for each leaf of the arguments its batch axis, or None; a single one stands for all.
        Or by the names of arguments; those that are not named are not mapped. The axes of an
        argument may be a tree, as far down as they differ: `{"params": {"w": None, "b": 0}, "x":
        1}`. A list with a tree in it, or with as many items as there are arguments and not as there
        are leaves, is by argument.
      out_axes: the same for the results, whose names are the keys of a dict or the fields of an
        object; None for one that does not depend on the batch.
      axis_size: the size of the batch.

    Raises:
      UsageError: wrong number of axes, an axis out of range, nothing is mapped, a result without an
        axis that depends on the batch.
    """
    check_arrays(check_input(program), "vmap")
    if axis_size < 1:
        fail(UsageError, f"--axis-size {axis_size}: a batch has at least one element", "axis-size")
    ins = _spread(_in_axes(program, in_axes), len(program.in_avals), "--in-axes", "argument")
    outs = _spread(_out_axes(program, out_axes), len(program.out_avals), "--out-axes", "result")
    if ins and all(d is None for d in ins):
        fail(
            UsageError,
            "--in-axes: no argument is mapped",
            "in-axes",
            help="give an axis to at least one argument",
        )
    in_dims = [
        _axis(d, a, lambda i=i: f"--in-axes: {describe(program, i)}")
        for i, (d, a) in enumerate(zip(ins, program.in_avals, strict=True))
    ]
    wanted = [
        _axis(d, a, lambda i=i: f"--out-axes: {result_label(i, program.interface)}")
        for i, (d, a) in enumerate(zip(outs, program.out_avals, strict=True))
    ]
    batched, dims = vmap_jaxpr(within(program, "vmap"), axis_size, in_dims, wanted)
    for i, (d, want) in enumerate(zip(dims, wanted, strict=True)):
        if want is None and d is not None:
            fail(
                UsageError,
                f"--out-axes: {result_label(i, program.interface)} depends on the batch, and no axis is given for it",
                "out-axes",
            )
    return batched


def _in_axes(program: ClosedJaxpr, axes: Axes) -> Sequence[int | None]:
    """Return the axes of all leaves of the arguments, or one for all, given also by name or as trees."""
    if not isinstance(axes, Mapping):
        names = None if program.interface is None else [name for name, _ in program.interface.args]
        has_trees = any(map(is_node, axes))
        for_arguments = names is not None and 1 < len(axes) == len(names) < len(program.in_avals)
        if not has_trees and not for_arguments:
            return axes
        if names is None:
            _refuse_trees("--in-axes")
        if len(names) != len(axes):
            _refuse_count(len(axes), "--in-axes", counted(len(names), "argument"))
        axes = dict(zip(names, axes, strict=True))
    given = [
        (part_named(program, name, "--in-axes", inside=True), name, axis)
        for name, axis in axes.items()
    ]
    return _of_parts(program, given)


def _of_parts(program: ClosedJaxpr, given: Sequence[tuple[Part, str, Any]]) -> Sequence[int | None]:
    found: dict[int, int | None] = {}
    for whole, name, axes in given:
        for part, called, axis in spread(whole, axes, name, "--in-axes", whole=False):
            _refuse_node(axis, "--in-axes", called)
            for i in part.positions:
                if i in found:
                    fail(UsageError, f"--in-axes names {describe(program, i)} twice", "in-axes")
                found[i] = axis
    return [found.get(i) for i in range(len(program.in_avals))]


def _out_axes(program: ClosedJaxpr, axes: Axes) -> Sequence[int | None]:
    """Return the axes of all leaves of the results, or one for all."""
    if not isinstance(axes, Mapping) and not any(map(is_node, axes)):
        return axes
    if program.interface is None:
        _refuse_trees("--out-axes")
    found: list[int | None] = []
    whole = Part(0, program.interface.result)
    for part, called, axis in spread(whole, axes, "result", "--out-axes", whole=True):
        _refuse_node(axis, "--out-axes", called)
        found += [axis] * part.tree.size
    return found


def _refuse_node(axis: Any, option: str, name: str) -> None:
    if is_node(axis):
        fail(UsageError, f"{option}: {name} is one array, and has one axis", "axes-count")


def _refuse_trees(option: str) -> NoReturn:
    fail(
        UsageError,
        f"{option}: the trees of the program are not known",
        "axes-count",
        help="what `trace` writes has them; give a list of axes, one for each",
    )


def _spread(axes: Sequence[int | None], n: int, option: str, what: str) -> list[int | None]:
    if len(axes) == 1:
        return list(axes) * n
    if len(axes) != n:
        _refuse_count(len(axes), option, counted(n, what))
    return list(axes)


def _refuse_count(n: int, option: str, has: str) -> NoReturn:
    message = f"{option} has {counted(n, 'entry')}, and the program has {has}"
    fail(UsageError, message, "axes-count", help="one entry stands for all; - is not mapped")


def _axis(axis: int | None, aval: Any, what: Callable[[], str]) -> int | None:
    if axis is None:
        return None
    n = aval.ndim + 1
    if not -n <= axis < n:
        fail(
            UsageError,
            f"{what()} is {aval}, and batch axis {axis} is out of range for it",
            "axis-range",
            help=f"with a batch axis it has {n}: {-n} to {n - 1}",
        )
    return axis % n
