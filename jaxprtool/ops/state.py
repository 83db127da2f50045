"""References: cells that a program reads and writes."""

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
    """A reference to a new cell that holds value.

    kind: JAX's kind of reference.
    memory_space: where the cell is.
    pin: whether the cell has to stay where it is in memory.
    """


@primitive
def empty_ref(
    *, ty: RefType, memory_space: MemorySpace | None = shown(None), pin: bool = shown(False)
):
    """A reference to a new cell; nothing is said of what is in it (zeros, with us).

    ty: the type of what goes into the cell.
    memory_space: where the cell is.
    pin: whether the cell has to stay where it is in memory.
    """


@primitive
def freeze(ref):
    """What is in the cell at the end: nobody uses the reference any more."""


@primitive(multiple_results=True)
def free_ref(ref):
    """The cell is given up: nobody uses the reference any more; no results."""


@primitive(notation="read")
def get(
    ref,
    *indices,
    index: RefIndex,
    tree: Bookkeeping = None,
    mask: bool = False,
    other: bool = False,
):
    """What is in the cell, at an index.

    index: which elements are meant; `indices` are the operands in it.
    tree: JAX's structure of the index.
    mask: whether there is an operand that says which elements are read.
    other: whether there is an operand that stands for the elements that are not.
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
    """What is in the cell, at an index, where value goes instead.

    index: which elements are meant; `indices` are the operands in it.
    tree: JAX's structure of the index.
    mask: whether there is an operand that says which elements are written.
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
    """Adds value to what is in the cell, at an index; no results.

    index: which elements are meant; `indices` are the operands in it.
    tree: JAX's structure of the index.
    mask: whether there is an operand that says which elements are added to.
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
    """What is in new cells, which held args, after jaxpr has used them.

    jaxpr: the function of references to the cells; it has no results.
    which_linear: JAX's bookkeeping: which args the transpose takes as linear.
    is_initialized: for each reference, unless it is (), whether its cell holds something at the start.
    """


@primitive
def broadcast_to(array, *, shape: Shape):
    """array repeated along new leading axes and axes of size 1, as indices of a reference are.

    shape: the shape of the result.
    """


@primitive
def atomic_rmw(ref, *operands, args_tree: TreeDef, atomic_type: AtomicOpType):
    """What was at an index of a cell, where what `atomic_type` makes of it and a value is then.

    operands: those of the index, the value and, where there is one, a mask, whose other elements stay as they are.

    args_tree: JAX's structure of ref and operands, which holds the index.
    atomic_type: XCHG for the value itself; ADD, MAX, MIN, AND, OR or XOR.
    """


@primitive
def atomic_cas(ref, compared, value):
    """What was in a cell of one element, where value is then if that was equal to compared."""


@primitive
def create_linear(*, ty: RefType, memory_space: str | None = shown(None)):
    """A buffer that stays where it is, with anything in it.

    ty: the type of what it holds.
    memory_space: where it is.
    """


@primitive
def pin(operand, *, to: str | None = shown(None)):
    """A buffer that stays where it is, with operand in it; it is used once.

    to: where it is, `hbm`, `vmem` or None.
    """


@primitive
def unpin(
    buffer, *, out_avals: Types | None = param(None, hidden="implied", recover=types_of_results)
):
    """What a buffer holds that was pinned, which may be moved again.

    out_avals: the type of that.
    """
