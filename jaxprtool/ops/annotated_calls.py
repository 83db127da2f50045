"""Calls with annotations for the compiler: where the body is computed, and attributes for XLA."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jaxprtool.core.kinds.objects import JsonText
from jaxprtool.core.kinds.placement import MemorySpaces
from jaxprtool.core.primitive import param, primitive
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["compute_on", "xla_metadata_call"]

_CONSTANTS = {"true": True, "false": False, "null": None}


def _json(value: Any, out_avals: Sequence[Any]) -> Any:
    """Return a param as a JSON text; the parser of params reads such a text as a dict."""
    if not isinstance(value, dict):
        return value
    return json.dumps(dict(value), default=lambda x: _CONSTANTS.get(str(x), str(x)))


@primitive(multiple_results=True)
def compute_on(
    *args,
    jaxpr: ClosedJaxpr,
    compute_type: str,
    out_memory_spaces: MemorySpaces,
    compiler_options_json: JsonText | None = param(None, hidden="never", recover=_json),
):
    """jaxpr(*args), computed in another place than the equations around the call.

    jaxpr: the function.
    compute_type: the place: `device_host`, `device`, `tpu_sparsecore` or `gpu_stream:1`.
    out_memory_spaces: for each result, the memory that holds it.
    compiler_options_json: options for the compiler as a JSON text, or None.
    """


@primitive(multiple_results=True)
def xla_metadata_call(*args, jaxpr: ClosedJaxpr, **attributes: Any):
    """jaxpr(*args), with attributes for XLA: each further param is an attribute of that name.

    jaxpr: the function.
    """
