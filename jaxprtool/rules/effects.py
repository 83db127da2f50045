"""Rows of printing, callbacks, tokens and checks.

The function of a callback is not in the text of a program. It only exists in the process that
traced the program, where the param `callback` holds it. Without it, calls without results
(`debug_callback`) are skipped with a warning; others raise an error when they are evaluated.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxprtool import ops as lax
from jaxprtool.core.axes import are_devices
from jaxprtool.core.kinds.enums import DEBUG_EFFECT
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, one_by_one
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.state_values import Token
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.ir.avals import AbstractToken, AbstractType
from jaxprtool.ir.diagnostics import (
    Diagnostic,
    JaxprToolError,
    UnsupportedError,
    UsageError,
    fail,
)
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.ir.spans import Span
from jaxprtool.ir.walk import all_eqns
from jaxprtool.makers.call_types import check_leaves
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.rules.formats import format_fields, print_options

__all__ = ["CallbackWarning", "absent_function", "calls_absent", "refuse_absent"]


class CallbackWarning(UserWarning):
    """A Python function that a program calls is not in its text, so it is not called."""


# -- output ------------------------------------------------------------------------------------


def _output_jvp(op: Any) -> Callable[..., Value]:
    """Apply the operation to the primals, and not to the tangents."""
    return lambda primals, tangents, **params: (op(*primals, **params), [])


def _output_batch(op: Any) -> Callable[..., Value]:
    """Apply the operation to each example by itself, in order."""

    def rule(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
    ) -> OutAndDim:
        for i in range(axis_size):
            op(*[_example(x, d, i) for x, d in zip(vals, dims, strict=True)], **params)
        return [], []

    return rule


def _example(x: Value, dim: int | None, i: int) -> Value:
    if dim is None:
        return x
    shape = get_aval(x).shape
    starts = tuple(i if k == dim else 0 for k in range(len(shape)))
    limits = tuple(i + 1 if k == dim else n for k, n in enumerate(shape))
    part = lax.slice(x, start_indices=starts, limit_indices=limits)
    return lax.squeeze(part, dimensions=(dim,))


def _stopping(op: Any) -> dict[str, Any]:
    """Return the columns of a primitive without results that may stop the program with an error."""

    def batch(
        axis_size: int, vals: Any, dims: Any, **params: ParamValue
    ) -> tuple[Value, list[Any]]:
        return op(*vals, **params), []

    return {
        "jvp": _output_jvp(op),
        "transpose": _output_transpose,
        "batch": batch,
        "cost": FREE,
    }


def _output_transpose(cts: Sequence[Value], *operands: Value, **_: ParamValue) -> list[Value]:
    return [None] * len(operands)


def _print(
    xp: Namespace, *values: Value, fmt: str, in_tree: ParamValue, **params: ParamValue
) -> list[Value]:
    """Write the line to standard output, as JAX does."""
    args, named = _format_arguments(values, in_tree, params["static_args"])
    with xp.printoptions(**print_options(params["np_printoptions"])):
        if params["has_placeholders"]:
            line = format_fields(str(fmt), args, named)
        else:
            line = " ".join([str(fmt), *map(str, args)])
    sys.stdout.write(line + "\n")
    return []


def _format_arguments(
    values: Sequence[Value], in_tree: Any, static_args: Any
) -> tuple[list[Value], dict[str, Value]]:
    """Return the positional and keyword arguments of a format, by JAX's pytree of them.

    If the pytree is unknown, all values are positional.
    """
    pairs = static_args if isinstance(static_args, (tuple, list)) else ()
    static = {p[0]: p[1] for p in pairs if isinstance(p, (tuple, list)) and len(p) == 2}
    rest = iter(values)
    places = range(len(values) + len(static))
    leaves = [static[i] if i in static else next(rest, None) for i in places]
    try:
        args, named = in_tree.unflatten(leaves)
    except (AttributeError, TypeError, ValueError):
        return leaves, {}
    if not isinstance(args, (tuple, list)) or not isinstance(named, dict):
        return leaves, {}
    return [*args], named


def _format_types(
    *avals: Aval, in_tree: ParamValue = None, static_args: Any = (), **_: ParamValue
) -> list[Aval]:
    """The type rule: no results. The leaves of in_tree must be the operands and static
    arguments.
    """
    static = len(static_args) if isinstance(static_args, (tuple, list)) else 0
    check_leaves("debug_print", "in_tree", in_tree, len(avals) + static, "value")
    return []


def _is_absent(callback: ParamValue) -> bool:
    """Whether a callback is no function of this process: it is the text of a function, or None."""
    return getattr(callback, "value", None) is None


def calls_absent(eqn: JaxprEqn) -> bool:
    """Whether an equation calls a Python function that is not in the text."""
    return "callback" in eqn.params and _is_absent(eqn.params["callback"])


def _call_output(xp: Namespace, *values: Value, callback: Any, **_: ParamValue) -> list[Value]:
    if _is_absent(callback):
        _warn_absent("debug_callback", callback)
    else:
        _called("debug_callback", callback.value, values)
    return []


def _warn_absent(name: str, callback: ParamValue) -> None:
    message = f"{name}: the function {callback} is not in the text and is not called"
    warnings.warn(message, CallbackWarning, stacklevel=3)


def _called(name: str, function: Callable[..., Value], values: Sequence[Value]) -> Value:
    """Call a user's function.

    An exception in it becomes a UsageError, which gets the place of the equation.
    """
    try:
        return function(*values)
    except JaxprToolError:
        raise
    except Exception as e:  # any: the function is not ours
        what = getattr(function, "__name__", "the function")
        message = f"{name}: {what} failed: {type(e).__name__}: {e}"
        raise UsageError(Diagnostic(message, "callback-failed")) from e


def _lower_output(impl: Callable[..., Value]) -> Callable[..., Value]:
    def rule(ctx: LoweringContext, *operands: HloValue, **params: ParamValue) -> list[HloValue]:
        def call(*values: Value) -> tuple[Value, ...]:
            impl(numpy_namespace(), *values, **params)
            return ()

        return ctx.python(call, operands, ordered=_has_order(params))

    return rule


def _has_order(params: dict[str, ParamValue]) -> bool:
    """Whether the params of a print or callback say that the order of calls is kept."""
    return (
        bool(params.get("ordered")) or DEBUG_EFFECT.member(params.get("effect")) == "OrderedDebug"
    )


for _op, _impl, _types in (
    (lax.debug_print, _print, _format_types),
    (lax.debug_callback, _call_output, lambda *avals, **params: []),
):
    define(
        _op,
        abstract_eval=_types,
        impl=_impl,
        jvp=_output_jvp(_op),
        transpose=_output_transpose,
        batch=_output_batch(_op),
        lower=_lower_output(_impl),
        cost=FREE,
        order=_has_order,
        sums="kept",
    )


def _nothing(xp: Namespace, operand: Value, **_: ParamValue) -> list[Value]:
    return []


def _inspect_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    return lax.inspect_sharding(*vals, **params), []


def _sink_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    """Drop the operation, as JAX does."""
    return [], []


# Primitives that look at a value when a program is compiled, or keep it: nothing happens at run
# time.
for _op, _batch in ((lax.inspect_sharding, _inspect_batch), (lax.dce_sink, _sink_batch)):
    define(
        _op,
        abstract_eval=lambda aval, **params: [],
        impl=_nothing,
        jvp=_output_jvp(_op),
        transpose=_output_transpose,
        batch=_batch,
        earlier=(lambda x, **_: lambda v: []) if _op is lax.dce_sink else None,
        lower=lambda ctx, operand, **params: [],
        cost=FREE,
        sums="kept",
    )


# -- callbacks with results --------------------------------------------------------------------


def _result_types(name: str) -> Callable[..., list[Aval]]:
    def rule(
        *avals: Aval, result_avals: ParamValue, callback: ParamValue, **_: ParamValue
    ) -> list[Aval]:
        if isinstance(callback, Record):
            check_leaves(name, "in_tree", callback.fields.get("in_tree"), len(avals), "operand")
        if not isinstance(result_avals, (tuple, list)) or not all(
            isinstance(a, AbstractType) for a in result_avals
        ):
            ill_typed(f"{name}: result_avals={result_avals} is no tuple of types", "bad-param")
        return [a.strong for a in result_avals]

    return rule


def _fail_absent(name: str, callback: ParamValue, span: Span | None = None) -> NoReturn:
    fail(
        UsageError,
        _absence(name, callback),
        "no-callback",
        span=span,
        help="it can run in the process that traced the program, with jaxprtool.from_jax",
    )


def _absence(name: str, callback: ParamValue) -> str:
    return f"{name}: the Python function {callback} is not in the text"


def absent_function(eqn: JaxprEqn) -> Callable[..., Sequence[Value]]:
    """Return the function that JAX calls in place of one that is not in the text.

    It warns, and raises a UsageError if the equation has results.
    """
    name, callback = eqn.primitive.name, eqn.params["callback"]

    def call(*values: Value) -> Sequence[Value]:
        if eqn.out_binders:
            _fail_absent(name, callback)
        _warn_absent(name, callback)
        return []

    return call


_SEEN = 120  # how many characters of a message are searched for in that of the compiler


def refuse_absent(program: ClosedJaxpr, said: str) -> None:
    """Raise UsageError, at its equation, if a compiled program failed because it called a function
    that is not in the text.

    Args:
      program: the program.
      said: the compiler's message, which contains the message of the call.
    """
    for eqn in all_eqns(program.jaxpr):
        if not (eqn.out_binders and calls_absent(eqn)):
            continue
        callback = eqn.params["callback"]
        if _absence(eqn.primitive.name, callback)[:_SEEN] in said:
            _fail_absent(eqn.primitive.name, callback, eqn.span)


def _call(
    name: str, xp: Namespace, *values: Value, callback: Any, result_avals: Any, **_: Any
) -> Value:
    if _is_absent(callback):
        _fail_absent(name, callback)
    results = _called(name, callback.value, values)
    if not isinstance(results, (tuple, list)):
        results = [results]
    if len(results) != len(result_avals):
        message = f"{name}: the function gave {len(results)} results of {len(result_avals)}"
        fail(UsageError, message, "callback-result")
    return [
        _checked(xp, name, i, x, a)
        for i, (x, a) in enumerate(zip(results, result_avals, strict=True))
    ]


def _checked(xp: Namespace, name: str, i: int, x: Value, aval: Aval) -> Value:
    """Return a result of a callback after checking that it has the announced type."""
    array = xp.asarray(x)
    if array.shape != aval.shape or array.dtype != xp.dtype_of_aval(aval.dtype):
        fail(
            UsageError,
            f"{name}: result {i} of the function has the type {get_aval(array)}, and {aval} was announced",
            "callback-result",
        )
    return array


def _lower_call(name: str, pure: bool) -> Callable[..., Value]:
    def rule(ctx: LoweringContext, *operands: HloValue, **params: ParamValue) -> list[HloValue]:
        def call(*values: Value) -> tuple[Value, ...]:
            return tuple(_call(name, numpy_namespace(), *values, **params))

        return ctx.python(call, operands, pure=pure, ordered=_has_order(params))

    return rule


def _pure_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    method = params["vmap_method"]
    if method in ("sequential", "sequential_unrolled") or are_devices(axis_size):
        return one_by_one(lax.pure_callback.primitive, vals, dims, axis_size, params)
    if method not in ("expand_dims", "broadcast_all", "legacy_vectorized"):
        fail(
            UnsupportedError,
            f"pure_callback with vmap_method={method} cannot be mapped",
            "no-rule",
            help="trace it with vmap_method 'sequential', 'expand_dims' or 'broadcast_all'",
        )
    size = {"expand_dims": 1, "broadcast_all": axis_size}.get(method)
    args = [
        x if d is None and size is None else materialize(x, d, size or axis_size)
        for x, d in zip(vals, dims, strict=True)
    ]
    avals = tuple(a.update(shape=(axis_size, *a.shape)) for a in params["result_avals"])
    outs = lax.pure_callback(*args, **{**params, "result_avals": avals})
    return outs, [0] * len(outs)


def _io_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
) -> OutAndDim:
    if params["ordered"]:
        fail(UnsupportedError, "an ordered io_callback cannot be mapped", "no-rule")
    return one_by_one(lax.io_callback.primitive, vals, dims, axis_size, params)


for _op, _batch, _pure, _order in (
    (lax.pure_callback, _pure_batch, True, None),
    (lax.io_callback, _io_batch, False, _has_order),
):
    _name = _op.primitive.name
    define(
        _op,
        abstract_eval=_result_types(_name),
        impl=functools.partial(_call, _name),
        jvp=unsupported("what the Python function does is not known; give it a custom_jvp rule"),
        transpose=unsupported("what the Python function does is not known"),
        batch=_batch,
        lower=_lower_call(_name, _pure),
        cost=FREE,
        varying="rule",
        effects=not _pure,
        order=_order,
    )


# -- tokens ------------------------------------------------------------------------------------

_TOKEN = AbstractToken()


def _token_type(*avals: Aval) -> AbstractToken:
    for a in avals:
        if a is not _TOKEN:
            ill_typed(f"after_all takes tokens, not {a}")
    return _TOKEN


def _new_token_type() -> AbstractToken:
    return _TOKEN


for _op, _type in ((lax.create_token, _new_token_type), (lax.after_all, _token_type)):
    define(
        _op,
        abstract_eval=_type,
        impl=lambda xp, *operands: Token(),
        **LOCALLY_CONSTANT,
        batch=lambda axis_size, vals, dims, op=_op: (op(*vals), None),
        lower=lambda ctx, *operands, name=_op.primitive.name: ctx.op(name, *operands),
        cost=FREE,
    )


# -- check -------------------------------------------------------------------------------------


def _stop(xp: Namespace, *values: Value, debug: bool, **_: ParamValue) -> list[Value]:
    if not debug and any(x.dtype == bool and xp.any(x) for x in values):
        fail(
            UsageError,
            "a check of checkify failed",
            "check-failed",
            help="the error's text is with JAX; its code is the operand after the flag",
        )
    return []


def _check_types(*avals: Aval, debug: bool, **_: ParamValue) -> list[Aval]:
    if not any(getattr(a, "dtype", None) is BOOL for a in avals):
        ill_typed("check: no operand is a flag of type bool", "operand-types")
    return []


def _check_lower(
    ctx: LoweringContext, *operands: HloValue, debug: bool, **params: ParamValue
) -> list[HloValue]:
    return [] if debug else _lower_output(_stop)(ctx, *operands, debug=debug, **params)


define(
    lax.check,
    abstract_eval=_check_types,
    impl=_stop,
    lower=_check_lower,
    **_stopping(lax.check),
)


def _assert_size(
    xp: Namespace, flag: Value, *operands: Value, error_message: ParamValue
) -> list[Value]:
    if not xp.all(flag):
        told = format_fields(str(error_message), list(operands), {})
        fail(UsageError, f"the sizes are not those that the program is for: {told}", "check-failed")
    return []


def _assertion_types(flag: Aval, *avals: Aval, error_message: ParamValue) -> list[Aval]:
    if getattr(flag, "dtype", None) is not BOOL:
        ill_typed(f"shape_assertion: the flag is {flag}, and no bool[]", "operand-types")
    return []


define(
    lax.shape_assertion,
    abstract_eval=_assertion_types,
    impl=_assert_size,
    lower=_lower_output(_assert_size),
    **_stopping(lax.shape_assertion),
)
