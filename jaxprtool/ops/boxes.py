"""Boxes, which JAX 0.7.1 to 0.10 had for trial: cells that hold a tree of values, of other types each time."""

from jaxprtool.core.kinds.numbers import Types
from jaxprtool.core.kinds.objects import TreeDef
from jaxprtool.core.primitive import primitive, shown

__all__ = ["box_get", "box_set", "new_box"]


@primitive
def new_box(*, treedef: TreeDef | None = shown(None)):
    """A new box, with nothing in it.

    treedef: JAX's tree of what is in it, `PyTreeDef(None)`.
    """


@primitive(multiple_results=True)
def box_set(box, *values, treedef: TreeDef | None = shown(None)):
    """Puts values into the box in the place of what is in it; no results.

    treedef: JAX's tree of them.
    """


@primitive(multiple_results=True)
def box_get(box, *, avals: Types):
    """What is in the box.

    avals: the types of that.
    """
