"""Rules for the members of torch.cuda that have no equivalent."""

from .cuda_names import names
from .rule import Rule

_NO_EQUIVALENT = {
    "cuda-nccl": (("torch.cuda.nccl", ),
                  "These functions call NCCL directly. Use torch.distributed with the backend `get_accelerator().communication_backend_name()`."),
    "cuda-comm": (("torch.cuda.comm", "torch.nn.parallel.comm"),
                  "These functions copy between the devices of one process. Use torch.distributed with one process per device."),
    "cuda-sync-debug":
    (("torch.cuda.set_sync_debug_mode", "torch.cuda.get_sync_debug_mode"), "Only CUDA can warn about calls that synchronize."),
    "cuda-allocator": (tuple(n for m in ("CUDAPluggableAllocator", "change_current_allocator", "MemPool", "use_mem_pool",
                                         "caching_allocator_alloc", "caching_allocator_delete", "get_allocator_backend")
                             for n in names(m)), "This configures or calls CUDA's allocator. Other accelerators have their own."),
    "cuda-device-telemetry":
    (tuple(f"torch.cuda.{m}"
           for m in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used")),
     "The value comes from NVIDIA's management library. Use the tools of the accelerator's vendor."),
    "cuda-ipc": (("torch.cuda.ipc_collect", ), "Frees memory shared with other processes through CUDA IPC."),
    "cuda-peer": (("torch.cuda.can_device_access_peer", ), "Returns whether one CUDA device can access another one's memory."),
    "cuda-architecture":
    (("torch.cuda.get_arch_list", "torch.cuda.get_gencode_flags", "torch.cuda.is_tf32_supported", "torch.cuda.has_half",
      "torch.cuda.has_magma"), "Describes NVIDIA architectures or this CUDA build of torch."),
    "cuda-external-stream":
    ((*names("ExternalStream"), "torch.cuda.get_stream_from_external"), "Wraps a cudaStream_t of another library."),
    "cuda-blas-handle": (("torch.cuda.current_blas_handle", "torch.cuda.current_solver_handle"), "Returns a cuBLAS or cuSOLVER handle."),
    "cuda-special": (("torch.cuda.tunable", "torch.cuda.jiterator", "torch.cuda.gds", "torch.cuda.profiler",
                      "torch.cuda.green_contexts", "torch.cuda.GreenContext", "torch.cuda.sparse", "torch.cuda.check_error",
                      "torch.cuda.cudaStatus", "torch.cuda.CudaError", "torch.cuda.DeferredCudaCallError", "torch.cuda.AcceleratorError"),
                     "Other devices have no counterpart for this part of torch.cuda."),
    "cuda-scopes": (("torch.cuda.device_of", "torch.cuda.StreamContext"),
                    "These context managers select a tensor's device or a stream. Use `get_accelerator().device(i)` or `stream(s)`."),
}

# What anyaccel.as_cuda does with members that have no equivalent: it ignores calls that only tune
# or report, and answers questions truthfully.
_AT_RUN_TIME = {
    "cuda-sync-debug": "ignore",
    "cuda-ipc": "ignore",
    "cuda-peer": "can_device_access_peer",
    "cuda-architecture": "get_arch_list",
    "cuda-scopes": "device_module"
}

RULES = tuple(
    Rule(rule, names_[0], "none", (*names_, *(n + ".*" for n in names_)), {}, why, before=names_[0], runtime=_AT_RUN_TIME.get(rule, ""))
    for rule, (names_, why) in _NO_EQUIVALENT.items())
