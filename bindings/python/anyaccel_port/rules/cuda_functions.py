"""Rules for functions and classes of torch.cuda whose replacement has another name, other arguments or another
meaning.
"""

from .cuda_names import names
from .rule import ANYACCEL, DEEPSPEED, TORCH, Rule

# The device's own module, which has most of torch.cuda's functions on most accelerators.
MODULE = "torch.get_device_module({type})"

RULES = (
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
             ANYACCEL: MODULE + ".{name}",
             TORCH: MODULE + ".{name}",
             DEEPSPEED: MODULE + ".{name}"
         },
         "The accelerator cannot seed itself with a random number, but the device's module in torch usually can. On the CPU, call "
         "`torch.seed()`.",
         "torch.cuda.seed()",
         "torch.get_device_module(get_accelerator().device_name()).seed()",
         runtime="seed"),
    Rule("cuda-rng-state-all",
         "torch.cuda.get_rng_state_all and set_rng_state_all",
         "review", (*names("get_rng_state_all"), *names("set_rng_state_all")), {
             ANYACCEL: MODULE + ".{name}",
             TORCH: MODULE + ".{name}",
             DEEPSPEED: MODULE + ".{name}"
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
                   ANYACCEL: MODULE + ".{name}",
                   TORCH: MODULE + ".{name}",
                   DEEPSPEED: MODULE + ".{name}"
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
             ANYACCEL: MODULE + ".{name}",
             TORCH: MODULE + ".{name}",
             DEEPSPEED: MODULE + ".{name}"
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
             ANYACCEL: MODULE + ".{name}",
             TORCH: MODULE + ".{name}",
             DEEPSPEED: MODULE + ".{name}"
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
