"""Operations that take PRNG keys as well as numbers: `MOVES_KEYS`, `compares_keys`, and the makers of their rules.

`TAKING_KEYS` makes `impl` and `lower` rules for keys from the batch rule, which is applied along
the axis of their words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import batch_rules, materialize
from jaxprtool.interpreters.columns.keys import key_rules
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.lower import LoweringContext
from jaxprtool.interpreters.stage import stage_shared
from jaxprtool.ir.exact_keys import HashableParams
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Primitive, Value
from jaxprtool.ir.params import ParamValue

__all__ = ["MOVES_KEYS", "TAKING_KEYS", "OnKeys", "compares_keys"]


class OnKeys:
    """The `keys` rule of an operation that treats all words of a key alike.

    Attributes:
      finish: the function that the rule calls.
      gives_keys: whether the results are keys.
    """

    __slots__ = ("finish", "gives_keys")

    def __init__(self, finish: Callable[[Value, int | None, int], Value], gives_keys: bool):
        self.finish, self.gives_keys = finish, gives_keys

    def __call__(self, out: Value, dim: int | None, size: int) -> Value:
        return self.finish(out, dim, size)


def _at_end(x: Value, dim: int | None, size: int) -> Value:
    return materialize(x, dim, size, get_aval(x).ndim - (dim is not None))


MOVES_KEYS = OnKeys(_at_end, True)


def compares_keys(reduce: Callable[..., Value]) -> OnKeys:
    """Return the `keys` rule of a comparison: `reduce` combines the results for the words of a key into one."""
    return OnKeys(lambda x, dim, size: reduce(x, axes=(dim,)), False)


@functools.lru_cache(4096)
def _moved(primitive: Primitive, in_avals: tuple[Aval, ...], params: HashableParams) -> ClosedJaxpr:
    """Return the jaxpr of an operation on keys, written for their words."""
    size = next(a.dtype.bits // 32 for a in in_avals if a.dtype.kind == "k")
    dims = [a.ndim if a.dtype.kind == "k" else None for a in in_avals]

    def flat(*words: Value) -> Sequence[Value]:
        outs, out_dims = batch_rules[primitive](size, words, dims, **params.items)
        if not primitive.multiple_results:
            outs, out_dims = [outs], [out_dims]
        finish = key_rules.rules[primitive]
        return [finish(x, d, size) for x, d in zip(outs, out_dims, strict=True)]

    return stage_shared(flat, [a.physical for a in in_avals])


class _KeyImpl:
    """The impl rule of an operation that takes keys too."""

    __slots__ = ("plain", "primitive")

    def __init__(self, primitive: Primitive, plain: Any):
        self.primitive, self.plain = primitive, plain

    def __call__(self, xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        avals = [get_aval(v) for v in values]
        kind = next((a.dtype for a in avals if a.dtype.kind == "k"), None)
        if kind is None:
            return self.plain(xp, *values, **params)
        run = runner(_moved(self.primitive, tuple(avals), HashableParams(params)))
        outs = run([xp.words(v) for v in values])
        on_keys: Any = key_rules.rules[self.primitive]
        if on_keys.gives_keys:
            outs = [xp.keys(x, kind) for x in outs]
        return outs if self.primitive.multiple_results else outs[0]

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        if any(a.dtype.kind == "k" for a in in_avals):
            return functools.partial(self, xp, **params)
        prepare = getattr(self.plain, "prepare", None)
        if prepare is not None:
            return prepare(xp, in_avals, out_avals, params)
        return functools.partial(self.plain, xp, **params)


def _key_lower(primitive: Primitive, plain: Any) -> Callable[..., Value]:
    """The lower rule of an operation that takes keys too."""

    def rule(ctx: LoweringContext, *operands: Value, **params: Any) -> Value:
        for x in ctx.eqn.inputs:
            if x.aval.dtype.kind == "k":
                closed = _moved(
                    primitive, tuple(x.strong for x in ctx.in_avals), HashableParams(params)
                )
                outs = ctx.inline(closed, operands)
                return outs if primitive.multiple_results else outs[0]
        return plain(ctx, *operands, **params)

    return rule


# Column -> function of (primitive, the rule for other elements) that returns the rule of an operation on keys too.
TAKING_KEYS: dict[str, Callable[[Primitive, Any], Any]] = {"impl": _KeyImpl, "lower": _key_lower}
