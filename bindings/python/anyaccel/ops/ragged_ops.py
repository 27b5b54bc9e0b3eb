"""The functions that DeepSpeed's RaggedUtilsBuilder().load() returns, with the same names and
arguments.

Invalid arguments raise ValueError.
"""

import torch


def _op(name):
    if not hasattr(torch.ops.anyaccel, name):
        from .._native import get_accelerator
        get_accelerator().create_op_builder("RaggedUtilsBuilder").load()
    return getattr(torch.ops.anyaccel, name)


def allocate_fast_host_buffer(device_mirror):
    """Return an uninitialized host tensor with the shape and dtype of `device_mirror`."""
    return _op("allocate_fast_host_buffer")(device_mirror)


def allocate_view_on(tensor, buffer, offset):
    """Return a tensor with the shape, strides and dtype of `tensor` in the memory of `buffer`,
    at a byte offset."""
    return _op("allocate_view_on")(tensor, buffer, offset)


def allocate_view_like(shape, strides, dummy_tensor, buffer, offset):
    """Return a tensor with this shape and these strides, and the dtype of `dummy_tensor`, in the
    memory of `buffer`, at a byte offset."""
    return _op("allocate_view_like")(shape, strides, dummy_tensor, buffer, offset)
