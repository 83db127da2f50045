"""Rematerialisation: what a derivative computes again instead of keeping."""

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
    """jaxpr(*args); its derivative computes intermediate values again instead of keeping them.

    jaxpr: the function.
    policy: which intermediate values are kept all the same; None for none of them.
    prevent_cse: whether the compiler must not merge the second computation with the first.
    differentiated: whether this is the second computation.
    """


@primitive(name="name")
def checkpoint_name(operand, *, name: Label):
    """operand, under a name that policies of `remat2` know it by.

    name: the name.
    """
