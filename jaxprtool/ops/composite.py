"""A named function that a compiler may implement as a single operation."""

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
    """jaxpr(*args); a compiler that knows the name may replace the call by an operation of its own.

    jaxpr: the definition of the operation.
    name: the name of the operation.
    attributes: the params of the operation, each a tuple (name, leaves, PyTreeDef).
    version: the version of the operation's definition.
    """
