"""Reductions by a jaxpr of two scalars, or of two tuples of them: (accumulated, new) -> accumulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.observe import runs_as
from jaxprtool.interpreters.jvp import Zero, jvp_jaxpr
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.memo import Memo

__all__ = [
    "check_initials",
    "check_reducer",
    "no_initial_tangents",
    "reducer_jvp",
    "vectorized",
    "with_consts",
]


# -- types -----------------------------------------------------------------------------------------


def with_consts(closed: ClosedJaxpr, consts: Sequence[Value]) -> ClosedJaxpr:
    """Return a reducer with the values of its constants, which some primitives keep in a param of their own.

    Python scalars, as in a text, become arrays of the types that the reducer declares for them.
    """
    if not consts:
        return closed
    value, binders = numpy_namespace().value, closed.jaxpr.const_binders
    typed = [c if c is None else value(c, v.aval) for c, v in zip(consts, binders, strict=True)]
    return ClosedJaxpr(closed.jaxpr, typed)


def check_reducer(
    name: str,
    param: str,
    closed: ClosedJaxpr,
    ins: Sequence[Value],
    outs: Sequence[Value],
    consts: Sequence[Value] = (),
) -> None:
    """Reject a param that is not a jaxpr of these scalar types, or whose constants do not have the types of these values."""
    if not isinstance(closed, ClosedJaxpr):
        ill_typed(f"{name}: the param {param} is not a jaxpr: {closed}", "bad-param")
    given = [a.strong for a in closed.in_avals], [a.strong for a in closed.out_avals]
    wanted = [a.strong for a in ins], [a.strong for a in outs]
    for what, have, need in zip(("takes", "gives"), given, wanted, strict=True):
        if have != need:
            ill_typed(
                f"{name}: the jaxpr of {param} {what} ({_types(have)}), and ({_types(need)}) is needed",
                "reducer-type",
            )
    binders = closed.jaxpr.const_binders
    fits = all(_is_value(c, v.aval) for c, v in zip(consts, binders, strict=False))
    if len(consts) not in (0, len(binders)) or not fits:
        ill_typed(
            f"{name}: {param.replace('jaxpr', 'consts')} is {tuple(consts)}, and the constants of {param} "
            f"are ({_types([v.aval for v in binders])})",
            "reducer-constants",
        )


_KINDS = {bool: "b", int: "iufc", float: "fc", complex: "c"}  # of element types that hold a scalar


def _is_value(x: Value, aval: Aval) -> bool:
    """Whether an object is a value of a type. None stands for a value that is not in the text."""
    if type(x) in _KINDS:
        kinds = _KINDS[type(x)]
        holds = aval.dtype.kind not in "iu" or aval.dtype.holds(x)
        return not aval.shape and aval.dtype.kind in kinds and holds
    return x is None or (hasattr(x, "dtype") and get_aval(x) is aval.strong)


def _types(avals: Sequence[Aval]) -> str:
    return ", ".join(map(str, avals))


def check_initials(name: str, avals: Sequence[Aval]) -> tuple[list[Value], list[Value]]:
    """Split the operands into arrays and initial values; raise a type error when they do not pair up."""
    if not avals or len(avals) % 2:
        ill_typed(f"{name} takes operands and as many initial values: ({_types(avals)})")
    operands, initials = list(avals[: len(avals) // 2]), list(avals[len(avals) // 2 :])
    for x, i in zip(operands, initials, strict=True):
        if i.shape or i.dtype is not x.dtype:
            ill_typed(f"{name} needs an initial value {x.dtype}[] for {x}, and {i} is given")
        if x.shape != operands[0].shape:
            ill_typed(
                f"{name} needs operands of one shape, got {_types(operands)}", "operand-shapes"
            )
    return operands, initials


# -- evaluation ------------------------------------------------------------------------------------


def vectorized(
    xp: Namespace, closed: ClosedJaxpr, shape: tuple[int, ...], *, counts: bool = True
) -> Callable[..., list[Value]]:
    """Return a jaxpr of scalars as a function of arrays of a shape, element by element.

    counts: whether an observer sees the vectorized jaxpr in the place of the jaxpr; False where a
    rule computes it besides what the program computes.
    """
    n, scalar = len(closed.jaxpr.in_binders), closed.jaxpr
    for size in reversed(shape):
        closed, _ = vmap_jaxpr(closed, size, [0] * n, 0)
        if counts:
            runs_as(scalar, closed.jaxpr)
    return lambda *values: xp.run(closed, values)


# -- derivatives -----------------------------------------------------------------------------------


def no_initial_tangents(name: str, tangents: Sequence[Value]) -> None:
    """Refuse to differentiate by an initial value, as JAX does."""
    if any(type(t) is not Zero for t in tangents):
        fail(
            UnsupportedError,
            f"{name} has no derivative by its initial values",
            "no-jvp-rule",
            help="add the initial value to the result instead",
        )


def reducer_jvp(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[bool]]:
    """Return the reducer of values and tangents together, and for each value whether it has a tangent.

    closed: (a, b) -> a; the result: (a, ta, b, tb) -> (a, ta), tangents of inexact values only.
    """
    return _REDUCER_JVP.of(closed, lambda: _reducer_jvp(closed))


_REDUCER_JVP = Memo[tuple[ClosedJaxpr, list[bool]]]("jvp of a reducer")


def _reducer_jvp(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[bool]]:
    avals = [a.strong for a in closed.out_avals]
    inexact = [a.dtype.is_inexact for a in avals]
    derivative, _ = jvp_jaxpr(closed, inexact * 2, instantiate_outs=inexact)
    tangents = [a for a, f in zip(avals, inexact, strict=True) if f]
    half, n = [*avals, *tangents], len(avals)

    def both(*xs: Value) -> list[Value]:
        left, right = xs[: len(half)], xs[len(half) :]
        args = [*left[:n], *right[:n], *left[n:], *right[n:]]
        return apply_jaxpr(derivative, args)

    return stage(both, [*half, *half]), inexact
