"""A function that a compiler may know by its name as one operation."""

from jaxprtool.core.kinds.objects import NamedParams
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["composite"]


@primitive(multiple_results=True)
def composite(
    *args,
    jaxpr: ClosedJaxpr,
    name: str,
    attributes: NamedParams = shown(()),
    version: int = shown(0),
):
    """jaxpr(*args), which a compiler may know by its name as one operation.

    jaxpr: what it is made of.
    name: its name.
    attributes: params of the named operation, each a (name, leaves, PyTreeDef).
    version: the version of its meaning.
    """
