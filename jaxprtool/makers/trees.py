"""Tree definitions among params, which say how JAX's functions take the operands of an equation, or give its results."""

from __future__ import annotations

from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.trees import TreeDefinition

__all__ = ["check_leaves"]


def check_leaves(name: str, param: str, tree: ParamValue, n: int, what: str) -> None:
    """Ill-typed where a tree has another number of leaves than there are values; one that is not known is taken.

    what: what a leaf is for: "operand".
    """
    leaves = tree.count() if isinstance(tree, TreeDefinition) else None
    if leaves is not None and leaves != n:
        has = "1 leaf" if leaves == 1 else f"{leaves} leaves"
        ill_typed(f"{name}: {param}={tree} has {has}, for {counted(n, what)}", "bad-param")
