"""Columns of primitives that are defined in terms of other primitives: `decomposed` makes `impl`
and `lower` from one function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.evaluate import runner
from jaxprtool.interpreters.lower import LoweringContext
from jaxprtool.interpreters.stage import stage_shared
from jaxprtool.ir.exact_keys import HashableParams
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import with_varying

__all__ = ["decomposed", "expansion", "function_of", "lowered_as", "run_as"]


def decomposed(f: Callable[..., Value]) -> dict[str, Any]:
    """Return the columns impl and lower of a primitive that is defined by others.

    Args:
      f: f(in_avals, *operands, **params), written with `lax`, returns the result, or a list of
        results. Operands and results that are PRNG keys are given as words; `in_avals` are the
        types of the operands as keys.
    """
    return {"impl": run_as(f), "lower": lowered_as(f)}


def lowered_as(f: Callable[..., Any]) -> Callable[..., Value]:
    """Return the lower rule of a primitive that `f` defines by others: a call of a function."""
    name = f.__name__.strip("_")

    def rule(ctx: LoweringContext, *operands: Value, **params: Any) -> Value:
        closed = _staged(f, tuple([a.strong for a in ctx.in_avals]), HashableParams(params))
        out = ctx.call(closed, operands, name)
        return out if ctx.eqn.primitive.multiple_results else out[0]

    return rule


def run_as(f: Callable[..., Value]) -> Maker:
    """Return the impl rule of a primitive that `f` defines by others."""
    return Maker(lambda op: _Impl(op, f))


def expansion(
    impl: Value, in_avals: Sequence[Aval], params: dict[str, ParamValue]
) -> ClosedJaxpr | None:
    """Return the jaxpr of other primitives by which an impl rule computes, with keys as words.

    None for a rule that `run_as` did not make.
    """
    if not isinstance(impl, _Impl):
        return None
    return _staged(impl.f, tuple([a.strong for a in in_avals]), HashableParams(params))


def function_of(impl: Value) -> Callable[..., Value] | None:
    """Return the function (types of operands, *operands, **params) by which an impl rule computes.

    None for a rule that `run_as` did not make.
    """
    return impl.f if isinstance(impl, _Impl) else None


@functools.lru_cache(4096)
def _staged(
    f: Callable[..., Value], in_avals: tuple[Aval, ...], params: HashableParams
) -> ClosedJaxpr:
    """Return the jaxpr of f for operands of these types; the same object for the same types and params.

    The types in it have no varying axes: each device runs it alone.
    """
    in_avals = tuple([with_varying(a, ()) for a in in_avals])

    def flat(*xs: Value) -> Sequence[Value]:
        out = f(in_avals, *xs, **params.items)
        return out if isinstance(out, (list, tuple)) else [out]

    return stage_shared(flat, [a.physical for a in in_avals])


class _Impl:
    """The impl rule of a primitive that `f` defines by others: runs the jaxpr of f."""

    __slots__ = ("f", "op")

    def __init__(self, op: Any, f: Callable[..., Value]):
        self.op, self.f = op, f

    def __call__(self, xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        in_avals = [get_aval(v) for v in values]
        out_avals = abstract_eval(self.op.primitive, in_avals, params)
        return self.prepare(xp, in_avals, out_avals, params)(*values)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        closed = _staged(self.f, tuple([a.strong for a in in_avals]), HashableParams(params))
        run = _on_words(xp, runner(closed), in_avals, out_avals)
        if not self.op.primitive.multiple_results or len(out_avals) != 1:
            return run
        return lambda *values: [run(*values)]


def _on_words(
    xp: Namespace, run: Any, in_avals: Sequence[Aval], out_avals: Sequence[Aval]
) -> Callable[..., Value]:
    """Return a function of values, given a function of lists of values in which keys are words."""
    single = len(out_avals) == 1
    keys_in = any(a.dtype.kind == "k" for a in in_avals)
    key_out = single and out_avals[0].dtype.kind == "k"

    def call(*values: Value) -> Value:
        results = run([xp.words(v) for v in values] if keys_in else values)
        if not single:
            return results
        return xp.keys(results[0], out_avals[0].dtype) if key_out else results[0]

    return call
