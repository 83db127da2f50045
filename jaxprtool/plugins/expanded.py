"""Rows of primitives that are defined in terms of other primitives: transformations transform that
expansion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jaxprtool as jt
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.makers.calls import inline_jvp, inline_transpose
from jaxprtool.makers.decomposed import expansion

__all__ = ["row"]


def _size(in_avals: Any, out_avals: Any, **_: Any) -> int:
    return 2 * sum(math.prod(a.shape) for a in (*in_avals, *out_avals))


def row(op: Any, types: Callable[..., Any], f: Callable[..., Any], **others: Any) -> None:
    """Define the row of a primitive whose jvp, transpose and batch rules are those of its
    expansion.

    Args:
      op: the binding function.
      types: its type rule.
      f: f(in_avals, *operands, **params), which computes the results with other primitives (the
        expansion).
      others: columns of the row that are given in place of derived ones.
    """
    several = op.primitive.multiple_results

    def of_types(avals: Sequence[Any], params: Any) -> ClosedJaxpr:
        found = expansion(impl_rules[op.primitive], avals, params)
        assert found is not None  # `decomposed` made the impl rule
        return found

    def body(operands: Sequence[Any], params: Any) -> ClosedJaxpr:
        return of_types([x.aval if jt.is_linear(x) else get_aval(x) for x in operands], params)

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        outs, moved = inline_jvp(body(primals, params), primals, tangents)
        return (outs, moved) if several else (outs[0], moved[0])

    def batch(axis_size: int, values: Any, dims: Any, **params: Any) -> Any:
        avals = [
            a if d is None else a.update(shape=(*a.shape[:d], *a.shape[d + 1 :]))
            for a, d in zip(map(get_aval, values), dims, strict=True)
        ]
        batched, out_dims = vmap_jaxpr(of_types(avals, params), axis_size, dims, None)
        outs = apply_jaxpr(batched, values)
        return (outs, out_dims) if several else (outs[0], out_dims[0])

    def transpose(cts: Any, *operands: Any, **params: Any) -> list[Any]:
        return inline_transpose(cts if several else [cts], operands, body(operands, params))

    of_body = {"jvp": jvp, "transpose": transpose, "batch": batch}
    given = {"abstract_eval": types, "cost": _size, **others}
    jt.define(op, **{**jt.decomposed(f), **of_body, **given})
