from torch import Tensor

def bias_activation(activation: Tensor, bias: Tensor | None, activation_type: int) -> None:
    """Compute activation = act(activation + bias) in place. `bias` may be None."""
def layer_norm(output: Tensor, input: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> None:
    """Compute the layer norm over the last dimension."""
def pre_layer_norm(res_output: Tensor, norm_output: Tensor, input: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> None:
    """Compute res_output = input + residual and its layer norm.

    The outputs may be the input and residual themselves.
    """
def post_layer_norm(output: Tensor, input: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> None:
    """Compute the layer norm of input + residual."""
def rms_norm(norm_output: Tensor, norm_input: Tensor, gamma: Tensor, epsilon: float) -> None:
    """Compute the RMS norm over the last dimension."""
def rms_pre_norm(norm_output: Tensor, residual_output: Tensor, norm_input: Tensor, residual_input: Tensor, gamma: Tensor, epsilon: float) -> None:
    """Compute residual_output = norm_input + residual_input and its RMS norm."""
def gated_activation(output: Tensor, input: Tensor, bias: Tensor | None, activation_type: int) -> None:
    """Multiply each even channel's activation by the next odd channel.

    `bias`, which may be None, is added first.
    """
def blas_linear(output: Tensor, hidden_states: Tensor, weights: Tensor) -> None:
    """Compute output = hidden_states @ weights^T, with weights [outputs, inputs]."""
def blas_4d_matmul(C: Tensor, B: Tensor, A: Tensor) -> None:
    """Compute C = B @ A."""
def create_handle() -> None:
    """Load the op. It does not need a library handle."""
def cuda_wf6af16_linear(output: Tensor, hidden_states: Tensor, weights_2bit: Tensor, weights_4bit: Tensor, scale: Tensor, workspace: Tensor, out_channels: int, tokens: int, in_channels: int, split_k: int) -> None:
    """Compute output [tokens, out_channels] as the matrix product of hidden_states [tokens,
    in_channels] and the weights from preprocess_weight(), with one `scale` per output channel.

    Tensors are float16 in host memory, with float32 accumulation. workspace and split_k are
    ignored.
    """
def preprocess_weight(weight: Tensor) -> list[Tensor]:
    """Split a float16 weight [outputs, inputs] into a tensor of 2-bit parts and a tensor of 4-bit
    parts, for cuda_wf6af16_linear().

    Its values must be 6-bit floats: 0 and magnitudes from 1/16 to 28, with two mantissa bits. The
    number of inputs must be a multiple of 64. The layout differs from DeepSpeed's, which is for a
    GPU's tensor cores.
    """
