from torch import Tensor

def nhwc_bias_add(activation: Tensor, bias: Tensor) -> Tensor:
    """Return activation + bias.

    Images, [batch, channels, height, width], are returned in the memory format channels_last; other
    tensors have channels as the last dimension.
    """
def nhwc_bias_add_add(activation: Tensor, bias: Tensor, other: Tensor) -> Tensor:
    """Return activation + bias + other, computed in one pass."""
def nhwc_bias_add_bias_add(activation: Tensor, bias: Tensor, other: Tensor, other_bias: Tensor) -> Tensor:
    """Return activation + bias + other + other_bias, computed in one pass."""
