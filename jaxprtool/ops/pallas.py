"""Pallas kernels: functions of references to blocks of arrays, called for each point of a grid."""

from jaxprtool.core.kinds.kernels import (
    CompilerHints,
    CostEstimate,
    Debug,
    GridMapping,
    Interpreted,
    KernelBackend,
    KernelMesh,
    KernelName,
    Metadata,
)
from jaxprtool.core.kinds.numbers import Axes, Axis, Types
from jaxprtool.core.kinds.objects import Bookkeeping
from jaxprtool.core.kinds.placement import Pairs
from jaxprtool.core.primitive import optional, param, primitive, shown, types_of_results
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "max_contiguous",
    "multiple_of",
    "num_programs",
    "pallas_call",
    "program_id",
    "reciprocal",
    "repeat",
    "roll",
    "run_scoped",
]


@primitive(multiple_results=True)
def pallas_call(
    *operands,
    jaxpr: ClosedJaxpr,
    grid_mapping: GridMapping,
    out_avals: Types | None = param(None, hidden="never", recover=types_of_results),
    input_output_aliases: Pairs = shown(()),
    backend: KernelBackend = optional(None),
    compiler_params: CompilerHints = shown(None),
    cost_estimate: CostEstimate = shown(None),
    debug: Debug = shown(False),
    interpret: Interpreted = shown(False),
    mesh: KernelMesh = shown(None),
    metadata: Metadata = shown(None),
    name: KernelName = shown(None),
    index_maps: tuple[ClosedJaxpr, ...] = param((), hidden="always"),
    vmapped_dims: Axes = param((), hidden="always"),
):
    """The contents of the results after jaxpr has run once for each point of a grid, last axis
    fastest.

    The operands are, in this order: the sizes of the grid that the program computes; the operands
    of the index maps, which the kernel gets whole; the operands of which the kernel gets blocks.
    Before the first run the results are filled with NaN, the smallest integer or False.

    jaxpr: the kernel: (operands of index maps, blocks of operands and results, scratch) -> ().
    grid_mapping: the sizes of the grid, and of the blocks of operands and results.
    out_avals: the types of the results.
    input_output_aliases: pairs (operand, result): the result starts as a copy of the operand.
    backend: the compiler of the kernel (JAX up to 0.9).
    compiler_params: hints to the compiler.
    cost_estimate: the user's estimate of the kernel's cost.
    debug: whether JAX prints the kernel.
    interpret: whether JAX runs the kernel as a loop, on any platform.
    mesh: the cores that share the points of the grid.
    metadata: the user's remarks about the kernel.
    name: the name of the kernel.
    index_maps: for each block, the function that says which one it is; () if the text lacks them.
        It maps (point of the grid, operands of index maps) to the block's number along each axis,
        or to its first element, as grid_mapping says.
    vmapped_dims: the axes of the grid that `vmap` added, which the kernel does not see.
    """


@primitive
def program_id(*, axis: Axis):
    """The coordinate along one axis of the grid point for which the kernel runs, i32[].

    axis: the axis of the grid.
    """


@primitive
def num_programs(*, axis: Axis):
    """The size of the grid along an axis, i32[].

    axis: the axis of the grid.
    """


@primitive
def multiple_of(x, *, values: Axes):
    """x; the compiler may assume that its elements are multiples of these numbers.

    values: the numbers, one for each axis of x.
    """


@primitive
def max_contiguous(x, *, values: Axes):
    """x; the compiler may assume that its elements are runs of consecutive integers.

    values: the lengths of the runs, one for each axis of x.
    """


@primitive
def roll(
    x,
    shift,
    *,
    axis: Axis,
    stride: int | None = shown(None),
    stride_axis: Axis | None = shown(None),
):
    """out[(i + shift) mod n] = x[i] along an axis of size n, as `jax.numpy.roll`.

    axis: the axis.
    stride: slice j along `stride_axis` is shifted by shift + j * stride; None for no stride.
    stride_axis: the axis of these slices, or None.
    """


@primitive
def repeat(x, *, axis: Axis, repeats: int):
    """Copies of x, one after the other along an axis (JAX up to 0.9.0).

    axis: the axis.
    repeats: the number of copies.
    """


@primitive
def reciprocal(x, *, approx: bool = shown(False), full_range: bool = shown(True)):
    """1 / x, elementwise.

    approx: whether a less precise result will do.
    full_range: whether the result is also correct for very large and very small x.
    """


@primitive(multiple_results=True)
def run_scoped(
    *args,
    jaxpr: ClosedJaxpr,
    collective_axes: Bookkeeping = shown(()),
    ref_transforms: Bookkeeping = optional(()),
):
    """jaxpr(*args, *refs), where refs are references to new cells that exist only during the call.

    At the start the cells hold NaN, the smallest integer or False.

    jaxpr: the function.
    collective_axes: the named axes whose members share the cells.
    ref_transforms: the transforms of each new reference (JAX since 0.10).
    """
