"""Products: operations that multiply an operand by others, as their transposes say.

The transpose of `x * y` in x multiplies a cotangent by y. That of `x + y`, and that of a choice between the two, does not read y.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jaxprtool.core.primitive import Primitive
from jaxprtool.interpreters.transpose import transpose_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var

__all__ = ["factors_of", "is_linear_in", "is_product"]


def factors_of(eqn: JaxprEqn, i: int) -> frozenset[int] | None:
    """The positions of the operands by which an operation multiplies operand i; None where it is not linear in that.

    What decides how operand i is taken (a predicate, an index) is among them.
    """
    binders = [Var(x.aval) for x in eqn.inputs]
    outs = [Var(v.aval) for v in eqn.out_binders]
    alone = Jaxpr(binders, [eqn.replace(inputs=binders, out_binders=outs)], outs, [])
    try:
        made = transpose_jaxpr(ClosedJaxpr(alone, []), [k == i for k in range(len(binders))])[0]
    except JaxprToolError:
        return None
    others = [k for k in range(len(binders)) if k != i]
    read = {x for e in made.eqns for x in e.inputs}
    pairs = zip(others, made.jaxpr.in_binders, strict=False)  # the cotangents follow
    return frozenset(k for k, v in pairs if v in read)


def is_linear_in(eqn: JaxprEqn, i: int) -> bool:
    """Whether an operation is linear in operand i, as far as it has a transpose."""
    return factors_of(eqn, i) is not None


def is_product(eqn: JaxprEqn) -> bool:
    """Whether an elementwise operation of two operands, without params that are set, multiplies one by what the other gives."""
    is_plain = all(value is None for value in eqn.params.values())
    return len(eqn.inputs) == 2 and is_plain and _multiplies(eqn.primitive, tuple(eqn.params))


@cache
def _multiplies(primitive: Primitive, params: tuple[str, ...]) -> bool:
    inputs: Sequence[Any] = [Var(_SCALAR), Var(_SCALAR)]
    eqn = JaxprEqn(primitive, inputs, dict.fromkeys(params), [Var(_SCALAR)])
    return any(factors_of(eqn, i) for i in range(2))


_SCALAR = ShapedArray((), FLOAT32)
