"""Make the functions without arguments that JAX holds in params, and calls for a jaxpr, from jaxprs in our params."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.backends.jax.live import LiveFunction, LiveOpaque, Named
from jaxprtool.ir.diagnostics import UnsupportedError, fail

__all__ = ["with_thunk"]

_Closed = Callable[..., Any]


def with_thunk(name: str, params: dict[str, Any], closed: _Closed) -> dict[str, Any]:
    """Return the params of a primitive with JAX's function, where ours hold only its text.

    Args:
      name: the name of the primitive.
      params: our params.
      closed: converts a program to JAX's.
    """
    return _MADE[name](params, closed) if name in _MADE else params


def _shown(f: Callable[[], Any], text: str) -> LiveOpaque:
    return LiveOpaque(text, Named(f, text))


def _linear_call(params: dict[str, Any], closed: _Closed) -> dict[str, Any]:
    """Set `transpose_thunk`, which returns the transpose, and its constants."""
    rule = params["transpose_jaxpr"]
    transpose = None if rule is None else closed(rule)

    def thunk() -> Any:
        if transpose is None:
            message = "the transpose of this linear_call is not in the text"
            fail(UnsupportedError, message, "no-rule")
        return transpose, ()

    return {**params, "transpose_thunk": _shown(thunk, str(params["transpose_thunk"]))}


def _remat_opt(params: dict[str, Any], closed: _Closed) -> dict[str, Any]:
    """Set `fun_jaxpr_thunk`, which returns the function without residuals and its constants.

    It is the forward rule without the residuals among its results. A rule that has constants as
    operands is called with all of its operands.
    """
    given = params["fun_jaxpr_thunk"]
    if isinstance(given, (LiveFunction, LiveOpaque)):
        return params
    if params["num_consts"]:
        params = {**params, "num_consts": 0, "num_res": 0}
    rule = params["fwd_jaxpr"]
    outs = rule.jaxpr.outs[params["num_res"] :]
    without = rule.replace(jaxpr=rule.jaxpr.replace(outs=outs), interface=None)

    def thunk() -> Any:
        theirs = closed(without)
        return theirs.jaxpr, theirs.consts

    return {**params, "fun_jaxpr_thunk": _shown(thunk, str(given))}


def _partitioned(params: dict[str, Any], closed: _Closed) -> dict[str, Any]:
    """Set the functions that say how several devices share the work; on one device JAX calls none of them."""
    found = dict(params)
    for key in ("infer_sharding_from_operands", "partition", "propagate_user_sharding"):
        given = params[key]
        if given is not None and not isinstance(given, (LiveFunction, LiveOpaque)):
            found[key] = LiveOpaque(str(given), Named(_absent(key, str(given)), str(given)))
    return found


def _absent(key: str, text: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        message = f"custom_partitioning: the function {text} ({key}) is not in the text"
        return fail(UnsupportedError, message, "no-rule", help="on one device it is not called")

    return refuse


_MADE = {
    "custom_partitioning": _partitioned,
    "linear_call": _linear_call,
    "remat_opt": _remat_opt,
}
