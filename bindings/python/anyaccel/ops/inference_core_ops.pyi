from torch import Tensor

def bias_activation(activation: Tensor, bias: Tensor | None, activation_type: int) -> None:
    """activation = act(activation + bias), in place; `bias` may be None."""
def layer_norm(output: Tensor, input: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> None:
    """Over the last dimension."""
def pre_layer_norm(res_output: Tensor, norm_output: Tensor, input: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> None:
    """res_output = input + residual, and its norm; they may be input and residual themselves."""
def post_layer_norm(output: Tensor, input: Tensor, residual: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> None:
    """The norm of input + residual."""
def rms_norm(norm_output: Tensor, norm_input: Tensor, gamma: Tensor, epsilon: float) -> None:
    """Over the last dimension."""
def rms_pre_norm(norm_output: Tensor, residual_output: Tensor, norm_input: Tensor, residual_input: Tensor, gamma: Tensor, epsilon: float) -> None:
    """residual_output = norm_input + residual_input, and its norm."""
def gated_activation(output: Tensor, input: Tensor, bias: Tensor | None, activation_type: int) -> None:
    """Each even channel's activation times the odd one behind it; `bias`, which may be None, is added before."""
def blas_linear(output: Tensor, hidden_states: Tensor, weights: Tensor) -> None:
    """output = hidden_states times weights [outputs, inputs]."""
def blas_4d_matmul(C: Tensor, B: Tensor, A: Tensor) -> None:
    """C = B times A."""
def create_handle() -> None:
    """Nothing: no library here has a handle. Loads the op."""
def cuda_wf6af16_linear(output: Tensor, hidden_states: Tensor, weights_2bit: Tensor, weights_4bit: Tensor, scale: Tensor, workspace: Tensor, out_channels: int, tokens: int, in_channels: int, split_k: int) -> None:
    """output [tokens, out_channels] = hidden_states [tokens, in_channels] times weights of preprocess_weight(), `scale` for each output; float16, summed in
    float32. workspace and split_k are not needed. In host memory alone."""
def preprocess_weight(weight: Tensor) -> list[Tensor]:
    """float16 [outputs, inputs], which has numbers of six bits (0 and 1/16 to 28, two bits of mantissa), as bytes of 2 bits and bytes of 4 bits for
    cuda_wf6af16_linear(). Inputs are a multiple of 64. Not DeepSpeed's order: that is made for a GPU's tensor cores."""
