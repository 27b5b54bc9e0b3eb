"""Rules for the functions and classes of torch.cuda.

methods.py, which tools/methods generates from include/anyaccel/accelerator.h, names the
counterparts of each method in torch.cuda and in DeepSpeed; most rules here derive from it.
"""

from .methods import METHODS
from .rule import ANYACCEL, DEEPSPEED, TORCH, Rule

# The names of these functions in torch.accelerator (torch 2.11 to 2.13).
_TORCH_ACCELERATOR = {
    "is_available": "is_available",
    "device_count": "device_count",
    "current_device": "current_device_index",
    "set_device": "set_device_index",
    "synchronize": "synchronize",
    "current_stream": "current_stream",
    "set_stream": "set_stream",
    "empty_cache": "empty_cache",
    "memory_allocated": "memory_allocated",
    "max_memory_allocated": "max_memory_allocated",
    "memory_reserved": "memory_reserved",
    "max_memory_reserved": "max_memory_reserved",
    "memory_stats": "memory_stats",
    "reset_peak_memory_stats": "reset_peak_memory_stats",
    "mem_get_info": "get_memory_info",
}

# Functions that are also attributes of a submodule: torch.cuda.memory.empty_cache.
_SUBMODULES = {
    "memory": ("empty_cache", "memory_stats", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
               "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
               "max_memory_cached", "mem_get_info", "memory_summary", "memory_snapshot", "set_per_process_memory_fraction",
               "get_per_process_memory_fraction", "host_memory_stats", "list_gpu_processes", "caching_allocator_alloc",
               "caching_allocator_delete", "CUDAPluggableAllocator", "change_current_allocator", "MemPool", "use_mem_pool",
               "reset_accumulated_memory_stats", "memory_stats_as_nested_dict", "get_allocator_backend"),
    "random": ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed", "manual_seed_all", "seed",
               "seed_all", "initial_seed"),
    "streams": ("Stream", "Event", "ExternalStream"),
    "graphs": ("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"),
}

# Methods whose counterpart in torch.cuda has the same meaning and takes the same arguments.
_SAME = ("is_available", "device", "set_device", "current_device", "device_count", "synchronize", "set_rng_state", "get_rng_state",
         "manual_seed", "manual_seed_all", "initial_seed", "Stream", "stream", "set_stream", "current_stream", "default_stream",
         "Event", "empty_cache", "memory_allocated", "max_memory_allocated", "reset_max_memory_allocated", "memory_cached",
         "max_memory_cached", "reset_max_memory_cached", "memory_stats", "reset_peak_memory_stats", "memory_reserved",
         "max_memory_reserved", "is_bf16_supported", "is_current_stream_capturing")


def names(name: str) -> tuple[str, ...]:
    """The qualified names of a member of torch.cuda."""
    return (f"torch.cuda.{name}", *(f"torch.cuda.{module}.{name}" for module, members in _SUBMODULES.items() if name in members))


def _id(name: str) -> str:
    return "cuda-" + name.replace("_", "-").lower() + ("-class" if name in ("Stream", "Event") else "")


def _same(method: str) -> Rule:
    cuda, deepspeed = METHODS[method]
    to = {ANYACCEL: "{acc}." + method}
    if deepspeed:
        to[DEEPSPEED] = "{acc}." + deepspeed
    if cuda in _TORCH_ACCELERATOR:
        to[TORCH] = "torch.accelerator." + _TORCH_ACCELERATOR[cuda]
    elif cuda in ("Stream", "Event"):
        to[TORCH] = "torch." + cuda
    elif cuda == "device":
        to[TORCH] = "torch.accelerator.device_index"
    arguments = {
        "device": "0",
        "set_device": "0",
        "manual_seed": "1",
        "manual_seed_all": "1",
        "set_rng_state": "state",
        "stream": "s",
        "set_stream": "s"
    }
    call = f"({arguments.get(method, '')})"
    return Rule(_id(cuda),
                f"torch.cuda.{cuda}",
                "equivalent",
                names(cuda),
                to,
                f"The accelerator's `{method}()` has the same meaning.",
                f"torch.cuda.{cuda}{call}",
                f"get_accelerator().{method}{call}",
                runtime=method,
                review_for=(TORCH, ) if method == "is_bf16_supported" else ())


