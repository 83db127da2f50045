"""Calls of what is outside of a program: foreign functions, exported programs, the queues of a host."""

from jaxprtool.core.kinds.functions import VmapMethod
from jaxprtool.core.kinds.numbers import Types
from jaxprtool.core.kinds.objects import Bookkeeping, Exported
from jaxprtool.core.kinds.placement import Pairs
from jaxprtool.core.primitive import param, primitive, shown, types_of_results

__all__ = ["call_exported", "ffi_call", "infeed", "outfeed"]


@primitive(multiple_results=True)
def ffi_call(
    *operands,
    target_name: str,
    result_avals: Types,
    attributes: Bookkeeping = shown(()),
    custom_call_api_version: int = shown(4),
    has_side_effect: bool = shown(False),
    input_layouts: Bookkeeping = shown(()),
    input_output_aliases: Pairs = shown(()),
    legacy_backend_config: Bookkeeping = shown(None),
    output_layouts: Bookkeeping = shown(()),
    vmap_method: VmapMethod | None = shown(None),
):
    """The results of a foreign function that a process has registered with XLA.

    target_name: the name under which it is registered.
    result_avals: the types of its results.
    attributes: (name, value) pairs that it is given beside the operands.
    custom_call_api_version: how it is called.
    has_side_effect: whether it is called although nobody reads its results.
    input_layouts: the order of the dimensions of each operand in memory.
    input_output_aliases: (operand, result) pairs that are one buffer.
    legacy_backend_config: what it is given in place of attributes, before version 4.
    output_layouts: as `input_layouts`, of the results.
    vmap_method: what a batch axis becomes, as for `pure_callback`.
    """


@primitive(multiple_results=True)
def call_exported(
    *operands,
    exported: Exported,
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """The results of a program that JAX exported as StableHLO.

    exported: JAX's object, of which a text has the name of the function alone.
    out_avals: the types of the results.
    """


@primitive(multiple_results=True)
def infeed(token, *, shapes: Types, partitions: Bookkeeping = shown(None)):
    """What the host puts into the queue of the device, and a token; JAX has none since 0.7.

    shapes: the types of what it puts there.
    partitions: how arrays are spread over devices.
    """


@primitive
def outfeed(token, *operands, partitions: Bookkeeping = shown(None)):
    """Puts the operands into the queue for the host, and gives a token; JAX has none since 0.7.

    partitions: how arrays are spread over devices.
    """
