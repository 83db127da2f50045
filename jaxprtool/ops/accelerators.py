"""Kernels of libraries of one kind of device, and calls into other systems: no text holds what they compute."""

from jaxprtool.core.kinds.functions import VmapMethod
from jaxprtool.core.kinds.numbers import Types
from jaxprtool.core.kinds.objects import Bookkeeping, Function
from jaxprtool.core.kinds.placement import Pairs
from jaxprtool.core.primitive import optional, param, primitive, shown, types_of_results

__all__ = [
    "buffer_callback",
    "call_tf",
    "dot_product_attention_bwd",
    "dot_product_attention_bwd_wrapper",
    "dot_product_attention_fp8_bwd",
    "dot_product_attention_fp8_bwd_wrapper",
    "dot_product_attention_fp8_fwd",
    "dot_product_attention_fp8_fwd_wrapper",
    "dot_product_attention_fwd",
    "dot_product_attention_fwd_wrapper",
    "rnn_bwd",
    "rnn_fwd",
]


@primitive(multiple_results=True)
def dot_product_attention_fwd(
    *operands,
    scale: float,
    layout: Bookkeeping,
    seed: int | None = optional(None),
    dropout_rate: float | None = optional(None),
    variadic_args: Bookkeeping = optional(None),
    mask_type: Bookkeeping = optional(None),
    is_flash_attention: bool | None = optional(None),
    is_causal_mask: bool | None = optional(None),
    use_causal_mask: bool | None = optional(None),
    sliding_window_length: int | None = optional(None),
    is_training: bool | None = optional(None),
    cudnn_version: int | None = optional(None),
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """Attention by cuDNN: softmax(scale q k^T + bias) v, and in training what its derivative needs.

    scale: the factor of q k^T.
    layout: the order of the axes: 0 for batch, time, heads, features; 1 for batch, heads, time, features.
    seed: of the dropout.
    dropout_rate: how much of the weights is set to 0.
    variadic_args: which of bias and its derivative there are.
    mask_type: which elements are left out.
    is_flash_attention: whether weights are never in memory, to JAX 0.4.30.
    is_causal_mask: whether later elements are left out, to 0.4.30.
    use_causal_mask: the same of numbers of 8 bits.
    sliding_window_length: how many earlier elements take part.
    is_training: whether residuals are results.
    cudnn_version: of the library.
    out_avals: the types of the results.
    """


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fwd_wrapper():
    """The same before arrays are laid out over devices."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_bwd():
    """The cotangents of q, k, v and the bias, of attention by cuDNN."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_bwd_wrapper():
    """The same before arrays are laid out over devices."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_fwd():
    """Attention of numbers of 8 bits by cuDNN, with the greatest elements of what was scaled."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_fwd_wrapper():
    """The same before arrays are laid out over devices."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_bwd():
    """The cotangents of q, k and v, of attention of numbers of 8 bits by cuDNN."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_bwd_wrapper():
    """The same before arrays are laid out over devices."""


@primitive(multiple_results=True)
def rnn_fwd(
    *operands,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    cudnn_allow_tf32: bool | None = optional(None),
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """A recurrent network (LSTM) by cuDNN: (y, h_n, c_n, workspaces), of (x, h_0, c_0, weights, lengths).

    input_size: the number of features of x.
    hidden_size: the number of features of h.
    num_layers: the number of layers.
    dropout: how much of what is between layers is set to 0.
    bidirectional: whether each layer also runs from the end.
    cudnn_allow_tf32: whether products may be less precise.
    out_avals: the types of the results.
    """


@primitive(multiple_results=True, like=rnn_fwd)
def rnn_bwd():
    """The cotangents of (x, h_0, c_0, weights), of a recurrent network by cuDNN."""


@primitive(multiple_results=True)
def call_tf(
    *operands,
    callable_flat_tf: Function,
    function_flat_tf: Function,
    args_flat_sig_tf: Bookkeeping = shown(None),
    output_avals: Bookkeeping = optional(None),
    has_side_effects: bool | None = optional(None),
    ordered: bool | None = optional(None),
    call_tf_graph: bool | None = optional(None),
    out_avals: Types | None = param(None, hidden="implied", recover=types_of_results),
):
    """The results of a function of TensorFlow.

    callable_flat_tf: the function, known while the process lives that traced it.
    function_flat_tf: the same, made for graphs.
    args_flat_sig_tf: the types of its arguments there.
    output_avals: the types of the results, where they were given.
    has_side_effects: whether it is called although nobody reads its results.
    ordered: whether calls stay in order.
    call_tf_graph: whether it becomes part of a graph of TensorFlow.
    out_avals: the types of the results.
    """


@primitive(multiple_results=True)
def buffer_callback(
    *operands,
    callback: Function,
    result_avals: Types,
    in_tree: Bookkeeping = shown(None),
    out_tree: Bookkeeping = shown(None),
    vmap_method: VmapMethod | None = shown(None),
    has_side_effect: bool = shown(False),
    input_output_aliases: Pairs = shown(()),
    command_buffer_compatible: bool | None = optional(None),
):
    """The results that a Python function writes into buffers of the device.

    callback: the function, known while the process lives that traced it.
    result_avals: the types of its results.
    in_tree: JAX's structure of the arguments.
    out_tree: the same of the results.
    vmap_method: what a batch axis becomes, as for `pure_callback`.
    has_side_effect: whether it is called although nobody reads its results.
    input_output_aliases: (operand, result) pairs that are one buffer.
    command_buffer_compatible: whether it may be part of a recorded sequence of commands.
    """
