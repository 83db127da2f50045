"""Kernels of cuDNN, which run on NVIDIA GPUs only, and calls of TensorFlow and of Python functions.

The text of a program does not hold what these functions compute.
"""

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
    """Attention by cuDNN: softmax(scale q k^T + bias) v, and in training the residuals of its
    derivative.

    scale: the factor of q k^T.
    layout: the order of the axes: 0: batch, time, heads, features; 1: batch, heads, time, features.
    seed: the seed of the random numbers of the dropout.
    dropout_rate: the share of attention weights that the dropout sets to 0.
    variadic_args: which of the optional operands, bias and cotangent of the bias, there are.
    mask_type: which attention weights are masked out.
    is_flash_attention: whether the matrix of weights is never stored (JAX up to 0.4.30).
    is_causal_mask: whether a position attends to no later one (JAX up to 0.4.30).
    use_causal_mask: whether a position attends to no later one, in the primitives of 8-bit floats.
    sliding_window_length: how many earlier positions a position attends to; None for all.
    is_training: whether the residuals of the derivative are results, too.
    cudnn_version: the version of the library.
    out_avals: the types of the results.
    """


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fwd_wrapper():
    """`dot_product_attention_fwd` as JAX binds it before it splits arrays over devices."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_bwd():
    """The cotangents of q, k, v and the bias: the transpose of `dot_product_attention_fwd` by
    cuDNN.
    """


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_bwd_wrapper():
    """`dot_product_attention_bwd` as JAX binds it before it splits arrays over devices."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_fwd():
    """Attention of 8-bit floats by cuDNN, and the largest absolute values of the scaled arrays."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_fwd_wrapper():
    """`dot_product_attention_fp8_fwd` as JAX binds it before it splits arrays over devices."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_bwd():
    """The cotangents of q, k and v: the transpose of `dot_product_attention_fp8_fwd` by cuDNN."""


@primitive(multiple_results=True, like=dot_product_attention_fwd)
def dot_product_attention_fp8_bwd_wrapper():
    """`dot_product_attention_fp8_bwd` as JAX binds it before it splits arrays over devices."""


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
    """A recurrent network (LSTM) by cuDNN: (x, h_0, c_0, weights, lengths) -> (y, h_n, c_n,
    workspaces).

    x and y are the sequences of inputs and outputs, h and c the hidden and cell states of the LSTM.

    input_size: the number of features of x.
    hidden_size: the number of features of h.
    num_layers: the number of layers.
    dropout: the share of the values between two layers that is set to 0.
    bidirectional: whether each layer also runs from the end of the sequence to its start.
    cudnn_allow_tf32: whether matrix products may use TF32 (10 bits of mantissa).
    out_avals: the types of the results.
    """


@primitive(multiple_results=True, like=rnn_fwd)
def rnn_bwd():
    """The cotangents of (x, h_0, c_0, weights): the transpose of `rnn_fwd` by cuDNN."""


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
    """f(*operands), where f is a function of TensorFlow.

    callable_flat_tf: f; only the process that traced the program has it.
    function_flat_tf: f as a `tf.function`, which TensorFlow compiles to a graph.
    args_flat_sig_tf: the types of the arguments of f in TensorFlow.
    output_avals: the types of the results, where the user gave them.
    has_side_effects: whether f is called even if no equation uses its results.
    ordered: whether calls keep their order.
    call_tf_graph: whether f becomes part of a surrounding graph of TensorFlow.
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
    """The results that a Python function writes into buffers on the device.

    callback: the function; only the process that traced the program has it.
    result_avals: the types of its results.
    in_tree: the pytree structure of the arguments.
    out_tree: the pytree structure of the results.
    vmap_method: how `vmap` calls the function, as for `pure_callback`.
    has_side_effect: whether the function is called even if no equation uses its results.
    input_output_aliases: pairs (operand, result) of positions that share a buffer.
    command_buffer_compatible: whether a GPU may record the call in a command buffer and replay it.
    """
