"""PRNG keys as their words, and primitives that are defined by others.

An array of keys is held as its words, u32[..., n]. What moves keys about moves words: an operation on keys is the
operation vmapped over an axis of words at the end, and `TAKING_KEYS` makes the rules of its values out of
its batch rule.

Contract of a `keys` rule, for operations that take keys in this way:

    rule(out, dim, size) -> out

It gets a result of the batch rule, its axis of words (None: all are the same) and their number, and puts the words at the
end, or makes one result of them all. Its attribute `gives_keys` says whether that is an array of keys.

Makers: `MOVES_KEYS`, `compares_keys`; `decomposed` makes columns of primitives that are defined by others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.rule_table import Maker, RuleTable
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import batch_rules, materialize
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive

__all__ = [
    "MOVES_KEYS",
    "TAKING_KEYS",
    "OnKeys",
    "compares_keys",
    "decomposed",
    "key_rules",
    "lowered_as",
    "run_as",
]


key_rules = RuleTable("keys")


def decomposed(f: Callable[..., Any]) -> dict[str, Any]:
    """Columns impl and lower of a primitive that is defined by others.

    f(in_avals, *operands, **params), written with `lax`, returns the result, or a list of them; keys come
    and go as words, `in_avals` are the operands' types as they were.
    """
    return {"impl": run_as(f), "lower": lowered_as(f)}


def lowered_as(f: Callable[..., Any]) -> Callable[..., Any]:
    """The lower rule of a primitive that is f in terms of others: a call of a function."""
    name = f.__name__.strip("_")

    def rule(ctx: Any, *operands: Any, **params: Any) -> Any:
        closed = _staged(f, tuple([a.strong for a in ctx.in_avals]), _hashable(params))
        out = ctx.call(closed, operands, name)
        return out if ctx.eqn.primitive.multiple_results else out[0]

    return rule


def run_as(f: Callable[..., Any]) -> Maker:
    """The impl rule of a primitive that is f in terms of others."""
    return Maker(lambda op: _Impl(op, f))


def _hashable(params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Params as a key of a cache; lists of sizes become tuples."""
    return tuple([(k, tuple(v) if type(v) is list else v) for k, v in params.items()])


@functools.lru_cache(4096)
def _staged(
    f: Callable[..., Any], in_avals: tuple[Any, ...], params: tuple[tuple[str, Any], ...]
) -> ClosedJaxpr:
    """The jaxpr of f for operands of these types; the same object for the same types and params."""

    def flat(*xs: Any) -> Sequence[Any]:
        out = f(in_avals, *xs, **dict(params))
        return out if isinstance(out, (list, tuple)) else [out]

    return stage(flat, [a.physical for a in in_avals])


class _Impl:
    """The impl rule of a primitive that is f in terms of others: runs its jaxpr."""

    __slots__ = ("f", "op")

    def __init__(self, op: Any, f: Callable[..., Any]):
        self.op, self.f = op, f

    def __call__(self, xp: Any, *values: Any, **params: Any) -> Any:
        in_avals = [get_aval(v) for v in values]
        out_avals = abstract_eval(self.op.primitive, in_avals, params)
        return self.prepare(xp, in_avals, out_avals, params)(*values)

    def prepare(self, xp: Any, in_avals: Any, out_avals: Any, params: Any) -> Any:
        closed = _staged(self.f, tuple([a.strong for a in in_avals]), _hashable(params))
        return _on_words(xp, runner(closed), in_avals, out_avals)


def _on_words(xp: Any, run: Any, in_avals: Any, out_avals: Any) -> Callable[..., Any]:
    """A function of values from one of lists of values in which keys are words."""
    single = len(out_avals) == 1
    keys_in = any(a.dtype.kind == "k" for a in in_avals)
    key_out = single and out_avals[0].dtype.kind == "k"

    def call(*values: Any) -> Any:
        results = run([xp.words(v) for v in values] if keys_in else values)
        if not single:
            return results
        return xp.keys(results[0], out_avals[0].dtype) if key_out else results[0]

    return call


