"""What DeepSpeed's RaggedUtilsBuilder().load() has, under the same names and with the same arguments. A wrong argument is a ValueError."""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("RaggedUtilsBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def allocate_fast_host_buffer(device_mirror):
    """Host memory for a tensor of that shape and dtype. It holds no numbers yet."""
    return _op("allocate_fast_host_buffer")(device_mirror)


def allocate_view_on(tensor, buffer, offset):
    """A tensor of the shape, strides and dtype of `tensor` in the memory of `buffer`, `offset` bytes behind its begin."""
    return _op("allocate_view_on")(tensor, buffer, offset)


def allocate_view_like(shape, strides, dummy_tensor, buffer, offset):
    """The same for a shape and strides, of the dtype of `dummy_tensor`."""
    return _op("allocate_view_like")(shape, strides, dummy_tensor, buffer, offset)
