"""Kernels of Pallas: functions of references to blocks of arrays, called for each point of a grid."""

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
    """What is in the results after jaxpr has run for each point of a grid, the last axis fastest.

    Operands are the sizes of the grid that the program computes, the operands that index maps read (whole, as all that
    follow in jaxpr), and those of which jaxpr gets blocks. Results hold nothing at the start: NaN, the least integer, False.

    jaxpr: the kernel: (operands of index maps, blocks of operands, blocks of results, scratch) -> nothing.
    grid_mapping: the sizes of the grid, and of the blocks of operands and results.
    out_avals: the types of the results.
    input_output_aliases: (operand, result) pairs: the result starts with what the operand holds.
    backend: where JAX lowers it; to 0.9.
    compiler_params: hints to a compiler.
    cost_estimate: what its user says that it costs.
    debug: whether JAX prints the kernel.
    interpret: whether JAX runs it as a loop, on any platform.
    mesh: the cores that share the work.
    metadata: what its user says of it.
    name: what its user calls it.
    index_maps: for each block (point of the grid, operands of index maps) -> which block it is, or where it starts; ()
        where the text does not have them.
    vmapped_dims: the axes of the grid that the kernel does not know of.
    """


@primitive
def program_id(*, axis: Axis):
    """The point of the grid for which the kernel runs, along an axis: i32[].

    axis: the axis.
    """


@primitive
def num_programs(*, axis: Axis):
    """The size of the grid along an axis: i32[].

    axis: the axis.
    """


@primitive
def multiple_of(x, *, values: Axes):
    """x, of which the compiler may know that it is a multiple.

    values: of what.
    """


@primitive
def max_contiguous(x, *, values: Axes):
    """x, of which the compiler may know that so many elements follow each other.

    values: how many, along each dimension.
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
    """x turned along an axis, as by `jax.numpy.roll`: out[i + shift] = x[i].

    axis: the axis.
    stride: how much further each next slice along `stride_axis` is turned, or None.
    stride_axis: the axis of these slices, or None.
    """


@primitive
def repeat(x, *, axis: Axis, repeats: int):
    """x several times, one after the other along an axis; to JAX 0.9.0.

    axis: the axis.
    repeats: how often.
    """


@primitive
def reciprocal(x, *, approx: bool = shown(False), full_range: bool = shown(True)):
    """1 / x.

    approx: whether it may be less precise.
    full_range: whether it is exact at the ends of the range, too.
    """


@primitive(multiple_results=True)
def run_scoped(
    *args,
    jaxpr: ClosedJaxpr,
    collective_axes: Bookkeeping = shown(()),
    ref_transforms: Bookkeeping = optional(()),
):
    """jaxpr(*args, references to new cells), which live as long as it runs and hold nothing at the start.

    jaxpr: the function.
    collective_axes: the named axes whose members share the cells.
    ref_transforms: how the function sees each new cell; since 0.10.
    """
