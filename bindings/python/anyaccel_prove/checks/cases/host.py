"""Ops for host memory: files, pinned memory, views of bytes and of shared buffers."""

import os
import tempfile

import torch

from ..table import FLOATS, Case


def numbers(draw, size, dtype):
    return [draw.normal(size, dtype=dtype)]


def through_a_file(module, tensors):
    """Write a tensor to a file and read it back."""
    if not tensors[0].numel():
        return [tensors[0]]
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "data"), torch.empty_like(tensors[0])
        with module.aio_handle(4096, 8, False, True, 2) as handle:
            handle.sync_pwrite(tensors[0], path)
            handle.sync_pread(out, path)
    return [out]


def same(tensors):
    return [tensors[0]]


def locked(module, tensors):
    """Copy a tensor to locked memory and back."""
    handle = module.pin_handle()
    kept = handle.new_cpu_locked_tensor(max(1, tensors[0].numel()), tensors[0])
    kept[:tensors[0].numel()].copy_(tensors[0])
    out = torch.empty_like(tensors[0]).copy_(kept[:tensors[0].numel()])
    assert handle.free_cpu_locked_tensor(kept), "the tensor was not recognized as locked"
    return [out]


def bytes_of(module, tensors):
    return [each.clone() for each in module.cast_to_byte_tensor(list(tensors))]


def views(module, tensors):
    buffer = tensors[0].clone().view(torch.uint8)
    return [module.allocate_view_on(tensors[0], buffer, 0).clone()]


HOST = {"pinned": True, "exact": True}
CASES = {
    "AsyncIOBuilder": [Case("file", numbers, through_a_file, sizes=(0, 1, 17, 1003, 100_003), plain=same, looser=1e-9, **HOST)],
    "PinMemoryBuilder": [
        Case("locked", numbers, locked, dtypes=FLOATS, exact=True, no_graph="the op allocates host memory", plain=same)
    ],
    "UtilsBuilder": [Case("bytes", numbers, bytes_of, dtypes=FLOATS, exact=True)],
    "RaggedUtilsBuilder": [Case("views", numbers, views, sizes=(1, 3, 17, 1003), **HOST)],
}
