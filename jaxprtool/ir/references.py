"""Indices of references: which elements of a cell an equation reads or writes (`a:f32[4] <- r[i,0:4]`).

An index is a sequence of steps. Each selects elements (`Indexer`), or views the result of the one
before in another way (`Reshape`, `Transpose`, `Bitcast`). An `Operand` in it stands for an integer
that is an operand of the equation. The operands are numbered in the order of the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.frozen import Frozen, amend
from jaxprtool.ir.params import Opaque, Structured

__all__ = [
    "Bitcast",
    "Fragments",
    "IndexPart",
    "Indexer",
    "Item",
    "Operand",
    "RefIndex",
    "Reshape",
    "Slice",
    "Step",
    "Transpose",
]


class IndexPart(Frozen):
    """Base of the parts of an index. Parts of one class with equal fields (its slots) are equal."""

    __slots__ = ()

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexPart) and (
            type(self) is type(other) and self._fields() == other._fields()
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._fields()))

    def __reduce__(self):
        return type(self), self._fields()


class Operand(IndexPart):
    """An operand of an index: an integer, or an array of them.

    Attributes:
      position: its place among the operands of the index.
    """

    __slots__ = ("position",)
    position: int

    def __init__(self, position: int):
        amend(self, position=position)

    def __repr__(self) -> str:
        return f"${self.position}"


class Slice(IndexPart):
    """Elements of a dimension at equal distances.

    Attributes:
      start: the index of the first element.
      size: the number of elements; None for all to the end of the dimension.
      stride: the distance from one element to the next.
    """

    __slots__ = ("size", "start", "stride")
    start: int | Operand
    size: int | Operand | None
    stride: int

    def __init__(
        self, start: int | Operand = 0, size: int | Operand | None = None, stride: int = 1
    ):
        amend(self, start=start, size=size, stride=stride)

    def _fields(self) -> tuple[Any, ...]:
        return self.start, self.size, self.stride

    def __repr__(self) -> str:
        return _item_text(self, None)


class Fragments(Structured):
    """An index item in no known form: the text around the operands in it.

    Attributes:
      pieces: texts and operands, in order.
    """

    __slots__ = ("pieces",)
    pieces: tuple[str | Operand, ...]

    def __init__(self, *pieces: str | Operand):
        self._fill(pieces=pieces)

    def text(self, names: Sequence[str]) -> str:
        """Return the text, with `names` for the operands."""
        return "".join([p if isinstance(p, str) else _name(p, names) for p in self.pieces])

    def _key(self) -> tuple[str | Operand, ...]:
        return self.pieces

    def __reduce__(self):
        return Fragments, self.pieces

    def _text(self) -> str:
        return "".join(map(str, self.pieces))


Item = int | Operand | Slice | Fragments


class Indexer(IndexPart):
    """A step that selects elements of a cell, as NumPy's indices do.

    Attributes:
      items: for each dimension a number, an operand or a slice; `Fragments` for an item that is not
        understood.
    """

    __slots__ = ("items",)
    items: tuple[Item, ...]

    def __init__(self, items: tuple[Item, ...]):
        amend(self, items=items)

    def __repr__(self) -> str:
        return _step_text(self, None)


class Reshape(IndexPart):
    """A step that views the elements in another shape."""

    __slots__ = ("shape",)
    shape: tuple[int, ...]

    def __init__(self, shape: tuple[int, ...]):
        amend(self, shape=shape)

    def __repr__(self) -> str:
        return f"{{reshape({list(self.shape)})}}"


class Transpose(IndexPart):
    """A step that views dimension `permutation[i]` as dimension i."""

    __slots__ = ("permutation",)
    permutation: tuple[int, ...]

    def __init__(self, permutation: tuple[int, ...]):
        amend(self, permutation=permutation)

    def __repr__(self) -> str:
        return f"{{transpose({list(self.permutation)})}}"


class Bitcast(IndexPart):
    """A step that views the bits as elements of another type."""

    __slots__ = ("dtype",)
    dtype: DType

    def __init__(self, dtype: DType):
        amend(self, dtype=dtype)

    def __repr__(self) -> str:
        return f"{{bitcast({self.dtype.name})}}"


Step = Indexer | Reshape | Transpose | Bitcast | Opaque


class RefIndex(Structured):
    """The index of an equation on a reference: RefIndex(Indexer((Operand(0), Slice(0, 4)))) is `[i,0:4]`.

    Attributes:
      steps: applied one after another; none for the whole cell. An `Opaque` is the text of a step
        that is not understood.

    In `spelled`, `$0` stands for the first operand.
    """

    __slots__ = ("_hash", "steps")
    steps: tuple[Step, ...]
    _hash: int

    def __init__(self, *steps: Step):
        self._fill(steps=steps, _hash=hash(steps))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, RefIndex) and self.steps == other.steps)

    def __hash__(self) -> int:
        return self._hash

    def text(self, names: Sequence[str]) -> str:
        """Return the text after the reference as JAX prints it, with strides of slices and `names`
        for the operands.
        """
        return "".join([_step_text(s, names) for s in self.steps]) or "[...]"

    @property
    def is_whole(self) -> bool:
        """Whether it selects the whole cell: `[...]`, or a colon for each dimension, `[:,:]`."""
        if len(self.steps) > 1:
            return False
        every = Slice()
        return all(
            isinstance(step, Indexer) and all(item == every for item in step.items)
            for step in self.steps
        )

    def operands(self) -> Iterator[Operand]:
        """Iterate over the operands in the order of the index."""
        for step in self.steps:
            for item in step.items if isinstance(step, Indexer) else ():
                if isinstance(item, Operand):
                    yield item
                else:
                    parts = (item.start, item.size) if isinstance(item, Slice) else ()
                    parts = item.pieces if isinstance(item, Fragments) else parts
                    yield from (p for p in parts if isinstance(p, Operand))

    def _key(self) -> tuple[Step, ...]:
        return self.steps

    def __reduce__(self):
        return RefIndex, self.steps, self._state()

    def _text(self) -> str:
        return "".join([_step_text(s, None) for s in self.steps]) or "[...]"


def _name(operand: Operand, names: Sequence[str] | None) -> str:
    return str(operand) if names is None else names[operand.position]


def _step_text(step: Step, names: Sequence[str] | None) -> str:
    if type(step) is not Indexer:
        return str(step)
    return f"[{','.join([_item_text(x, names) for x in step.items])}]"


def _item_text(item: Item, names: Sequence[str] | None) -> str:
    if type(item) is Slice:
        return _slice_text(item, names)
    if type(item) is Operand:
        return _name(item, names)
    if isinstance(item, Fragments):
        return str(item) if names is None else item.text(names)
    return str(item)


def _slice_text(s: Slice, names: Sequence[str] | None) -> str:
    """`:`, `2:`, `:4`, `2:4`, `i:i+4`, `:n`, `2:2+n`, `i:i+n`, and the stride where it is not 1: `:7:2`, `i:i+7:2`."""
    start = _name(s.start, names) if isinstance(s.start, Operand) else str(s.start or "")
    stride = "" if s.stride == 1 else f":{s.stride}"
    if s.size is None:
        return f"{start}:{stride}"
    if isinstance(s.size, Operand):
        size = _name(s.size, names)
        return f"{start}:{start}+{size}{stride}" if start else f":{size}{stride}"
    span = (s.size - 1) * s.stride + 1 if s.size else 0
    if isinstance(s.start, Operand):
        return f"{start}:{start}+{span}{stride}"
    return f"{start}:{s.start + span}{stride}"
