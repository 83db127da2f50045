"""Calls out of a program: foreign functions, exported programs, infeed and outfeed."""

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
    """f(*operands), where f is a foreign function that the process has registered with XLA.

    target_name: the name under which f is registered.
    result_avals: the types of its results.
    attributes: pairs (name, value) that f gets beside the operands.
    custom_call_api_version: the version of XLA's interface for calls of f.
    has_side_effect: whether f is called even if no equation uses its results.
    input_layouts: for each operand, the order of its axes in memory.
    input_output_aliases: pairs (operand, result) of positions that share a buffer.
    legacy_backend_config: what f gets instead of attributes in versions of the interface before 4.
    output_layouts: for each result, the order of its axes in memory.
    vmap_method: how `vmap` calls f, as for `pure_callback`.
    """


@primitive(multiple_results=True)
def call_exported(
    *operands,
    exported: Exported,
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """f(*operands), where f is a function that JAX exported as StableHLO.

    exported: JAX's object that holds f; the text of a program has only its name.
    out_avals: the types of the results.
    """


@primitive(multiple_results=True)
def infeed(token, *, shapes: Types, partitions: Bookkeeping = shown(None)):
    """The next values in the infeed queue of the device, which the host fills, and a token.

    JAX has had no infeed since 0.7.

    shapes: the types of the values.
    partitions: how the values are split over devices.
    """


@primitive
def outfeed(token, *operands, partitions: Bookkeeping = shown(None)):
    """A token, after the operands have been put into the outfeed queue, which the host reads.

    JAX has had no outfeed since 0.7.

    partitions: how the operands are split over devices.
    """
