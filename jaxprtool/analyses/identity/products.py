"""Products: operations that multiply an operand by others, as their transposes tell.

The transpose of `x * y` in x multiplies a cotangent by y. That of `x + y`, and that of a choice
between the two, does not read y.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
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
    "is_full",
    "is_linear_in",
    "is_mixing",
    "is_product",
    "read_by",
    "reaches",
]


class _Operation:
    """An equation by itself, with facts that follow from its primitive, its params and its types; they are computed when asked for.

    Attributes:
      program: the equation as a program whose arguments are its operands.
    """

    __slots__ = ("_factors", "_fills", "_transposes", "program")

    def __init__(self, eqn: JaxprEqn):
        binders, outs = [Var(x.aval) for x in eqn.inputs], [Var(v.aval) for v in eqn.out_binders]
        alone = eqn.replace(inputs=binders, out_binders=outs)
        self.program = ClosedJaxpr(Jaxpr(binders, [alone], outs, []), [])
        self._transposes: dict[int, ClosedJaxpr | None] = {}
        self._factors: dict[int, frozenset[int] | None] = {}
        self._fills: bool | None = None

    def transposed(self, i: int) -> ClosedJaxpr | None:
        """Return the transpose in operand i, a function of the other operands and the cotangents; None where there is none."""
        if i not in self._transposes:
            flags = [k == i for k in range(len(self.program.jaxpr.in_binders))]
            made = None
            with suppress(JaxprToolError):
                made = transpose_jaxpr(self.program, flags)[0]
            self._transposes[i] = made
        return self._transposes[i]

    def factors(self, i: int) -> frozenset[int] | None:
        """As `factors_of`."""
        if i not in self._factors:
            made, found = self.transposed(i), None
            if made is not None:
                others = [k for k in range(len(self.program.jaxpr.in_binders)) if k != i]
                read = {x for e in made.eqns for x in e.inputs}
                pairs = zip(others, made.jaxpr.in_binders, strict=False)  # the cotangents follow
                found = frozenset(k for k, v in pairs if v in read)
            self._factors[i] = found
        return self._factors[i]

    def fills(self) -> bool:
        """As `is_full`."""
        if self._fills is None:
            avals, xp = self.program.in_avals, numpy_namespace()
            ones = [xp.ones(a.shape, xp.dtype_of_aval(a.dtype)) for a in avals]
            self._fills = bool(_run(self.program, ones).all())
        return self._fills


def _operation(eqn: JaxprEqn) -> _Operation:
    """Return an equation by itself; its facts are kept for other equations like it."""
    if eqn.primitive.holds_jaxprs:
        return _Operation(eqn)
    ins, outs = [x.aval for x in eqn.inputs], [v.aval for v in eqn.out_binders]
    key = eqn.primitive, (*ins, None, *outs), (*eqn.params.items(),)
    try:
        found = _OPERATIONS.get(key)
    except TypeError:  # what a param holds has no hash
        return _Operation(eqn)
    if found is None:
        if len(_OPERATIONS) >= _MOST:
            _OPERATIONS.clear()
        found = _OPERATIONS[key] = _Operation(eqn)
    return found


_MOST = 1_000  # operations whose facts are kept
_OPERATIONS: dict[Any, _Operation] = {}


def factors_of(eqn: JaxprEqn, i: int) -> frozenset[int] | None:
    """Return the positions of the operands by which an operation multiplies operand i; None where it is not linear in that.

    An operand that decides how operand i is taken (a predicate, an index) is among them.
    """
    return _operation(eqn).factors(i)


def is_linear_in(eqn: JaxprEqn, i: int) -> bool:
    """Whether an operation is linear in operand i and has a transpose in it."""
    return factors_of(eqn, i) is not None


def floats_of(eqn: JaxprEqn) -> list[int]:
    """Return the positions of the operands that are floating or complex."""
    dtypes = [getattr(x.aval, "dtype", None) for x in eqn.inputs]
    return [i for i, dtype in enumerate(dtypes) if dtype is not None and dtype.is_inexact]


def is_mixing(eqn: JaxprEqn, jaxpr: Jaxpr) -> bool:
    """Whether an operation multiplies elements of one operand by elements of another at other indices, as a product of matrices does.

    Only operations with one result count. jaxpr: the one that holds the equation.
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
    """Whether an operation has two floating operands, is linear in each, and multiplies one by the other; a solve does not."""
    floats = floats_of(eqn)
    if len(floats) != 2:
        return False
    i, k = floats
    return k in (factors_of(eqn, i) or ()) and i in (factors_of(eqn, k) or ())


def is_full(eqn: JaxprEqn) -> bool:
    """Whether every element of the result of a bilinear operation, all of whose operands are floating, adds up at least one product."""
    return len(floats_of(eqn)) == len(eqn.inputs) and _operation(eqn).fills()


def reaches(eqn: JaxprEqn, masks: Sequence[Any]) -> Any:
    """Return which elements of a bilinear operation's result multiply elements that two masks mark: a boolean array.

    Args:
      eqn: the operation.
      masks: for each floating operand boolean values of its shape; for others their values.
    """
    return _run(_operation(eqn).program, _of_types(masks, [x.aval for x in eqn.inputs]))


def read_by(eqn: JaxprEqn, i: int, ins: Sequence[Any], marked: Any) -> Any | None:
    """Return which elements of operand i go into marked elements of the result, by factors that are not 0; None where nobody knows.

    Args:
      eqn: an operation that is linear in operand i, with one result.
      i: the position of the operand.
      ins: the operands: for floating ones which elements are not 0, for others their values.
      marked: which elements of the result.
    """
    made = _operation(eqn).transposed(i)
    if made is None:
        return None
    others = [x for k, x in enumerate(ins) if k != i]
    return _run(made, _of_types([*others, marked], made.in_avals))


def _of_types(values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Convert booleans to 0 and 1 of floating types; other values stay."""
    xp, pairs = numpy_namespace(), zip(values, avals, strict=True)
    return [x.astype(xp.dtype_of_aval(a.dtype)) if a.dtype.is_inexact else x for x, a in pairs]


def _run(program: ClosedJaxpr, values: Sequence[Any]) -> Any:
    with observed_by(None), computed_by(None):
        return eval_jaxpr(program, values)[0] != 0


def is_product(eqn: JaxprEqn) -> bool:
    """Whether an elementwise operation of two operands, without params that are set, multiplies one by a function of the other."""
    is_plain = all(value is None for value in eqn.params.values())
    return len(eqn.inputs) == 2 and is_plain and _multiplies(eqn.primitive, tuple(eqn.params))


@cache
def _multiplies(primitive: Primitive, params: tuple[str, ...]) -> bool:
    inputs: Sequence[Any] = [Var(_SCALAR), Var(_SCALAR)]
    eqn = JaxprEqn(primitive, inputs, dict.fromkeys(params), [Var(_SCALAR)])
    return any(factors_of(eqn, i) for i in range(2))


_SCALAR = ShapedArray((), FLOAT32)
