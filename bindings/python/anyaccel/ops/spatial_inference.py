"""The functions that DeepSpeed's SpatialInferenceBuilder().load() returns.

Images are [batch, channels, height, width]; other tensors have channels as the last dimension. All
tensors must have the same dtype. Differentiable. Invalid arguments raise ValueError.
"""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("SpatialInferenceBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def nhwc_bias_add(activation, bias):
    """Return activation + bias. Images are returned in the memory format channels_last."""
    return _op("nhwc_bias_add")(activation, bias)


def nhwc_bias_add_add(activation, bias, other):
    """Return activation + bias + other, computed in one pass."""
    return _op("nhwc_bias_add_add")(activation, bias, other)


def nhwc_bias_add_bias_add(activation, bias, other, other_bias):
    """Return activation + bias + other + other_bias, computed in one pass."""
    return _op("nhwc_bias_add_bias_add")(activation, bias, other, other_bias)
