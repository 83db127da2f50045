"""What kernels do with parts of one device: copies between memories, semaphores, barriers, its generator of random bits.

JAX prints most of these in forms of their own (`dma_start(p0) a[...] -> b[...] c[...]`); there `index` is the text around the operands.
"""

from jaxprtool.core.kinds.kernels import (
    CompilerHints,
    CostEstimate,
    Debug,
    KernelMesh,
    KernelName,
    Metadata,
)
from jaxprtool.core.kinds.numbers import Axis, DType, Shape, Types
from jaxprtool.core.kinds.objects import Bookkeeping
from jaxprtool.core.primitive import optional, param, primitive, shown, types_of_results
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "barrier_arrive",
    "barrier_test",
    "barrier_wait",
    "bitcast",
    "commit_group",
    "commit_smem",
    "copy_gmem_to_smem",
    "copy_smem_to_gmem",
    "core_map",
    "delay",
    "device_id",
    "dma_start",
    "dma_wait",
    "mpmd_map",
    "prng_random_bits",
    "prng_seed",
    "semaphore_read",
    "semaphore_signal",
    "semaphore_wait",
    "wait_smem_to_gmem",
    "wgmma_ref",
]


@primitive(multiple_results=True)
def dma_start(
    *operands,
    index: Bookkeeping = optional(None),
    tree: Bookkeeping = optional(None),
    device_id_type: Bookkeeping = optional(None),
    priority: int | None = optional(None),
    add: bool | None = optional(None),
):
    """Starts a copy between memories, at the end of which semaphores are signalled.

    index: the text around the operands, where JAX prints none of the other params.
    tree: JAX's structure of the operands.
    device_id_type: how the number of another device is given.
    priority: which copies go first.
    add: whether what is copied is added to what is there.
    """


@primitive(multiple_results=True)
def dma_wait(
    *operands,
    index: Bookkeeping = optional(None),
    tree: Bookkeeping = optional(None),
    device_id_type: Bookkeeping = optional(None),
    insert_dummy_device: bool | None = optional(None),
    is_wait_send: bool | None = optional(None),
):
    """Waits for a copy.

    index: as for `dma_start`.
    tree: JAX's structure of the operands.
    device_id_type: how the number of another device is given.
    insert_dummy_device: whether one is given where there is none.
    is_wait_send: whether it waits until what is sent was read.
    """


@primitive(multiple_results=True)
def semaphore_signal(
    *operands,
    index: Bookkeeping = optional(None),
    args_tree: Bookkeeping = optional(None),
    device_id_type: Bookkeeping = optional(None),
    memory_scope: Bookkeeping = optional(None),
):
    """Adds to a semaphore, of this device or of another.

    index: as for `dma_start`.
    args_tree: JAX's structure of the operands.
    device_id_type: how the number of another device is given.
    memory_scope: who sees what was written before.
    """


@primitive(multiple_results=True)
def semaphore_wait(
    *operands,
    index: Bookkeeping = optional(None),
    args_tree: Bookkeeping = optional(None),
    memory_scope: Bookkeeping = optional(None),
):
    """Waits until a semaphore has a value.

    index: as for `dma_start`; `[dec]` for one that is taken from it then.
    args_tree: JAX's structure of the operands.
    memory_scope: who sees what was written before.
    """


@primitive
def semaphore_read(*operands, args_tree: Bookkeeping = shown(None)):
    """The value of a semaphore.

    args_tree: JAX's structure of the operands.
    """


@primitive(multiple_results=True)
def barrier_arrive(
    *operands,
    index: Bookkeeping = optional(None),
    transforms_treedef: Bookkeeping = optional(None),
    has_user_predicate: bool | None = optional(None),
):
    """Says to a barrier that this thread is there.

    index: as for `dma_start`.
    transforms_treedef: JAX's structure of the operands.
    has_user_predicate: whether an operand says if it is done.
    """


@primitive(multiple_results=True, like=barrier_arrive)
def barrier_wait():
    """Waits until all are there."""


@primitive(multiple_results=True, like=barrier_arrive)
def barrier_test():
    """Whether all are there."""


