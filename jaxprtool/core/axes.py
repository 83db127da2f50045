"""Named axes: which names are bound where, and the batch axes that have names.

`shard_map` and `vmap(axis_name=)` bind names; collectives act along them. Rules that transform the body of such
an operation do so inside `bound_axes(...)`, so that the types of collectives can be worked out.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeGuard

from jaxprtool.core.bind import state

__all__ = ["NO_AXES", "AxisEnv", "NamedAxis", "are_devices", "bound_axes", "current_axes"]


class AxisEnv:
    """The axis names in scope.

    Attributes:
      sizes: name -> size, outermost first.
      varying: the names for which types say along which of them a value varies (`{V:i}`).
    """

    __slots__ = ("sizes", "varying")

    def __init__(self, sizes: Mapping[str, int], varying: frozenset[str]):
        self.sizes, self.varying = dict(sizes), varying

    def extended(self, sizes: Mapping[str, int], varying: bool) -> AxisEnv:
        """Return this scope with further names."""
        names = self.varying | frozenset(sizes) if varying else self.varying - frozenset(sizes)
        return AxisEnv({**self.sizes, **sizes}, names)

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable key that distinguishes this scope from others."""
        return tuple(self.sizes.items()), self.varying


NO_AXES = AxisEnv({}, frozenset())


def current_axes() -> AxisEnv:
    """The axis names in scope now."""
    return state.axes or NO_AXES


@contextmanager
def bound_axes(sizes: Mapping[str, int], varying: bool = False) -> Generator[AxisEnv]:
    """Bind axis names inside a `with` block.

    Args:
      sizes: name -> size.
      varying: whether types inside say along which of the names values vary.
    """
    previous = state.axes
    state.axes = found = current_axes().extended(sizes, varying)
    try:
        yield found
    finally:
        state.axes = previous


class NamedAxis(int):
    """The size of a batch whose axis has a name, or is the product of several named axes.

    Rules that do not need the names treat it as an ordinary int. Example k of the batch has the
    index of k in row-major order along `axes`.

    Attributes:
      axes: name -> size; the product of the sizes is the int.
      each: whether the examples are devices: see `are_devices`. An equation that batching would
        replace by its operand then stays as an identity, for those who observe which equations ran.
      alone: whether equations without a batch axis run on one device after the other. The result of
        `axis_index` is then passed in and not computed.
    """

    axes: dict[str, int]
    each: bool
    alone: bool

    def __new__(
        cls, axes: Mapping[str, int], *, each: bool = False, alone: bool = False
    ) -> NamedAxis:
        self = super().__new__(cls, math.prod(axes.values()))
        self.axes, self.each, self.alone = dict(axes), each, alone
        return self

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable key that distinguishes it from other batches of the same size."""
        return self.each, self.alone, *self.axes.items()


def are_devices(axis_size: int) -> TypeGuard[NamedAxis]:
    """Whether the examples of a batch are the devices of a `shard_map` that NumPy runs as a batch.

    Each device acts alone. So they do not use a batch rule that does something else than a loop
    (one draw for all examples, a call of the user's rule).
    """
    return type(axis_size) is NamedAxis and axis_size.each
