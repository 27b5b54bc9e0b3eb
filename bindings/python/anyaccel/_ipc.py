"""Sends tensors on the simulated device to other processes through torch.multiprocessing.

As with CUDA, the receiver gets the same memory. The sender's memory stays allocated until every
receiver has freed its tensors. src/backends/sim/ipc.h describes how the memory is shared.
"""

import os

import torch
from torch.multiprocessing import reductions

from . import _native, _torch
from .errors import make_error


def register(name, accelerator):
    """Make torch.multiprocessing send tensors on devices of the type `name`, which the simulator
    provides.
    """
    storage = torch.UntypedStorage
    is_shared = storage.is_shared
    storage.is_shared = lambda self: self.device.type == name or is_shared(self)
    reduce_tensor, reduce_storage = reductions.reduce_tensor, reductions.reduce_storage
    if name == _torch.CUDA:  # torch's own code sends the tensors, and calls these functions
        storage._share_cuda_ = _share_cuda
        storage._new_shared_cuda = staticmethod(_new_shared_cuda)
        storage._release_ipc_counter_cuda = staticmethod(_release_ipc_counter_cuda)
        torch._C._cuda_ipc_collect = collect

        def reduce_cuda(tensor):
            function, arguments = reduce_tensor(tensor)
            return rebuild_cuda if function is reductions.rebuild_cuda_tensor else function, arguments

        _reduce_with(reduce_cuda)
        return

    def reduce_ours(tensor):
        if tensor.device.type != name or tensor.layout != torch.strided or tensor.is_nested:
            return reduce_tensor(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(f"cannot send a {name} tensor that has a gradient function to another process; send tensor.detach()")
        torch.utils.hooks.warn_if_has_hooks(tensor)
        whole = tensor.untyped_storage()
        handle = _share(whole) if whole.nbytes() else None
        if handle is not None:
            reductions.shared_cache[handle] = reductions.StorageWeakRef(whole)
        return rebuild, (type(tensor), tensor.size(), tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.requires_grad,
                         name, tensor.device.index, handle, accelerator.name())

    def reduce_our_storage(whole):
        if whole.device.type == name:
            raise RuntimeError(f"cannot send a {name} storage to another process; send a tensor")
        return reduce_storage(whole)

    _reduce_with(reduce_ours)
    reductions.reduce_storage = reduce_our_storage
    reductions.reduction.register(storage, reduce_our_storage)


def _reduce_with(reduce_tensor):
    reductions.reduce_tensor = reduce_tensor
    for kind in (torch.Tensor, torch.nn.Parameter, *torch._tensor_classes):
        reductions.reduction.register(kind, reduce_tensor)


def rebuild_cuda(*arguments):
    """Call torch's function that makes a tensor in the receiving process. Called by pickle."""
    _start(_torch.CUDA, None)
    return reductions.rebuild_cuda_tensor(*arguments)


def rebuild(kind, size, stride, offset, dtype, requires_grad, device_type, index, handle, backend):
    """Make the tensor in the receiving process. Called by pickle."""
    _start(device_type, backend)
    device = torch.device(device_type, index)
    if handle is None:
        whole = torch.empty(0, dtype=torch.uint8, device=device).untyped_storage()
    else:
        whole = reductions.storage_from_cache(torch.UntypedStorage, handle)
        if whole is None:
            whole = _open(handle, device.index)
            reductions.shared_cache[handle] = reductions.StorageWeakRef(whole)
        else:
            torch.ops.anyaccel_sim.release(handle)
    return reductions.rebuild_tensor(kind, torch.storage.TypedStorage(wrap_storage=whole, dtype=dtype, _internal=True),
                                     (offset, size, stride, requires_grad))


def collect():
    """Free memory that was sent to other processes, and that no process uses anymore."""
    torch.ops.anyaccel_sim.collect()


def _start(device_type, backend):
    """Start the simulator in a process that has received a tensor before it used a device."""
    if backend is not None and not hasattr(getattr(torch, device_type, None), "_anyaccel") and not os.environ.get("DS_ACCELERATOR"):
        _native.set_accelerator_name(backend if backend in _native.registered_backends() else _torch.SIMULATED)
    accelerator = _native.get_accelerator()
    if accelerator.device_type() != device_type:
        raise make_error("invalid_state", "torch.multiprocessing", f"this process cannot receive a tensor on {device_type}",
                         got=f"the accelerator {accelerator.name()!r}, whose device type is {accelerator.device_type()!r}",
                         hint="select the same accelerator in both processes, with DS_ACCELERATOR or set_accelerator()")
    torch.get_device_module(device_type)._lazy_init()


def _share(whole):
    # The receiver may read the memory as soon as it has the handle. CUDA sends an event instead.
    torch.get_device_module(whole.device).current_stream(whole.device).synchronize()
    view = torch.empty(0, dtype=torch.uint8, device=whole.device).set_(whole)
    return torch.ops.anyaccel_sim.share(view)


def _open(handle, index):
    return torch.ops.anyaccel_sim.open(handle, index).untyped_storage()


def _share_cuda(self):
    """Return what torch.UntypedStorage._share_cuda_() returns. The handle also identifies the
    counter.
    """
    size = self.nbytes()
    handle = _share(self).encode() if size else None
    return self.device.index, handle, size, 0, handle or b"", 0, b"", False


def _new_shared_cuda(device, handle, size, offset, counter, counter_offset, event, synchronize):
    del size, offset, counter, counter_offset, event, synchronize
    return _open(handle.decode(), device)


def _release_ipc_counter_cuda(counter, counter_offset):
    del counter_offset
    torch.ops.anyaccel_sim.release(counter.decode())
