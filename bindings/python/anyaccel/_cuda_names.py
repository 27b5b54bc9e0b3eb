"""Completes torch.cuda when the simulator stands in for CUDA.

In a torch build without CUDA, functions in torch.cuda call missing functions of torch._C, and some
classes have base classes that cannot be instantiated. This module supplies both. A function that
the simulator cannot provide raises a one-line error that names the function.
"""

import itertools
import math

import torch

from . import _cuda_tensors, _torch

# Compute capability of the simulated device: that of an A100, which has bfloat16 and no float8.
CAPABILITY = (8, 0)

# CUDA version that torch.version.cuda reports. Programs read it to tell a torch with CUDA from one
# with ROCm or without GPU support.
CUDA_VERSION = "12.6"

# IDs for memory pools that programs create. The simulator numbers the pools of captures from 1.
_pools = itertools.count(1 << 32)

# torch._C functions that have no meaning on a simulated device, and their public names in
# torch.cuda.
UNSUPPORTED = {
    "_cuda_memorySnapshot": "memory_snapshot", "_cuda_setMemoryFraction": "set_per_process_memory_fraction",
    "_cuda_getMemoryFraction": "get_per_process_memory_fraction", "_cuda_getCurrentBlasHandle": "current_blas_handle",
    "_cuda_getCurrentSolverHandle": "current_solver_handle", "_cuda_set_sync_debug_mode": "set_sync_debug_mode",
    "_cuda_cudaCachingAllocator_raw_alloc": "caching_allocator_alloc",
    "_cuda_cudaCachingAllocator_raw_delete": "caching_allocator_delete", "_cuda_cudaCachingAllocator_enable": "caching_allocator_enable",
    "_cuda_getStreamFromExternal": "get_stream_from_external"}


def complete(cuda, accelerator):
    """Complete the module torch.cuda, whose functions already use `accelerator`."""
    _add_functions(accelerator)
    add_collectives(_torch.CUDA)
    _add_graphs(accelerator)
    _add_storage_resize()
    _cuda_tensors.add(cuda)
    torch.version.cuda = torch.version.cuda or CUDA_VERSION
    properties = cuda.get_device_properties

    def get_device_properties(device=None):
        index = torch.cuda._utils._get_device_index(device, optional=True)
        return Properties(properties(index), torch.ops.anyaccel_sim.uuid(index))

    cuda.get_device_properties = get_device_properties
    cuda.get_device_capability = lambda device=None: CAPABILITY
    cuda.memory_stats = torch.cuda.memory.memory_stats  # reports more statistics than the accelerator's
    cuda.nvtx._nvtx = Ranges(accelerator)


class Properties:
    """Properties of a simulated device under the names of torch.cuda.get_device_properties()."""

    major, minor = CAPABILITY
    warp_size = 32
    max_threads_per_block = 1024
    max_threads_per_multi_processor = 2048
    regs_per_multiprocessor = 65536
    shared_memory_per_block = 48 << 10
    shared_memory_per_block_optin = shared_memory_per_multiprocessor = 163 << 10
    L2_cache_size = 40 << 20
    is_integrated = is_multi_gpu_board = 0
    gcnArchName = "sm_80"

    def __init__(self, simulated, uuid):
        self._simulated = simulated
        self.uuid = uuid

    @property
    def multi_processor_count(self):
        return max(self._simulated.multi_processor_count, 1)

    def __getattr__(self, name):
        return getattr(self._simulated, name)

    def __repr__(self):
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})")


def functions(accelerator):
    """Make the torch._C functions that torch.cuda's functions call, by name."""
    return {
        "_cuda_memoryStats": torch._C._accelerator_getDeviceStats,
        "_cuda_resetPeakMemoryStats": torch._C._accelerator_resetPeakStats,
        "_cuda_resetAccumulatedMemoryStats": torch._C._accelerator_resetAccumulatedStats,
        "_cuda_hostMemoryStats": dict,
        "_cuda_resetAccumulatedHostMemoryStats": lambda: None,
        "_cuda_resetPeakHostMemoryStats": lambda: None,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_canDeviceAccessPeer": lambda device, peer: device != peer,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_isCurrentStreamCapturing": accelerator.is_current_stream_capturing,
        "_host_emptyCache": lambda: None,
    }


def _add_functions(accelerator):
    made = functions(accelerator)
    made["_cuda_sleep"] = lambda cycles: torch.ops.anyaccel_sim.sleep(accelerator.current_device(), cycles)
    made.update((name, _unsupported(public)) for name, public in UNSUPPORTED.items())
    for name, function in made.items():
        if name == "_cuda_isCurrentStreamCapturing" or not hasattr(torch._C, name):
            setattr(torch._C, name, function)


def _unsupported(name):

    def fail(*arguments, **options):
        raise NotImplementedError(f"torch.cuda.{name}() is not supported on the simulated device")

    return fail


