"""The functions that DeepSpeed's InferenceCoreBuilder().load() returns, with the same names and
arguments.

Each writes its result to a tensor that the caller passes.

Activations have DeepSpeed's numbers: 0 gelu (tanh), 1 relu, 2 silu, 3 geglu, 4 reglu, 5 siglu, 6
none.
"""

import torch


def _op(name):
    name = "inference_core_" + name
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("InferenceCoreBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def bias_activation(activation, bias, activation_type):
    """Compute activation = act(activation + bias) in place. `bias` may be None."""
    _op("bias_activation")(activation, bias, activation_type)


def layer_norm(output, input, gamma, beta, epsilon):
    """Compute the layer norm over the last dimension."""
    _op("layer_norm")(output, input, gamma, beta, epsilon)


def pre_layer_norm(res_output, norm_output, input, residual, gamma, beta, epsilon):
    """Compute res_output = input + residual and its layer norm.

    The outputs may be the input and residual themselves.
    """
    _op("pre_layer_norm")(res_output, norm_output, input, residual, gamma, beta, epsilon)


def post_layer_norm(output, input, residual, gamma, beta, epsilon):
    """Compute the layer norm of input + residual."""
    _op("post_layer_norm")(output, input, residual, gamma, beta, epsilon)


def rms_norm(norm_output, norm_input, gamma, epsilon):
    """Compute the RMS norm over the last dimension."""
    _op("rms_norm")(norm_output, norm_input, gamma, epsilon)


def rms_pre_norm(norm_output, residual_output, norm_input, residual_input, gamma, epsilon):
    """Compute residual_output = norm_input + residual_input and its RMS norm."""
    _op("rms_pre_norm")(norm_output, residual_output, norm_input, residual_input, gamma, epsilon)


def gated_activation(output, input, bias, activation_type):
    """Multiply each even channel's activation by the next odd channel.

    `bias`, which may be None, is added first.
    """
    _op("gated_activation")(output, input, bias, activation_type)


def blas_linear(output, hidden_states, weights):
    """Compute output = hidden_states @ weights^T, with weights [outputs, inputs]."""
    _op("blas_linear")(output, hidden_states, weights)


def blas_4d_matmul(C, B, A):
    """Compute C = B @ A."""
    _op("blas_4d_matmul")(C, B, A)


def create_handle():
    """Load the op. It does not need a library handle."""
    _op("rms_norm")


def cuda_wf6af16_linear(output, hidden_states, weights_2bit, weights_4bit, scale, workspace, out_channels, tokens, in_channels, split_k):
    """Compute output [tokens, out_channels] as the matrix product of hidden_states [tokens,
    in_channels] and the weights from preprocess_weight(), with one `scale` per output channel.

    Tensors are float16 in host memory, with float32 accumulation. workspace and split_k are
    ignored.
    """
    _op("wf6af16_linear")(output, hidden_states, weights_2bit, weights_4bit, scale, out_channels, tokens, in_channels)


def preprocess_weight(weight):
    """Split a float16 weight [outputs, inputs] into a tensor of 2-bit parts and a tensor of 4-bit
    parts, for cuda_wf6af16_linear().

    Its values must be 6-bit floats: 0 and magnitudes from 1/16 to 28, with two mantissa bits. The
    number of inputs must be a multiple of 64. The layout differs from DeepSpeed's, which is for a
    GPU's tensor cores.
    """
    return list(_op("preprocess_weight")(weight))