@primitive(multiple_results=True)
def copy_gmem_to_smem(
    *operands,
    index: Bookkeeping = optional(None),
    src_transforms_treedef: Bookkeeping = optional(None),
    dst_transforms_treedef: Bookkeeping = optional(None),
    barrier_transforms_treedef: Bookkeeping = optional(None),
    collective_axes: Bookkeeping = optional(None),
    partitioned_axis: Bookkeeping = optional(None),
    leader_tracked: Bookkeeping = optional(None),
    for_warpgroup: bool | None = optional(None),
    has_user_predicate: bool | None = optional(None),
    commit_group: bool | None = optional(None),
    reduction_op: Bookkeeping = optional(None),
    has_barrier: bool | None = optional(None),
    oob_mode: Bookkeeping = optional(None),
):
    """Starts a copy from the memory of the device to that of a group of threads.

    index: as for `dma_start`.
    src_transforms_treedef: JAX's structure of what is copied.
    dst_transforms_treedef: the same of where it goes.
    barrier_transforms_treedef: the same of the barrier that is told.
    collective_axes: the axes over which several groups copy together.
    partitioned_axis: the axis of which each copies a part.
    leader_tracked: which barriers are told.
    for_warpgroup: whether the groups are of one kind.
    has_user_predicate: whether an operand says if it is done.
    commit_group: whether it is waited for together with those before.
    reduction_op: what is made of what is there.
    has_barrier: whether a barrier is told.
    oob_mode: what is copied of places out of bounds.
    """


@primitive(multiple_results=True, like=copy_gmem_to_smem)
def copy_smem_to_gmem():
    """Starts a copy the other way."""


@primitive(multiple_results=True)
def wgmma_ref(
    *operands,
    index: Bookkeeping = optional(None),
    acc_transforms_tree: Bookkeeping = optional(None),
    a_transforms_tree: Bookkeeping = optional(None),
    b_transforms_tree: Bookkeeping = optional(None),
):
    """Adds a product of matrices to what is in a cell.

    index: as for `dma_start`.
    acc_transforms_tree: JAX's structure of the cell.
    a_transforms_tree: the same of the first matrix.
    b_transforms_tree: the same of the second.
    """


@primitive(multiple_results=True)
def commit_group():
    """What was started before is one group of copies."""


@primitive(multiple_results=True)
def commit_smem():
    """What was written is seen by copies."""


@primitive(multiple_results=True)
def wait_smem_to_gmem(
    *operands, n: int | None = optional(None), wait_read_only: bool = shown(False)
):
    """Waits until at most n groups of copies are under way; n was an operand before JAX 0.11.

    n: how many.
    wait_read_only: whether only what is read has to be done with.
    """


@primitive(multiple_results=True)
def delay(nanos):
    """Waits for a time."""


@primitive
def device_id():
    """The number of the device."""


@primitive(multiple_results=True)
def prng_seed(*seeds):
    """Sets the generator of random bits of the device."""


@primitive
def prng_random_bits(*, shape: Shape):
    """Random bits of the device's generator.

    shape: the shape of the result.
    """


@primitive
def bitcast(x, *, ty: DType, dim: Axis | None = optional(None)):
    """x with its bits taken for another type, by registers of a TPU.

    ty: the element type of the result.
    dim: the axis whose size changes with the width of elements; the last but one before JAX 0.12.
    """


@primitive(multiple_results=True)
def core_map(
    *operands,
    jaxpr: ClosedJaxpr,
    mesh: KernelMesh,
    debug_info: Bookkeeping = optional(None),
    compiler_params: CompilerHints = shown(None),
    cost_estimate: CostEstimate = shown(None),
    debug: Debug = shown(False),
    interpret: Bookkeeping = shown(False),
    metadata: Metadata = optional(None),
    name: KernelName = shown(None),
    out_mesh: Bookkeeping = optional(None),
):
    """A kernel on each core of a mesh; it writes to references that it has from outside.

    jaxpr: the kernel.
    mesh: the cores.
    debug_info: JAX's names of arguments.
    compiler_params: hints to the compiler.
    cost_estimate: what the kernel is said to cost.
    debug: whether the compiler prints what it does.
    interpret: whether JAX runs it without the compiler.
    metadata: what is said of it.
    name: its name.
    out_mesh: the cores of the results.
    """


@primitive(multiple_results=True)
def mpmd_map(
    *operands,
    jaxprs: tuple[ClosedJaxpr, ...],
    meshes: Bookkeeping = shown(()),
    external_meshes: Bookkeeping = optional(None),
    out_avals: Types | None = param(None, hidden="never", recover=types_of_results),
    input_output_aliases: Bookkeeping = shown(None),
    compiler_params: CompilerHints = shown(None),
    cost_estimate: CostEstimate = shown(None),
    debug: Debug = shown(False),
    interpret: Bookkeeping = shown(None),
    metadata: Metadata = shown(None),
    name: KernelName = shown(None),
):
    """What is in the results after several kernels have run, each on the cores of a mesh of its own.

    jaxprs: the kernels.
    meshes: the cores of each.
    external_meshes: those of the whole.
    out_avals: the types of the results.
    input_output_aliases: which results start with what operands hold.
    compiler_params: hints to the compiler.
    cost_estimate: what the kernels are said to cost.
    debug: whether the compiler prints what it does.
    interpret: whether JAX runs them without the compiler.
    metadata: what is said of them.
    name: their name.
    """
