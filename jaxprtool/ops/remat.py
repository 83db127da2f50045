"""Rematerialisation: intermediate values that a derivative recomputes instead of storing them."""

from jaxprtool.core.kinds.functions import Label
from jaxprtool.core.kinds.objects import Policy
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["checkpoint_name", "remat_call"]


@primitive(name="remat2", multiple_results=True)
def remat_call(
    *args,
    jaxpr: ClosedJaxpr,
    policy: Policy | None = shown(None),
    prevent_cse: bool | tuple[bool, ...] = shown(True),
    differentiated: bool = shown(False),
):
    """jaxpr(*args); its reverse derivative recomputes intermediate values instead of storing them.

    jaxpr: the function.
    policy: the rule that says which intermediate values are stored nevertheless; None stores none.
    prevent_cse: whether the compiler must not merge the recomputation with the first computation.
    differentiated: whether this equation is the recomputation in a derivative.
    """


@primitive(name="name")
def checkpoint_name(operand, *, name: Label):
    """operand, under a name by which policies of `remat2` can choose to store it.

    name: the name.
    """