# -- operations on keys --------------------------------------------------------------------------


class OnKeys:
    """The `keys` rule of an operation that treats all words of a key alike.

    Attributes:
      finish: what the rule does.
      gives_keys: whether the results are keys.
    """

    __slots__ = ("finish", "gives_keys")

    def __init__(self, finish: Callable[[Any, int | None, int], Any], gives_keys: bool):
        self.finish, self.gives_keys = finish, gives_keys

    def __call__(self, out: Any, dim: int | None, size: int) -> Any:
        return self.finish(out, dim, size)


def _at_end(x: Any, dim: int | None, size: int) -> Any:
    return materialize(x, dim, size, get_aval(x).ndim - (dim is not None))


MOVES_KEYS = OnKeys(_at_end, True)


def compares_keys(reduce: Callable[..., Any]) -> OnKeys:
    """The `keys` rule of a comparison: `reduce` makes one result for a key of those for its words."""
    return OnKeys(lambda x, dim, size: reduce(x, axes=(dim,)), False)


@functools.lru_cache(4096)
def _moved(
    primitive: Primitive, in_avals: tuple[Any, ...], params: tuple[tuple[str, Any], ...]
) -> ClosedJaxpr:
    """The jaxpr of an operation on keys, in terms of their words."""
    size = next(a.dtype.bits // 32 for a in in_avals if a.dtype.kind == "k")
    dims = [a.ndim if a.dtype.kind == "k" else None for a in in_avals]

    def flat(*words: Any) -> Sequence[Any]:
        outs, out_dims = batch_rules[primitive](size, words, dims, **dict(params))
        if not primitive.multiple_results:
            outs, out_dims = [outs], [out_dims]
        finish = key_rules.rules[primitive]
        return [finish(x, d, size) for x, d in zip(outs, out_dims, strict=True)]

    return stage(flat, [a.physical for a in in_avals])


class _KeyImpl:
    """The impl rule of an operation that takes keys too."""

    __slots__ = ("plain", "primitive")

    def __init__(self, primitive: Primitive, plain: Any):
        self.primitive, self.plain = primitive, plain

    def __call__(self, xp: Any, *values: Any, **params: Any) -> Any:
        avals = [get_aval(v) for v in values]
        kind = next((a.dtype for a in avals if a.dtype.kind == "k"), None)
        if kind is None:
            return self.plain(xp, *values, **params)
        run = runner(_moved(self.primitive, tuple(avals), _hashable(params)))
        outs = run([xp.words(v) for v in values])
        on_keys: Any = key_rules.rules[self.primitive]
        if on_keys.gives_keys:
            outs = [xp.keys(x, kind) for x in outs]
        return outs if self.primitive.multiple_results else outs[0]

    def prepare(self, xp: Any, in_avals: Any, out_avals: Any, params: Any) -> Any:
        if any(a.dtype.kind == "k" for a in in_avals):
            return functools.partial(self, xp, **params)
        prepare = getattr(self.plain, "prepare", None)
        if prepare is not None:
            return prepare(xp, in_avals, out_avals, params)
        return functools.partial(self.plain, xp, **params)


def _key_lower(primitive: Primitive, plain: Any) -> Callable[..., Any]:
    """The lower rule of an operation that takes keys too."""

    def rule(ctx: Any, *operands: Any, **params: Any) -> Any:
        for a in ctx.in_avals:
            if a.dtype.kind == "k":
                closed = _moved(primitive, tuple(x.strong for x in ctx.in_avals), _hashable(params))
                outs = ctx.inline(closed, operands)
                return outs if primitive.multiple_results else outs[0]
        return plain(ctx, *operands, **params)

    return rule


# (primitive, the rule for other elements) -> the rule of an operation that takes keys too, by column.
TAKING_KEYS: dict[str, Callable[[Primitive, Any], Any]] = {"impl": _KeyImpl, "lower": _key_lower}
