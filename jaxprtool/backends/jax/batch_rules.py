"""Batching rules of primitives that only this process knows, where they differ from batching the implementation.

A program in which primitives are expanded into their implementations is batched through these.
JAX's rule of a primitive may do something else: a reduction that includes the batch in a count, a
choice that is made only for batches. So both are traced for batches and compared: first as jaxprs,
and where these differ, by their values on samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.jax.foreign import Known
from jaxprtool.backends.jax.live import LiveOpaque, LivePrimitive, Named
from jaxprtool.backends.jax.private import has_batch_rule
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.interpreters.evaluate import eval_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import all_eqns

__all__ = ["rule_of"]

_SIZE = 3  # examples in a batch that is compared
_MOST = 4  # operands up to which each is batched alone, too

Expand = Callable[[ClosedJaxpr], ClosedJaxpr]


class LivePrimitiveRule(LiveOpaque):
    """JAX's batching rule of a primitive, for some params; a text only holds its name.

    Attributes:
      primitive: our primitive, with its rules.
      params: the params of its equation.
    """

    __slots__ = ("params", "primitive")
    primitive: LivePrimitive
    params: dict[str, Any]

    def __init__(self, text: str, primitive: LivePrimitive, params: dict[str, Any]):
        super().__init__(text, Named(lambda *_: NotImplemented, text))
        amend(self, primitive=primitive, params=params)

    def __reduce__(self) -> tuple[Any, ...]:
        return LivePrimitiveRule, (self.text, self.primitive, self.params)

    def batched(
        self, axis_size: int, in_batched: Sequence[bool], avals: Sequence[Any]
    ) -> tuple[ClosedJaxpr, list[bool]]:
        """Return the function of batched arguments by the rule, and for each result whether it is batched."""
        dims = [0 if b else None for b in in_batched]
        program, out_dims = self.primitive.rules.batch_program(axis_size, dims, avals, self.params)
        return program, [d is not None for d in out_dims]


def rule_of(eqn: JaxprEqn, body: ClosedJaxpr, known: Known, expand: Expand) -> dict[str, Any]:
    """Return params of a `custom_vmap_call` with JAX's batching rule of a primitive.

    Args:
      eqn: the primitive's equation.
      body: the implementation.
      known: operands whose values are known, which are not batched.
      expand: expands a program, without derivative rules.

    Returns:
      The params, except for the call; none where the rule agrees with batching the implementation.
        Where this could not be determined, `batched_by` is "".
    """
    primitive = eqn.primitive
    assert isinstance(primitive, LivePrimitive)
    if not has_batch_rule(primitive.value):
        return {}
    avals = [x.aval.strong for x in eqn.inputs]
    answers: set[bool | None] = set()
    for dims in _patterns(len(avals), known):
        try:
            pair = primitive.rules.batched_pair(_SIZE, dims, avals, eqn.params, body, known)
        except JaxprToolError:  # JAX does not batch it so
            continue
        one, other = map(expand, pair)
        if dims == [None if i in known else 0 for i in range(len(avals))] and _equal(one, other):
            return {}  # the rule is to batch the implementation
        answers.add(_agree(one, other))
    if answers <= {True}:
        return {}
    name = primitive.name
    rule = LivePrimitiveRule(f"<batching rule of {name}>", primitive, dict(eqn.params))
    return {"rule": rule, "batched_by": name if False in answers else ""}


def _patterns(n: int, known: Known) -> Iterator[list[int | None]]:
    """Yield the batch axes of operands to try: all of them batched, then each alone."""
    free = [i for i in range(n) if i not in known]
    if free:
        yield [None if i in known else 0 for i in range(n)]
    if 1 < len(free) <= _MOST:
        for k in free:
            yield [0 if i == k else None for i in range(n)]


def _agree(one: ClosedJaxpr, other: ClosedJaxpr) -> bool | None:
    """Whether two programs compute the same; None where this cannot be determined."""
    if _equal(one, other):
        return True
    if any(
        "callback" in e.params or not e.primitive.known
        for p in (one, other)
        for e in all_eqns(p.jaxpr)
    ):
        return None
    try:
        given = [[_sample(a, i, k) for i, a in enumerate(one.in_avals)] for k in (0, 1)]
        pairs = [(eval_jaxpr(one, xs), eval_jaxpr(other, xs)) for xs in given]
    except (JaxprToolError, TypeError, ValueError):
        return None
    return all(_close(a, b) for found in pairs for a, b in zip(*found, strict=True))


def _equal(one: ClosedJaxpr, other: ClosedJaxpr) -> bool:
    """Whether two programs are equal, equation for equation."""
    return str(_opened(one)) == str(_opened(other))


def _opened(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr that a program calls, where it consists of one call of all its arguments, in order."""
    jaxpr = program.jaxpr
    while len(jaxpr.eqns) == 1 and not jaxpr.const_binders:
        (eqn,) = jaxpr.eqns
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        passes = [*eqn.inputs] == [*jaxpr.in_binders] and [*eqn.out_binders] == [*jaxpr.outs]
        if not passes or not isinstance(inner, ClosedJaxpr) or eqn.primitive.name not in _CALLS:
            break
        program, jaxpr = inner, inner.jaxpr
    return program.replace(interface=None)


_CALLS = ("jit", "custom_jvp_call", "custom_vmap_call")


def _sample(aval: Any, i: int, k: int) -> np.ndarray:
    """Return random values of a type, which differ between examples of a batch."""
    rng = np.random.default_rng([i, k])
    drawn = rng.standard_normal(aval.shape)
    if aval.dtype.kind == "b":
        return np.asarray(drawn > 0)
    if aval.dtype.kind in "iu":
        drawn = rng.integers(0, 3, aval.shape)
    return np.asarray(drawn, np_dtype(aval.dtype))


def _close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=1e-2, atol=1e-3, equal_nan=True))