_MODULE = "torch.get_device_module({type})"

SAME = tuple(_same(method) for method in _SAME)

OTHER = (
    Rule("cuda-mem-get-info",
         "torch.cuda.mem_get_info",
         "equivalent",
         names("mem_get_info"), {
             ANYACCEL: "{acc}.memory_info",
             TORCH: "torch.accelerator.get_memory_info",
             DEEPSPEED: "({acc}.available_memory({args}), {acc}.total_memory({args}))"
         },
         "Returns the free and the total memory of a device, in bytes.",
         "free, total = torch.cuda.mem_get_info()",
         "free, total = get_accelerator().memory_info()",
         runtime="memory_info"),
    Rule("cuda-get-device-properties",
         "torch.cuda.get_device_properties",
         "review",
         names("get_device_properties"), {ANYACCEL: "{acc}.device_properties"},
         "Every accelerator has `name`, `total_memory` and a few others. Properties of NVIDIA devices, such as "
         "`multi_processor_count`, can be missing. DeepSpeed and torch.accelerator have no counterpart, but DeepSpeed has "
         "`total_memory()`.",
         "torch.cuda.get_device_properties(0)",
         "get_accelerator().device_properties(0)",
         runtime="device_properties"),
    Rule("cuda-get-device-name",
         "torch.cuda.get_device_name",
         "equivalent",
         names("get_device_name"), {ANYACCEL: "{acc}.device_properties({args}).name"},
         "The device properties contain the name. `device_name()` is not a replacement: it returns torch's name of the device, "
         "such as `cuda:0`. torch.accelerator has no `get_device_name`.",
         "torch.cuda.get_device_name(0)",
         "get_accelerator().device_properties(0).name",
         runtime="get_device_name"),
    Rule("cuda-get-device-capability",
         "torch.cuda.get_device_capability",
         "review",
         names("get_device_capability"), {ANYACCEL: "{acc}.compute_capability"},
         "Only some vendors define a compute capability; `compute_capability()` raises an error for the others. Query "
         "the feature instead: `is_bf16_supported()`, `is_triton_supported()`, `create_op_builder(name).is_compatible()`.",
         "torch.cuda.get_device_capability()",
         "get_accelerator().compute_capability()",
         runtime="compute_capability"),
    Rule("cuda-default-generators",
         "torch.cuda.default_generators",
         "equivalent", ("torch.cuda.default_generators", ), {
             ANYACCEL: "{acc}.default_generator({0})",
             DEEPSPEED: "{acc}.default_generator({0})"
         },
         "`default_generator(i)` returns the generator of device i.",
         "torch.cuda.default_generators[0]",
         "get_accelerator().default_generator(0)",
         runtime="default_generators"),
    Rule("cuda-seed",
         "torch.cuda.seed and seed_all",
         "review", (*names("seed"), *names("seed_all")), {
             ANYACCEL: _MODULE + ".{name}",
             TORCH: _MODULE + ".{name}",
             DEEPSPEED: _MODULE + ".{name}"
         },
         "The accelerator cannot seed itself with a random number, but the device's module in torch usually can. On the CPU, call "
         "`torch.seed()`.",
         "torch.cuda.seed()",
         "torch.get_device_module(get_accelerator().device_name()).seed()",
         runtime="seed"),
    Rule("cuda-rng-state-all",
         "torch.cuda.get_rng_state_all and set_rng_state_all",
         "review", (*names("get_rng_state_all"), *names("set_rng_state_all")), {
             ANYACCEL: _MODULE + ".{name}",
             TORCH: _MODULE + ".{name}",
             DEEPSPEED: _MODULE + ".{name}"
         }, "The accelerator has `get_rng_state(i)` and `set_rng_state(state, i)` for one device. The device's module in torch "
         "usually has the functions for all devices. On the CPU, use `torch.get_rng_state()`.",
         "torch.cuda.get_rng_state_all()",
         "torch.get_device_module(get_accelerator().device_name()).get_rng_state_all()",
         runtime="rng_state_all"),
    Rule("cuda-memory-report",
         "torch.cuda.memory_summary, memory_snapshot and others",
         "review",
         tuple(n for m in ("memory_summary", "memory_snapshot", "memory_stats_as_nested_dict", "list_gpu_processes",
                           "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "get_per_process_memory_fraction")
               for n in names(m)), {
                   ANYACCEL: _MODULE + ".{name}",
                   TORCH: _MODULE + ".{name}",
                   DEEPSPEED: _MODULE + ".{name}"
               },
         "The accelerator has `memory_stats()`. The device's module in torch has the other reports only on some accelerators.",
         "torch.cuda.memory_summary()",
         "torch.get_device_module(get_accelerator().device_name()).memory_summary()",
         runtime="device_module"),
    Rule("cuda-host-memory-stats",
         "torch.cuda.host_memory_stats",
         "equivalent",
         names("host_memory_stats"), {ANYACCEL: "{acc}.host_memory_stats"},
         "Returns statistics about pinned host memory.",
         "torch.cuda.host_memory_stats()",
         "get_accelerator().host_memory_stats()",
         runtime="host_memory_stats"),
    Rule("cuda-init",
         "torch.cuda.init and is_initialized",
         "review", ("torch.cuda.init", "torch.cuda.is_initialized"), {
             ANYACCEL: _MODULE + ".{name}",
             TORCH: _MODULE + ".{name}",
             DEEPSPEED: _MODULE + ".{name}"
         },
         "Accelerators initialize themselves on first use, so the call is usually unnecessary.",
         "torch.cuda.init()",
         "torch.get_device_module(get_accelerator().device_name()).init()",
         runtime="device_module"),
    Rule("cuda-graph-class",
         "torch.cuda.CUDAGraph",
         "review",
         names("CUDAGraph"), {
             ANYACCEL: "{acc}.create_graph",
             TORCH: "torch.accelerator.Graph",
             DEEPSPEED: "{acc}.create_graph"
         },
         "`create_graph()` returns None, or raises an error, on devices without graphs. Replay with `replay_graph(graph)`.",
         "g = torch.cuda.CUDAGraph()",
         "g = get_accelerator().create_graph()",
         runtime="create_graph"),
    Rule("cuda-graph",
         "torch.cuda.graph",
         "review",
         names("graph"), {
             ANYACCEL: "{acc}.capture_to_graph",
             DEEPSPEED: "{acc}.capture_to_graph"
         },
         "`capture_to_graph(graph, pool, stream)` captures the work in its block. Not all devices have graphs.",
         "with torch.cuda.graph(g):\n    y = f(x)",
         "with get_accelerator().capture_to_graph(g):\n    y = f(x)",
         runtime="same"),
    Rule("cuda-graph-helpers",
         "torch.cuda.make_graphed_callables and graph_pool_handle",
         "review", (*names("make_graphed_callables"), *names("graph_pool_handle")), {
             ANYACCEL: _MODULE + ".{name}",
             TORCH: _MODULE + ".{name}",
             DEEPSPEED: _MODULE + ".{name}"
         },
         "The device's module in torch has this function only if torch supports graphs for the device.",
         "torch.cuda.graph_pool_handle()",
         "torch.get_device_module(get_accelerator().device_name()).graph_pool_handle()",
         runtime="same"),
    Rule("cuda-nvtx-range",
         "torch.cuda.nvtx.range_push and range_pop",
         "equivalent", ("torch.cuda.nvtx.range_push", "torch.cuda.nvtx.range_pop"), {
             ANYACCEL: "{acc}.{name}",
             DEEPSPEED: "{acc}.{name}"
         },
         "Marks a range for the vendor's profiler.",
         'torch.cuda.nvtx.range_push("step")',
         'get_accelerator().range_push("step")',
         runtime="nvtx"),
    Rule("cuda-nvtx-other",
         "other functions of torch.cuda.nvtx",
         "review", ("torch.cuda.nvtx.range", "torch.cuda.nvtx.mark", "torch.cuda.nvtx.range_start", "torch.cuda.nvtx.range_end",
                    "torch.cuda.nvtx"), {
                        ANYACCEL: "torch.profiler.record_function",
                        TORCH: "torch.profiler.record_function",
                        DEEPSPEED: "torch.profiler.record_function"
                    },
         "torch.profiler.record_function marks a range on every device. Marks without a duration have no counterpart.",
         'with torch.cuda.nvtx.range("step"):\n    f()',
         'with torch.profiler.record_function("step"):\n    f()',
         runtime="nvtx"),
    Rule("cuda-oom-error",
         "torch.cuda.OutOfMemoryError",
         "equivalent", ("torch.cuda.OutOfMemoryError", ), {
             ANYACCEL: "torch.OutOfMemoryError",
             TORCH: "torch.OutOfMemoryError",
             DEEPSPEED: "torch.OutOfMemoryError"
         },
         "torch.OutOfMemoryError is the same class, and other accelerators raise it too.",
         "try:\n    f()\nexcept torch.cuda.OutOfMemoryError:\n    raise",
         "try:\n    f()\nexcept torch.OutOfMemoryError:\n    raise",
         runtime="same"),
    Rule("cuda-lazy-call",
         "torch.cuda._lazy_call",
         "equivalent", ("torch.cuda._lazy_call", ), {
             ANYACCEL: "{acc}.lazy_call",
             DEEPSPEED: "{acc}.lazy_call"
         },
         "Runs a function when the device is initialized.",
         "torch.cuda._lazy_call(f)",
         "get_accelerator().lazy_call(f)",
         runtime="lazy_call"),
    Rule(
        "cuda-cudart-register", "torch.cuda.cudart().cudaHostRegister", "review", ("torch.cuda.cudart", ), {},
        "This calls the CUDA runtime directly. For host memory, use `register_host_memory()` and `unregister_host_memory()`. For "
        "the profiler, use torch.profiler.", "torch.cuda.cudart().cudaHostRegister(p, n, 0)"),
)

_DTYPES = {
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "DoubleTensor": "float64",
    "FloatTensor": "float32",
    "HalfTensor": "float16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
    "CharTensor": "int8",
    "ShortTensor": "int16"
}


def _tensor_type(name: str, dtype: str) -> Rule:
    general = f"torch.tensor({{args}}, dtype=torch.{dtype}, device={{type}})"
    to = {target: "{acc}." + name if name in METHODS else general for target in (ANYACCEL, DEEPSPEED)} | {TORCH: general}
    after = f"get_accelerator().{name}([1, 2])"
    if name not in METHODS:
        after = f"torch.tensor([1, 2], dtype=torch.{dtype}, device=get_accelerator().device_name())"
    return Rule(
        f"cuda-{name.lower()}",
        f"torch.cuda.{name}",
        "equivalent", (f"torch.cuda.{name}", ),
        to, "Creates a tensor of this dtype on the accelerator. If the arguments are sizes instead of data, torch.empty() is the "
        "replacement.",
        f"torch.cuda.{name}([1, 2])",
        after,
        runtime=name if name in METHODS else "")


TENSOR_TYPES = tuple(_tensor_type(name, dtype) for name, dtype in _DTYPES.items())

AMP = (
    Rule("cuda-amp-autocast",
         "torch.cuda.amp.autocast",
         "equivalent", ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"), {
             ANYACCEL: "torch.autocast({type}, {args})",
             TORCH: "torch.autocast({type}, {args})",
             DEEPSPEED: "torch.autocast({type}, {args})"
         },
         "torch.autocast takes the device type. Its default dtype depends on the device, so the replacement names float16, the default "
         "of torch.cuda.amp.",
         "with torch.cuda.amp.autocast(enabled=True):\n    y = model(x)",
         "with torch.autocast(get_accelerator().device_name(), enabled=True, dtype=torch.float16):\n    y = model(x)",
         runtime="amp_autocast"),
    Rule("cuda-amp-grad-scaler",
         "torch.cuda.amp.GradScaler",
         "equivalent", ("torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"), {
             ANYACCEL: "torch.amp.GradScaler({type}, {args})",
             TORCH: "torch.amp.GradScaler({type}, {args})",
             DEEPSPEED: "torch.amp.GradScaler({type}, {args})"
         },
         "torch.amp.GradScaler takes the device type.",
         "scaler = torch.cuda.amp.GradScaler()",
         "scaler = torch.amp.GradScaler(get_accelerator().device_name())",
         runtime="amp_grad_scaler"),
    Rule("grad-scaler-default",
         "torch.amp.GradScaler without a device",
         "equivalent", ("call:torch.amp.GradScaler()", ), {
             ANYACCEL: "{type}",
             TORCH: "{type}",
             DEEPSPEED: "{type}"
         },
         "Without a device, torch.amp.GradScaler uses CUDA, and is disabled on other accelerators.",
         "scaler = torch.amp.GradScaler()",
         "scaler = torch.amp.GradScaler(get_accelerator().device_name())"),
    Rule("cuda-amp-custom-function",
         "torch.cuda.amp.custom_fwd and custom_bwd",
         "equivalent", ("torch.cuda.amp.custom_fwd", "torch.cuda.amp.custom_bwd", "torch.cuda.amp.autocast_mode.custom_fwd",
                        "torch.cuda.amp.autocast_mode.custom_bwd"), {
                            ANYACCEL: "torch.amp.{name}({args}, device_type={type})",
                            TORCH: "torch.amp.{name}({args}, device_type={type})",
                            DEEPSPEED: "torch.amp.{name}({args}, device_type={type})"
                        },
         "torch.amp.custom_fwd and custom_bwd take the device type. A plain decorator becomes a call.",
         "@torch.cuda.amp.custom_fwd\ndef forward(ctx, x): ...",
         "@torch.amp.custom_fwd(device_type=get_accelerator().device_name())\ndef forward(ctx, x): ...",
         runtime="amp_custom"),
    Rule("cuda-amp", "torch.cuda.amp", "review", ("torch.cuda.amp", ), {
        ANYACCEL: "torch.amp",
        TORCH: "torch.amp",
        DEEPSPEED: "torch.amp"
    }, "torch.amp has the same functions, but they take the device type.", "amp = torch.cuda.amp", "amp = torch.amp"),
)

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

NO_EQUIVALENT = tuple(
    Rule(rule, names_[0], "none", (*names_, *(n + ".*" for n in names_)), {}, why, before=names_[0], runtime=_AT_RUN_TIME.get(rule, ""))
    for rule, (names_, why) in _NO_EQUIVALENT.items())

# Members that no other rule covers, such as new functions, and the module itself as a value.
REST = (
    Rule("cuda-module", "torch.cuda as a value", "review", ("torch.cuda", ), {
        ANYACCEL: _MODULE,
        TORCH: _MODULE,
        DEEPSPEED: _MODULE
    }, "torch.get_device_module returns the device's module, which has most of torch.cuda's functions on most accelerators.",
         "device_module = torch.cuda", "device_module = torch.get_device_module(get_accelerator().device_name())"),
    Rule("cuda-other", "another member of torch.cuda", "review", ("torch.cuda.*", ), {},
         "No rule covers this member. Look for it in the device's module, torch.get_device_module(...).",
         "torch.cuda.something()"),
)

RULES = (*SAME, *OTHER, *TENSOR_TYPES, *AMP, *NO_EQUIVALENT, *REST)
