"""Functions with a batching rule of their own."""

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
    """call(*args), with a batching rule of its own.

    call: the function.
    rule: the batching rule, which only the process that traced the program has.
    in_tree: how JAX's rule takes its arguments.
    out_tree: how JAX's rule gives its results.
    batched_by: the primitive of JAX's whose rule it is, where that is known to do something else than batching `call`; else "".
    """