def collectives(device_type):
    """Make the torch._C functions that torch.nn.parallel.comm calls, by name. DataParallel uses them to
    copy tensors between the devices of a process.
    """
    module = torch.get_device_module(device_type)

    def device_of(index):
        return torch.device("cpu") if index == -1 else torch.device(device_type, index)

    def broadcast(tensor, devices):
        return [tensor if tensor.device == torch.device(device_type, index) else tensor.to(device_of(index)) for index in devices]

    def broadcast_out(tensor, outputs):
        return tuple(output.copy_(tensor) for output in outputs)

    def parts(tensor, count, chunk_sizes, dim):
        sizes = chunk_sizes or math.ceil(tensor.size(dim) / count)
        return tensor.split(sizes, dim)

    def scatter(tensor, devices, chunk_sizes, dim, streams):
        found = []
        for index, part in enumerate(parts(tensor, len(devices), chunk_sizes, dim)):
            with module.stream(streams[index] if streams else None):
                found.append(part.to(device_of(devices[index]), non_blocking=True))
        return tuple(found)

    def scatter_out(tensor, outputs, dim, streams):
        return tuple(output.copy_(part) for output, part in zip(outputs, tensor.split([output.size(dim) for output in outputs], dim)))

    def gather(tensors, dim, destination=None):
        target = device_of(module.current_device() if destination is None else destination)
        return torch.cat([tensor.to(target) for tensor in tensors], dim)

    def gather_out(tensors, output, dim):
        return output.copy_(torch.cat([tensor.to(output.device) for tensor in tensors], dim))

    def broadcast_coalesced(tensors, devices, buffer_size):
        return [[broadcast(tensor, [index])[0] for tensor in tensors] for index in devices]

    return {"_broadcast": broadcast, "_broadcast_out": broadcast_out, "_broadcast_coalesced": broadcast_coalesced, "_scatter": scatter,
            "_scatter_out": scatter_out, "_gather": gather, "_gather_out": gather_out}


def add_collectives(device_type):
    """Let DataParallel use a device type. Builds of torch without CUDA do not have these functions."""
    for name, function in collectives(device_type).items():
        if not hasattr(torch._C, name):
            setattr(torch._C, name, function)
    if device_type == _torch.CUDA or not hasattr(torch._C, "_nccl_all_reduce"):
        torch.cuda.nccl.is_available = lambda tensors: False  # in builds without NCCL, torch's function warns


def _add_storage_resize():
    """Let UntypedStorage.resize_() resize storages on the device. FullyShardedDataParallel frees its
    parameters in this way."""
    resize = torch._C.StorageBase.resize_

    def resize_(storage, size):
        if storage.device.type != _torch.CUDA:
            return resize(storage, size)
        view = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (0,))
        torch.ops.inductor.resize_storage_bytes_(view, size)
        return storage

    torch.UntypedStorage.resize_ = resize_


def graph_base(accelerator):
    """Make the base class of torch.cuda.CUDAGraph for an accelerator."""

    class GraphBase:
        """Base class of torch.cuda.CUDAGraph."""

        def __new__(cls, keep_graph=False):
            instance = object.__new__(cls)
            instance._graph = accelerator.create_graph()
            return instance

        def __init__(self, keep_graph=False):
            pass

        def capture_begin(self, pool=None, capture_error_mode="global", **options):
            self._graph.capture_begin(pool)

        def capture_end(self):
            self._graph.capture_end()

        def instantiate(self):
            pass  # capture_end() has made the graph executable

        def replay(self):
            self._graph.replay()

        def reset(self):
            self._graph.reset()

        def pool(self):
            return self._graph.pool()

        def enable_debug_mode(self):
            pass

        debug_dump = _unsupported("CUDAGraph.debug_dump")
        raw_cuda_graph = _unsupported("CUDAGraph.raw_cuda_graph")
        raw_cuda_graph_exec = _unsupported("CUDAGraph.raw_cuda_graph_exec")

    return GraphBase


def make_pool_handle():
    """Make the ID of a new memory pool. As in torch, the first number is 0 if the program created the
    pool."""
    return 0, next(_pools)


def _add_graphs(accelerator):
    graphs = torch.cuda.graphs
    graphs.CUDAGraph.__bases__ = (graph_base(accelerator),)
    graphs._graph_pool_handle = make_pool_handle
    graphs._cuda_isCurrentStreamCapturing = accelerator.is_current_stream_capturing


class Ranges:
    """The functions that torch.cuda.nvtx calls. range_push() and range_pop() are forwarded to the
    accelerator. Other ranges and marks are ignored.
    """

    def __init__(self, accelerator):
        self._accelerator = accelerator

    def rangePushA(self, message):
        self._accelerator.range_push(message)
        return 0

    def rangePop(self):
        self._accelerator.range_pop()
        return 0

    def rangeStartA(self, message):
        return 0

    def rangeEnd(self, identifier):
        pass

    def markA(self, message):
        pass

    def deviceRangeStart(self, message, stream):
        return 0

    def deviceRangeEnd(self, identifier, stream):
        pass
