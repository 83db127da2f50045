"""References to mutable arrays, called cells, that a program reads and writes."""

from collections.abc import Sequence
from typing import Any

from jaxprtool.core.inner import Arguments, reference_to
from jaxprtool.core.kinds.kernels import AtomicOpType
from jaxprtool.core.kinds.numbers import EachOperand, Shape, Types
from jaxprtool.core.kinds.objects import Bookkeeping, Flags, RefIndex, RefType, TreeDef
from jaxprtool.core.kinds.placement import MemorySpace
from jaxprtool.core.primitive import param, primitive, shown, types_of_results
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = [
    "addupdate",
    "atomic_cas",
    "atomic_rmw",
    "broadcast_to",
    "create_linear",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "pin",
    "run_state",
    "swap",
    "unpin",
]


@primitive
def new_ref(
    value,
    *,
    kind: str | None = shown(None),
    memory_space: MemorySpace | None = shown(None),
    pin: bool = shown(False),
):
    """A reference to a new cell with the contents value.

    kind: JAX's kind of reference.
    memory_space: the memory of the cell.
    pin: whether the cell must keep its address in memory.
    """


@primitive
def empty_ref(
    *, ty: RefType, memory_space: MemorySpace | None = shown(None), pin: bool = shown(False)
):
    """A reference to a new cell with unspecified contents (here zeros).

    ty: the type of the contents.
    memory_space: the memory of the cell.
    pin: whether the cell must keep its address in memory.
    """


@primitive
def freeze(ref):
    """ref[...]: the contents of the cell. The reference must not be used afterwards."""


@primitive(multiple_results=True)
def free_ref(ref):
    """Frees the cell; no results. The reference must not be used afterwards."""


@primitive(notation="read")
def get(
    ref,
    *indices,
    index: RefIndex,
    tree: Bookkeeping = None,
    mask: bool = False,
    other: bool = False,
):
    """ref[index]: elements of the cell.

    index: the index expression; its traced parts are the operands `indices`.
    tree: the pytree structure of the index.
    mask: whether an operand says which of the elements are read.
    other: whether an operand gives the value of the elements that are not read.
    """


@primitive(notation="write")
def swap(
    ref,
    value,
    *indices,
    index: RefIndex,
    tree: Bookkeeping = None,
    mask: bool = False,
    other: bool = False,
):
    """old = ref[index]; ref[index] = value; the result is old.

    index: the index expression; its traced parts are the operands `indices`.
    tree: the pytree structure of the index.
    mask: whether an operand says which of the elements are written.
    other: as for `get`.
    """


@primitive(multiple_results=True, notation="accumulate")
def addupdate(
    ref,
    value,
    *indices,
    index: RefIndex,
    tree: Bookkeeping = None,
    mask: bool = False,
    other: bool = False,
):
    """ref[index] += value; no results.

    index: the index expression; its traced parts are the operands `indices`.
    tree: the pytree structure of the index.
    mask: whether an operand says which of the elements are added to.
    other: as for `get`.
    """


def _by_references(avals: Sequence[Any], *, jaxpr: Any, **_: Any) -> Arguments:
    return [(jaxpr, [reference_to(a) for a in avals])]


@primitive(multiple_results=True, takes=_by_references)
def run_state(
    *args,
    jaxpr: ClosedJaxpr,
    which_linear: Flags = shown(()),
    is_initialized: EachOperand = shown(()),
):
    """The contents of new cells, one for each of args, after jaxpr(*references to them) has run.

    At the start each cell holds its argument.

    jaxpr: (references to the cells) -> ().
    which_linear: for each argument, whether it is linear in JAX's transpose; no effect otherwise.
    is_initialized: for each cell, whether it holds an argument at the start; () if all cells do.
    """


@primitive
def broadcast_to(array, *, shape: Shape):
    """array broadcast to a shape by NumPy's rules; kernels broadcast the indices of references so.

    shape: the shape of the result.
    """


@primitive
def atomic_rmw(ref, *operands, args_tree: TreeDef, atomic_type: AtomicOpType):
    """old = ref[index]; ref[index] = f(old, value), as one atomic step; the result is old.

    The operands are those of the index, the value and, optionally, a mask; elements outside the
    mask do not change.

    args_tree: the pytree structure of ref and operands, which holds the index.
    atomic_type: f: XCHG for f(old, value) = value; ADD, MAX, MIN, AND, OR or XOR.
    """


@primitive
def atomic_cas(ref, compared, value):
    """old = ref[...]; if old == compared: ref[...] = value, as one atomic step; the result is old.

    The cell has one element.
    """


@primitive
def create_linear(*, ty: RefType, memory_space: str | None = shown(None)):
    """A new pinned buffer, which keeps its address in memory, with unspecified contents.

    ty: the type of the contents.
    memory_space: the memory of the buffer.
    """


@primitive
def pin(operand, *, to: str | None = shown(None)):
    """A pinned buffer, which keeps its address in memory, with the contents operand; it is used
    once.

    to: the memory of the buffer: `hbm`, `vmem` or None.
    """


@primitive
def unpin(
    buffer, *, out_avals: Types | None = param(None, hidden="implied", recover=types_of_results)
):
    """The contents of a pinned buffer, as an ordinary array, which the compiler may move.

    out_avals: the type of the contents.
    """
