"""Products: operations that multiply an operand by others, as their transposes say.

The transpose of `x * y` in x multiplies a cotangent by y. That of `x + y`, and that of a choice between the two, does not read y.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jaxprtool.core.primitive import Primitive
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.observe import computed_by, observed_by
from jaxprtool.interpreters.transpose import transpose_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.memo import MemoTable

__all__ = [
    "factors_of",
    "floats_of",
    "is_bilinear",
    "is_linear_in",
    "is_mixing",
    "is_product",
    "read_by",
    "reaches",
]


def factors_of(eqn: JaxprEqn, i: int) -> frozenset[int] | None:
    """The positions of the operands by which an operation multiplies operand i; None where it is not linear in that.

    What decides how operand i is taken (a predicate, an index) is among them.
    """
    made = _transposed(eqn, i)
    if made is None:
        return None
    others = [k for k in range(len(eqn.inputs)) if k != i]
    read = {x for e in made.eqns for x in e.inputs}
    pairs = zip(others, made.jaxpr.in_binders, strict=False)  # the cotangents follow
    return frozenset(k for k, v in pairs if v in read)


def _alone(eqn: JaxprEqn) -> ClosedJaxpr:
    """An equation as a program of its operands."""
    binders = [Var(x.aval) for x in eqn.inputs]
    outs = [Var(v.aval) for v in eqn.out_binders]
    return ClosedJaxpr(
        Jaxpr(binders, [eqn.replace(inputs=binders, out_binders=outs)], outs, []), []
    )


def _transposed(eqn: JaxprEqn, i: int) -> ClosedJaxpr | None:
    """The transpose of an equation in operand i: of the other operands and the cotangents; None where it has none."""
    flags = [k == i for k in range(len(eqn.inputs))]
    try:
        return transpose_jaxpr(_alone(eqn), flags)[0]
    except JaxprToolError:
        return None


def is_linear_in(eqn: JaxprEqn, i: int) -> bool:
    """Whether an operation is linear in operand i, as far as it has a transpose."""
    return factors_of(eqn, i) is not None


def floats_of(eqn: JaxprEqn) -> list[int]:
    """The positions of the operands that are floating or complex."""
    dtypes = [getattr(x.aval, "dtype", None) for x in eqn.inputs]
    return [i for i, dtype in enumerate(dtypes) if dtype is not None and dtype.is_inexact]


def is_mixing(eqn: JaxprEqn, jaxpr: Jaxpr) -> bool:
    """Whether an operation multiplies elements of an operand by those of another one that lie elsewhere, and gives one result.

    jaxpr: the one that has it.
    """
    if is_elementwise(eqn.primitive) or eqn.primitive.holds_jaxprs or len(eqn.out_binders) != 1:
        return False
    floats = floats_of(eqn)
    if len(floats) < 2:
        return False
    return _MIXING.of(jaxpr, eqn, lambda: any(_has_factor(eqn, i, floats) for i in floats))


def _has_factor(eqn: JaxprEqn, i: int, floats: Sequence[int]) -> bool:
    factors = factors_of(eqn, i)
    return factors is not None and not factors.isdisjoint(floats)


_MIXING = MemoTable[bool]("which equations add up products")


def is_bilinear(eqn: JaxprEqn) -> bool:
    """Whether an operation is linear in each of two floating operands, by which it multiplies the other: no solve is."""
    floats = floats_of(eqn)
    if len(floats) != 2:
        return False
    i, k = floats
    return k in (factors_of(eqn, i) or ()) and i in (factors_of(eqn, k) or ())


def reaches(eqn: JaxprEqn, masks: Sequence[Any]) -> Any:
    """Which elements of the result multiply elements that two masks mark, of a bilinear operation: a boolean array.

    Args:
      eqn: the operation.
      masks: of each operand boolean values of its shape; of those that are not floating the values.
    """
    return _run(_alone(eqn), _of_types(masks, [x.aval for x in eqn.inputs]))


def read_by(eqn: JaxprEqn, i: int, ins: Sequence[Any], marked: Any) -> Any | None:
    """Which elements of operand i go into elements of the result, by factors that are not 0; None where that is not known.

    Args:
      eqn: an operation that is linear in operand i, with one result.
      i: the operand.
      ins: the values of the operands, of floating ones which elements are not 0.
      marked: which elements of the result.
    """
    made = _transposed(eqn, i)
    if made is None:
        return None
    others = [x for k, x in enumerate(ins) if k != i]
    return _run(made, _of_types([*others, marked], made.in_avals))


def _of_types(values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Values of these types: a boolean is 0 or 1."""
    xp, pairs = numpy_namespace(), zip(values, avals, strict=True)
    return [x.astype(xp.dtype_of_aval(a.dtype)) if a.dtype.is_inexact else x for x, a in pairs]


def _run(program: ClosedJaxpr, values: Sequence[Any]) -> Any:
    with observed_by(None), computed_by(None):
        return eval_jaxpr(program, values)[0] != 0


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
