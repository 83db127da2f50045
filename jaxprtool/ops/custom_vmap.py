"""Calls of functions whose batching rule the user has defined: `custom_vmap`."""

from jaxprtool.core.kinds.objects import Function, TreeDef
from jaxprtool.core.primitive import primitive, shown
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["custom_vmap_call"]


@primitive(multiple_results=True)
def custom_vmap_call(
    *args,
    call: ClosedJaxpr,
    rule: Function | None = shown(None),
    in_tree: TreeDef | None = shown(None),
    out_tree: TreeDef | None = shown(None),
    batched_by: str = "",
):
    """call(*args), whose batching rule the user has defined.

    call: the function.
    rule: the batching rule; only the process that traced the program has it.
    in_tree: the pytree structure of the rule's arguments.
    out_tree: the pytree structure of the rule's results.
    batched_by: JAX's primitive, where its batching is known to differ from that of `call`; else "".
    """
