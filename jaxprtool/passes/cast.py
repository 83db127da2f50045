"""cast: compute in a narrower type, where nothing is summed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.evaluate import bind_eqn
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns
from jaxprtool.passes.bodies import NewBody, in_each_body, is_pure
from jaxprtool.passes.names import warn_of_unknown
from jaxprtool.passes.registry import define_pass

__all__ = ["cast"]

# Modules of operations that compute each element of their result from single elements of their operands.
_ELEMENTWISE = frozenset({"binary", "exponential", "trigonometric", "unary"})
# Operations that multiply in the type of their operands and sum up in that of their result.
_SUMMING = ("dot_general", "conv_general_dilated")


def _look_for_scope(program: ClosedJaxpr, scope: str) -> None:
    """Warn if no operation has this text in its scopes or line of Python."""
    eqns = [*all_eqns(program.jaxpr)]
    if not any(_is_in(eqn, scope) for eqn in eqns):
        known = [name for eqn in eqns if eqn.origin is not None for name in eqn.origin.names or ()]
        warn_of_unknown("scope", scope, known)


@define_pass("cast", "types", names={"scope": _look_for_scope})
def cast(program: ClosedJaxpr, *, types: str = "f32->bf16", scope: str = "") -> ClosedJaxpr:
    """Do arithmetic on single elements in another float type; products of matrices and convolutions take it, and sum up as before.

    Reductions, cumulative sums and what loops carry stay as they are, and so do arguments and results. types: from->to; scope: only
    operations with this text in their scopes or line of Python. `simplify` after it leaves out conversions there and back.
    """
    old, new = _types(types)
    return in_each_body(program, lambda closed: _cast(closed, old, new, scope))


def _types(text: str) -> tuple[DType, DType]:
    names = text.split("->")
    found = [find_dtype(name.strip()) for name in names]
    if len(found) != 2 or any(d is None or d.kind != "f" for d in found):
        help = "write `cast f32->bf16`"
        fail(UsageError, f"cast: {text!r} names no two float types", "bad-value", help=help)
    if found[0] is found[1]:
        fail(UsageError, f"cast: {text!r} changes no type", "bad-value", help="write two types")
    return found[0], found[1]  # type: ignore[return-value]


def _cast(closed: ClosedJaxpr, old: DType, new: DType, scope: str) -> ClosedJaxpr:
    body = NewBody(closed)
    for e in closed.eqns:
        eqn = body.renamed(e)
        function = _cast_equation(eqn, old, new) if _is_in(eqn, scope) else None
        if function is None or not _put(body, eqn, function):
            body.add(eqn)
    return body.result()


def _put(body: NewBody, eqn: JaxprEqn, function: Callable[..., Any]) -> bool:
    try:
        return body.put(eqn, function, tuple(eqn.inputs))
    except JaxprToolError:  # the operation does not take the type
        return False


def _is_in(eqn: JaxprEqn, scope: str) -> bool:
    """Whether a scope of an equation, or its line of Python, contains a text."""
    origin = eqn.origin
    if not scope or origin is None:
        return not scope
    return any(scope in text for text in (*(origin.names or ()), str(origin.frame or "")))


def _cast_equation(eqn: JaxprEqn, old: DType, new: DType) -> Callable[..., Any] | None:
    """Return a function of its operands that computes an equation in the new type; None where the equation stays."""
    if len(eqn.out_binders) != 1 or not is_pure(eqn):
        return None
    avals = [x.aval for x in (*eqn.inputs, *eqn.out_binders)]
    if not all(isinstance(a, ShapedArray) and a.dtype is old for a in avals):
        return None
    if eqn.primitive.name in _SUMMING:
        wide = eqn.replace(params={**eqn.params, "preferred_element_type": old})
        return lambda *xs: bind_eqn(wide, [_converted(x, new) for x in xs])[0]
    stub = eqn.primitive.stub
    if stub is None or stub.__module__.rpartition(".")[2] not in _ELEMENTWISE:
        return None
    return lambda *xs: _converted(bind_eqn(eqn, [_converted(x, new) for x in xs])[0], old)


def _converted(x: Any, dtype: DType) -> Any:
    return lax.convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)
