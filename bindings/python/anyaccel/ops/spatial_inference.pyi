from torch import Tensor

def nhwc_bias_add(activation: Tensor, bias: Tensor) -> Tensor:
    """activation + bias; images, [batch, channels, height, width], come in channels_last, whatever else has its channels last."""
def nhwc_bias_add_add(activation: Tensor, bias: Tensor, other: Tensor) -> Tensor:
    """activation + bias + other, in one pass."""
def nhwc_bias_add_bias_add(activation: Tensor, bias: Tensor, other: Tensor, other_bias: Tensor) -> Tensor:
    """activation + bias + other + other_bias, in one pass."""
