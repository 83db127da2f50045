"""Rows of calls to code outside of the program; they have type rules, but cannot be evaluated
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import are_devices
from jaxprtool.core.rule_table import unsupported
from jaxprtool.interpreters.batch import materialize, one_by_one
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import FREE
from jaxprtool.ir.avals import AbstractToken
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.outside import array_types, out_of_reach, refused_impl
from jaxprtool.rules.define import define

__all__: list[str] = []

_TOKEN = AbstractToken()


def _is_token(name: str, token: Aval) -> None:
    if token is not _TOKEN:
        ill_typed(f"{name} takes a token first, and its operand is {token}")


# -- ffi_call ----------------------------------------------------------------------------------


def _ffi_types(
    *avals: Aval, result_avals: Sequence[Aval], target_name: str, **params: Any
) -> list[Aval]:
    name = f"ffi_call of {target_name}"
    outs = array_types(name, result_avals)
    for i, o in params["input_output_aliases"]:
        if not (0 <= i < len(avals) and 0 <= o < len(outs)):
            ill_typed(
                f"{name}: input_output_aliases={params['input_output_aliases']}, and there are "
                f"{len(avals)} operands and {len(outs)} results",
                "param-value",
            )
    return outs


def _ffi_batch(axis_size: int, vals: Any, dims: Any, **params: Any) -> OutAndDim:
    method = params["vmap_method"]
    if method in ("sequential", "sequential_unrolled") or are_devices(axis_size):
        return one_by_one(lax.ffi_call.primitive, vals, dims, axis_size, params)
    if method not in ("expand_dims", "broadcast_all", "legacy_vectorized"):
        fail(
            UnsupportedError,
            f"ffi_call of {params['target_name']} with vmap_method={method} cannot be mapped",
            "no-rule",
            help="trace it with vmap_method 'sequential', 'expand_dims' or 'broadcast_all'",
        )
    size = {"expand_dims": 1, "broadcast_all": axis_size}.get(method)
    widened = [d is not None or size is not None for d in dims]
    args = [
        materialize(x, d, axis_size if d is not None or size is None else size) if w else x
        for x, d, w in zip(vals, dims, widened, strict=True)
    ]
    avals = tuple(a.update(shape=(axis_size, *a.shape)) for a in params["result_avals"])
    layouts = {
        "input_layouts": _with_front(params["input_layouts"], widened),
        "output_layouts": _with_front(params["output_layouts"], [True] * len(avals)),
    }
    outs = lax.ffi_call(*args, **{**params, **layouts, "result_avals": avals})
    return outs, [0] * len(outs)


def _with_front(layouts: Any, widened: Sequence[bool]) -> Any:
    """Return the layouts of arrays, some of which get a new first axis.

    A layout lists the axes from the fastest to the slowest; the new axis becomes the slowest.
    """
    if not isinstance(layouts, tuple):
        return layouts
    return tuple(
        (*[d + 1 for d in order], 0) if w and isinstance(order, tuple) else order
        for order, w in zip(layouts, widened, strict=True)
    )


_FOREIGN = unsupported("what the foreign function does is not known; give it a custom_jvp rule")

define(
    lax.ffi_call,
    abstract_eval=_ffi_types,
    impl=refused_impl(
        "ffi_call: the foreign function {target_name} is not in the program",
        help="`run --jit --through jax` runs it in a process that has registered it",
    ),
    jvp=_FOREIGN,
    transpose=_FOREIGN,
    batch=_ffi_batch,
    lower=unsupported("the foreign function is not in the program; --through jax lowers it"),
    cost=FREE,
    varying="rule",
    effects=True,
)


# -- call_exported -----------------------------------------------------------------------------

_EXPORTED = unsupported("the exported program is not in the text")

define(
    lax.call_exported,
    abstract_eval=lambda *avals, out_avals, **_: array_types("call_exported", out_avals),
    impl=refused_impl(
        "call_exported: the program of {exported} is not in the text",
        help="it runs with `--through jax` in the process that traced the call",
    ),
    jvp=_EXPORTED,
    transpose=_EXPORTED,
    batch=_EXPORTED,
    lower=_EXPORTED,
    cost=FREE,
)


# -- infeed, outfeed ---------------------------------------------------------------------------


def _infeed_types(token: Aval, *, shapes: Sequence[Aval], **_: ParamValue) -> list[Aval]:
    _is_token("infeed", token)
    return [*array_types("infeed", shapes), _TOKEN]


def _outfeed_type(token: Aval, *operands: Aval, **_: ParamValue) -> Aval:
    _is_token("outfeed", token)
    array_types("outfeed", operands)
    return _TOKEN


for _op, _type in ((lax.infeed, _infeed_types), (lax.outfeed, _outfeed_type)):
    define(
        _op,
        abstract_eval=_type,
        **out_of_reach(_op.primitive.name, "there is no queue between host and device here"),
        effects=True,
    )
