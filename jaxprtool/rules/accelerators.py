"""Rows of library kernels for one kind of device, and of calls into other systems.

They have type rules, and cannot run here.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxprtool import ops as lax
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.makers.outside import array_types, out_of_reach
from jaxprtool.rules.define import define

__all__: list[str] = []


def _types_of(name: str, param: str) -> Callable[..., list[Aval]]:
    """Return the type rule of an operation whose result types stand in one of its params."""
    return lambda *avals, **params: array_types(name, params[param])


_OTHERS = {
    "cuDNN, which only GPUs of NVIDIA have, computes it": (
        lax.dot_product_attention_fwd,
        lax.dot_product_attention_fwd_wrapper,
        lax.dot_product_attention_bwd,
        lax.dot_product_attention_bwd_wrapper,
        lax.dot_product_attention_fp8_fwd,
        lax.dot_product_attention_fp8_fwd_wrapper,
        lax.dot_product_attention_fp8_bwd,
        lax.dot_product_attention_fp8_bwd_wrapper,
        lax.rnn_fwd,
        lax.rnn_bwd,
    ),
    "the function of TensorFlow is not in the text": (lax.call_tf,),
    "the Python function is not in the text": (lax.buffer_callback,),
}

for _why, _ops in _OTHERS.items():
    for _op in _ops:
        _name = _op.primitive.name
        define(
            _op,
            abstract_eval=_types_of(
                _name, "result_avals" if _op is lax.buffer_callback else "out_avals"
            ),
            **out_of_reach(_name, _why),
        )
