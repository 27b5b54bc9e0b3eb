"""What DeepSpeed's InferenceCoreBuilder().load() has, under the same names and with the same arguments: each function writes its result into a
tensor that it is given. Activations have DeepSpeed's numbers: 0 gelu (tanh), 1 relu, 2 silu, 3 geglu, 4 reglu, 5 siglu, 6 none."""

import torch


def _op(name):
    name = "inference_core_" + name
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("InferenceCoreBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def bias_activation(activation, bias, activation_type):
    """activation = act(activation + bias), in place; `bias` may be None."""
    _op("bias_activation")(activation, bias, activation_type)


def layer_norm(output, input, gamma, beta, epsilon):
    """Over the last dimension."""
    _op("layer_norm")(output, input, gamma, beta, epsilon)


def pre_layer_norm(res_output, norm_output, input, residual, gamma, beta, epsilon):
    """res_output = input + residual, and its norm; they may be input and residual themselves."""
    _op("pre_layer_norm")(res_output, norm_output, input, residual, gamma, beta, epsilon)


def post_layer_norm(output, input, residual, gamma, beta, epsilon):
    """The norm of input + residual."""
    _op("post_layer_norm")(output, input, residual, gamma, beta, epsilon)


def rms_norm(norm_output, norm_input, gamma, epsilon):
    """Over the last dimension."""
    _op("rms_norm")(norm_output, norm_input, gamma, epsilon)


def rms_pre_norm(norm_output, residual_output, norm_input, residual_input, gamma, epsilon):
    """residual_output = norm_input + residual_input, and its norm."""
    _op("rms_pre_norm")(norm_output, residual_output, norm_input, residual_input, gamma, epsilon)


def gated_activation(output, input, bias, activation_type):
    """Each even channel's activation times the odd one behind it; `bias`, which may be None, is added before."""
    _op("gated_activation")(output, input, bias, activation_type)


def blas_linear(output, hidden_states, weights):
    """output = hidden_states times weights [outputs, inputs]."""
    _op("blas_linear")(output, hidden_states, weights)


def blas_4d_matmul(C, B, A):
    """C = B times A."""
    _op("blas_4d_matmul")(C, B, A)


def create_handle():
    """Nothing: no library here has a handle. Loads the op."""
    _op("rms_norm")


def cuda_wf6af16_linear(output, hidden_states, weights_2bit, weights_4bit, scale, workspace, out_channels, tokens, in_channels, split_k):
    """output [tokens, out_channels] = hidden_states [tokens, in_channels] times weights of preprocess_weight(), `scale` for each output; float16, summed in
    float32. workspace and split_k are not needed. In host memory alone."""
    _op("wf6af16_linear")(output, hidden_states, weights_2bit, weights_4bit, scale, out_channels, tokens, in_channels)


def preprocess_weight(weight):
    """float16 [outputs, inputs], which has numbers of six bits (0 and 1/16 to 28, two bits of mantissa), as bytes of 2 bits and bytes of 4 bits for
    cuda_wf6af16_linear(). Inputs are a multiple of 64. Not DeepSpeed's order: that is made for a GPU's tensor cores."""
    return list(_op("preprocess_weight")(weight))
