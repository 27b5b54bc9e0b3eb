"""What DeepSpeed's SpatialInferenceBuilder().load() has. Images are [batch, channels, height, width], whatever else has its channels last;
all tensors have one dtype. Differentiable. A wrong argument is a ValueError."""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("SpatialInferenceBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def nhwc_bias_add(activation, bias):
    """activation + bias; images come in channels_last."""
    return _op("nhwc_bias_add")(activation, bias)


def nhwc_bias_add_add(activation, bias, other):
    """activation + bias + other, in one pass."""
    return _op("nhwc_bias_add_add")(activation, bias, other)


def nhwc_bias_add_bias_add(activation, bias, other, other_bias):
    """activation + bias + other + other_bias, in one pass."""
    return _op("nhwc_bias_add_bias_add")(activation, bias, other, other_bias)
