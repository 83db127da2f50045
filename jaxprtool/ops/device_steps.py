"""Primitives of kernels that use parts of a TPU or GPU: copies between memories, semaphores,
barriers, the hardware's generator of random bits.

JAX prints most of these in a special form (`dma_start(p0) a[...] -> b[...] c[...]`). The param
`index` holds the text of such an equation around its operands.
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
    """Starts an asynchronous copy between memories, which signals semaphores when it ends; no
    results.

    index: the text around the operands, in the form that prints no other param.
    tree: the pytree structure of the operands.
    device_id_type: how the other device is identified: by a number or by its place in the mesh.
    priority: the priority among the copies that wait.
    add: whether the copied elements are added to those at the destination, or replace them.
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
    """Waits for the end of a copy that `dma_start` started; no results.

    index: as for `dma_start`.
    tree: the pytree structure of the operands.
    device_id_type: as for `dma_start`.
    insert_dummy_device: whether a copy within one device gets a placeholder for the other device.
    is_wait_send: whether it waits until the source was read, rather than until the end of the copy.
    """


@primitive(multiple_results=True)
def semaphore_signal(
    *operands,
    index: Bookkeeping = optional(None),
    args_tree: Bookkeeping = optional(None),
    device_id_type: Bookkeeping = optional(None),
    memory_scope: Bookkeeping = optional(None),
):
    """Increments a semaphore of this device or of another one; no results.

    index: as for `dma_start`.
    args_tree: the pytree structure of the operands.
    device_id_type: as for `dma_start`.
    memory_scope: the threads to which earlier writes are visible afterwards.
    """


@primitive(multiple_results=True)
def semaphore_wait(
    *operands,
    index: Bookkeeping = optional(None),
    args_tree: Bookkeeping = optional(None),
    memory_scope: Bookkeeping = optional(None),
):
    """Waits until a semaphore has at least a given value; no results.

    index: as for `dma_start`; contains `[dec]` if the value is then subtracted from the semaphore.
    args_tree: the pytree structure of the operands.
    memory_scope: the threads to which earlier writes are visible afterwards.
    """


@primitive
def semaphore_read(*operands, args_tree: Bookkeeping = shown(None)):
    """The value of a semaphore, i32[].

    args_tree: the pytree structure of the operands.
    """


@primitive(multiple_results=True)
def barrier_arrive(
    *operands,
    index: Bookkeeping = optional(None),
    transforms_treedef: Bookkeeping = optional(None),
    has_user_predicate: bool | None = optional(None),
):
    """Counts this thread as arrived at a barrier; no results.

    index: as for `dma_start`.
    transforms_treedef: the pytree structure of the transforms of the barrier's reference.
    has_user_predicate: whether the last operand is a boolean that says if the step is executed.
    """


@primitive(multiple_results=True, like=barrier_arrive)
def barrier_wait():
    """Waits until all threads have arrived at a barrier; no results."""


@primitive(multiple_results=True, like=barrier_arrive)
def barrier_test():
    """Whether all threads have arrived at a barrier, bool[]."""


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
    """Starts an asynchronous copy from global to shared memory of a GPU; no results.

    index: as for `dma_start`.
    src_transforms_treedef: the pytree structure of the transforms of the source's reference.
    dst_transforms_treedef: the pytree structure of the transforms of the destination's reference.
    barrier_transforms_treedef: the pytree structure of the transforms of the barrier's reference.
    collective_axes: the axes of the grid along which several thread blocks copy together.
    partitioned_axis: the axis of the array of which each of these thread blocks copies a part.
    leader_tracked: which barriers are told, if several thread blocks copy together.
    for_warpgroup: whether the threads of one warpgroup start the copy.
    has_user_predicate: whether the last operand is a boolean that says if the step is executed.
    commit_group: whether the copy ends the group of copies started before it (see `commit_group`).
    reduction_op: how copied elements are combined with those at the destination, or None.
    has_barrier: whether an operand is the barrier that the copy arrives at when it ends.
    oob_mode: what is copied for elements out of bounds.
    """


@primitive(multiple_results=True, like=copy_gmem_to_smem)
def copy_smem_to_gmem():
    """Starts an asynchronous copy from shared to global memory of a GPU; no results."""


@primitive(multiple_results=True)
def wgmma_ref(
    *operands,
    index: Bookkeeping = optional(None),
    acc_transforms_tree: Bookkeeping = optional(None),
    a_transforms_tree: Bookkeeping = optional(None),
    b_transforms_tree: Bookkeeping = optional(None),
):
    """acc[...] += a @ b, for a reference acc and matrices a and b, by the tensor cores of a GPU.

    index: as for `dma_start`.
    acc_transforms_tree: the pytree structure of the transforms of acc.
    a_transforms_tree: the pytree structure of the transforms of a.
    b_transforms_tree: the pytree structure of the transforms of b.
    """


@primitive(multiple_results=True)
def commit_group():
    """Ends a group: the copies to global memory started since the last one; no results."""


@primitive(multiple_results=True)
def commit_smem():
    """Makes writes to shared memory visible to the asynchronous copies after it; no results."""


@primitive(multiple_results=True)
def wait_smem_to_gmem(
    *operands, n: int | None = optional(None), wait_read_only: bool = shown(False)
):
    """Waits until at most n groups of copies to global memory are unfinished; no results.

    Before JAX 0.11 n was an operand.

    n: the number of groups.
    wait_read_only: whether a group counts as finished as soon as its sources have been read.
    """


@primitive(multiple_results=True)
def delay(nanos):
    """Waits for this number of nanoseconds; no results."""


@primitive
def device_id():
    """The number of the device that runs the kernel, i32[]."""


@primitive(multiple_results=True)
def prng_seed(*seeds):
    """Sets the state of the TPU's generator of random bits; no results."""


@primitive
def prng_random_bits(*, shape: Shape):
    """Random bits from the TPU's generator, as i32 elements.

    shape: the shape of the result.
    """


@primitive
def bitcast(x, *, ty: DType, dim: Axis | None = optional(None)):
    """The bits of x, read as elements of another type, as TPU registers hold them.

    ty: the element type of the result.
    dim: the axis whose size changes with the width of elements; before JAX 0.12 the last but one.
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
    """Runs a kernel on each core of a mesh; it writes to the references that it closes over.

    jaxpr: the kernel; it has no results.
    mesh: the cores.
    debug_info: JAX's names of the kernel's arguments.
    compiler_params: hints to the compiler.
    cost_estimate: the user's estimate of the kernel's cost.
    debug: whether the compiler prints its intermediate programs.
    interpret: whether JAX interprets the kernel instead of compiling it.
    metadata: the user's remarks about the kernel.
    name: the name of the kernel.
    out_mesh: the cores that hold the results.
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
    """The contents of the result buffers after several kernels have run, each on a mesh of its own.

    jaxprs: the kernels.
    meshes: for each kernel, the mesh whose cores run it.
    external_meshes: the meshes around the call.
    out_avals: the types of the results.
    input_output_aliases: pairs (operand, result): the buffer of the result starts as the operand.
    compiler_params: hints to the compiler.
    cost_estimate: the user's estimate of the cost of the kernels.
    debug: whether the compiler prints its intermediate programs.
    interpret: whether JAX interprets the kernels instead of compiling them.
    metadata: the user's remarks about the kernels.
    name: the name of the kernels.
    """
