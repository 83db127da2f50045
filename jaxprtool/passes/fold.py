"""fold: compute now what depends only on constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxprtool.interpreters.evaluate import bind_eqn, impl_rules
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, Lit
from jaxprtool.passes.bodies import NewBody, in_each_body, is_pure
from jaxprtool.passes.registry import define_pass

__all__ = ["fold", "literal_of"]

_NUMBER: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int, "f": float}


@define_pass("fold", "bits types no-more-equations idempotent linear-time", {"limit": 0})
def fold(program: ClosedJaxpr, *, limit: int = 1024) -> ClosedJaxpr:
    """Compute equations of constants and literals, on NumPy, where results have at most limit elements, and no more than the operands.

    So a broadcast of a literal stays. What draws random numbers of a key is computed where the key is a constant; what has
    effects is not. The results are those of `run` on NumPy: XLA's exp, tanh and their like may differ from them in the last digits.
    """
    return in_each_body(program, lambda closed: _folded(closed, limit))


def _folded(closed: ClosedJaxpr, limit: int) -> ClosedJaxpr:
    body = NewBody(closed)
    pairs = zip(closed.jaxpr.const_binders, closed.consts, strict=True)
    known: dict[Any, Any] = {v: c for v, c in pairs if hasattr(c, "tobytes")}
    for old in closed.eqns:
        eqn = body.renamed(old)
        outs = _computed(eqn, known, limit)
        if outs is None:
            body.add(eqn)
            continue
        body.drop()
        for v, x in zip(eqn.out_binders, outs, strict=True):
            if isinstance(v, DropVar):
                continue
            new = literal_of(x, v.aval)
            if new is None:
                new = body.constant(x, v.aval)
                known[new] = x
            body.put_instead(v, new)
    return body.result()


def _computed(eqn: JaxprEqn, known: Mapping[Any, Any], limit: int) -> Sequence[Any] | None:
    """Return the results of an equation of constants; None where they may not replace it."""
    if not eqn.inputs or eqn.primitive not in impl_rules or not is_pure(eqn):
        return None
    if not all(type(x) is Lit or x in known for x in eqn.inputs):
        return None
    avals = [v.aval for v in eqn.out_binders]
    if not all(map(_is_plain, [*avals, *(x.aval for x in eqn.inputs)])):
        return None
    if max(a.size for a in avals) > min(limit, sum(x.aval.size for x in eqn.inputs)):
        return None
    try:
        outs = bind_eqn(eqn, [x if type(x) is Lit else known[x] for x in eqn.inputs])
    except JaxprToolError:  # the operation is refused, or has no value on NumPy
        return None
    return outs if all(map(_has_type, outs, avals)) else None


def literal_of(x: Any, aval: Any) -> Lit | None:
    """Return a literal for a constant; None for one that is no scalar, or that no literal holds to the bit."""
    if not hasattr(x, "tobytes") or not _is_plain(aval) or aval.shape:
        return None
    return Lit(_NUMBER[aval.dtype.kind](x), aval)


def _is_plain(aval: Any) -> bool:
    """Whether values of a type are arrays of numbers that a literal can hold to the bit."""
    return (
        isinstance(aval, ShapedArray)
        and isinstance(aval.dtype, DType)
        and aval.dtype.kind in _NUMBER
    )


def _has_type(x: Any, aval: Any) -> bool:
    return hasattr(x, "tobytes") and x.shape == aval.shape and str(x.dtype) == aval.dtype.name
