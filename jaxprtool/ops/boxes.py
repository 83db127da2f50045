"""Boxes, which JAX 0.7.1 to 0.10 had as an experiment: mutable cells that hold a pytree of values.

Each `box_set` may store values of other types than the one before.
"""

from jaxprtool.core.kinds.numbers import Types
from jaxprtool.core.kinds.objects import TreeDef
from jaxprtool.core.primitive import primitive, shown

__all__ = ["box_get", "box_set", "new_box"]


@primitive
def new_box(*, treedef: TreeDef | None = shown(None)):
    """A new empty box.

    treedef: the pytree structure of its contents, `PyTreeDef(None)`.
    """


@primitive(multiple_results=True)
def box_set(box, *values, treedef: TreeDef | None = shown(None)):
    """Replaces the contents of the box by values; no results.

    treedef: the pytree structure of the values.
    """


@primitive(multiple_results=True)
def box_get(box, *, avals: Types):
    """The contents of the box.

    avals: their types.
    """
