"""Rules for device names in strings, methods of tensors and modules, torch.distributed and settings
of torch in Python programs.
"""

from .rule import ANYACCEL, DEEPSPEED, TORCH, Rule

_ALL = (ANYACCEL, TORCH, DEEPSPEED)


def _to(both: str | None, torch: str | None) -> dict[str, str]:
    """Replacements by target. `both` is for anyaccel and DeepSpeed."""
    return {**({ANYACCEL: both, DEEPSPEED: both} if both else {}), **({TORCH: torch} if torch else {})}


def _same(text: str) -> dict[str, str]:
    return dict.fromkeys(_ALL, text)


DEVICES = (
    Rule("device-string",
         'the device name "cuda"',
         "equivalent", ("string:cuda", ),
         _same("{type}"),
         "`device_name()` returns torch's name of the accelerator's device type. It is a plain string, so code that compares or formats "
         "it keeps working.",
         'x = torch.ones(4, device="cuda")',
         "x = torch.ones(4, device=get_accelerator().device_name())",
         runtime="device"),
    Rule("device-string-index",
         'a device name with an index: "cuda:1", f"cuda:{rank}"',
         "equivalent", ("string:cuda:N", ),
         _to("{acc}.device_name({0})", 'f"{{type}}:{{0}}"'),
         "`device_name(i)` returns the name of one device. Accelerators whose devices have no index, such as cpu, return the plain "
         "name.",
         'x.to(f"cuda:{rank}")',
         "x.to(get_accelerator().device_name(rank))",
         runtime="device"),
    Rule("device-choice",
         'the choice between "cuda" and "cpu"',
         "equivalent", ("string:cuda if available else cpu", ),
         _same("{type}"),
         "The replacement selects the CPU on a machine without an accelerator.",
         'device = "cuda" if torch.cuda.is_available() else "cpu"',
         "device = get_accelerator().device_name()",
         runtime="device"),
    Rule("device-string-unclear", 'the string "cuda" with an unclear use', "review", ("string:cuda?", ), _same("{type}"),
         "The string is probably a device name. Replace it if it is passed to torch; leave it if it is text.", 'names = ["cuda"]',
         "names = [get_accelerator().device_name()]"),
    Rule("device-comparison",
         'a comparison with "cuda"',
         "equivalent", ("string:compare cuda", ),
         _same("{type}"),
         "After the replacement, every accelerator takes the branch that CUDA takes now. The finding needs review if the other "
         "operand is not clearly a device, or if the branch is only for CUDA.",
         'if x.device.type == "cuda": ...',
         "if x.device.type == get_accelerator().device_name(): ...",
         runtime="device"),
    Rule("device-index-bare",
         "an integer used as a device",
         "equivalent", ("device:integer", ),
         _to("{acc}.device_name({0})", None),
         "torch treats an integer as an index of the current accelerator, and as a CUDA device in builds without an accelerator.",
         "x.to(rank)",
         "x.to(get_accelerator().device_name(rank))",
         runtime="device"),
    Rule("tensor-type-string",
         'a tensor type such as "torch.cuda.FloatTensor"',
         "equivalent", ("string:torch.cuda.FloatTensor", ),
         _same("{self}.to({type}, torch.float32)"),
         "Other accelerators have no tensor types. Use a dtype and a device instead.",
         'x.type("torch.cuda.FloatTensor")',
         "x.to(get_accelerator().device_name(), torch.float32)",
         runtime="tensor_type"),
    Rule("device-map-index", "an integer in a device map", "review", ("device:device_map", ), _to("{acc}.device_name({0})", None),
         "Accelerate treats an integer as an index of the current accelerator. Older versions treat it as a CUDA device. On the "
         "CPU, a device map must name `cpu`.", 'device_map = {"": 0}', 'device_map = {"": get_accelerator().device_name(0)}'),
    Rule("message-out-of-memory", "a check for CUDA's out-of-memory message", "review", ("string:CUDA out of memory", ),
         _same("isinstance({self}, torch.OutOfMemoryError)"),
         "The message differs between accelerators, but all of them raise torch.OutOfMemoryError.",
         'try:\n    f()\nexcept RuntimeError as e:\n    if "CUDA out of memory" not in str(e):\n        raise'),
)

METHODS = (
    Rule("tensor-cuda",
         ".cuda()",
         "equivalent", ("method:cuda", "torch.Tensor.cuda", "torch.nn.Module.cuda"),
         _same("{self}.to({device})"),
         "`.to(device)` does the same for tensors and modules.",
         "model = model.cuda()",
         "model = model.to(get_accelerator().device_name())",
         runtime="tensor_cuda"),
    Rule("tensor-is-cuda",
         ".is_cuda",
         "equivalent", ("attribute:is_cuda", ),
         _to("{acc}.on_accelerator({self})", '({self}.device.type != "cpu")'),
         "`on_accelerator(x)` returns whether a tensor is on the accelerator. On the CPU, it is true for all tensors.",
         "assert x.is_cuda",
         "assert get_accelerator().on_accelerator(x)",
         runtime="is_cuda"),
    Rule("tensor-pin-memory",
         ".pin_memory()",
         "equivalent", ("method:pin_memory", ),
         _to("{acc}.pin_memory({self})", None),
         "Without an accelerator, `Tensor.pin_memory()` raises an error. `get_accelerator().pin_memory(x)` also works on the "
         "CPU. The finding needs review if the object may not be a tensor.",
         "x = torch.ones(4).pin_memory()",
         "x = get_accelerator().pin_memory(torch.ones(4))"),
    Rule("record-stream",
         ".record_stream()",
         "review", ("method:record_stream", ), {}, "The call can stay for devices with streams. torch does not support it for CPU "
         "tensors: guard it with `if not get_accelerator().is_synchronized_device():`.",
         "x.record_stream(s)"),
)

DISTRIBUTED = (
    Rule("nccl",
         'the backend "nccl"',
         "equivalent", ("string:nccl", "torch.distributed.Backend.NCCL"),
         _to("{acc}.communication_backend_name()", "torch.distributed.get_default_backend_for_device({type})"),
         "Each accelerator has its own communication backend, such as nccl, gloo, xccl or hccl.",
         'dist.init_process_group("nccl")',
         "dist.init_process_group(get_accelerator().communication_backend_name())",
         runtime="nccl"),
    Rule("ddp-device-ids",
         "device_ids of DistributedDataParallel",
         "equivalent", ("torch.nn.parallel.DistributedDataParallel:device_ids", ),
         _to("None if {acc}.is_synchronized_device() else {0}", None),
         "On the CPU, DistributedDataParallel rejects `device_ids` and `output_device`.",
         "torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])",
         "torch.nn.parallel.DistributedDataParallel(model, device_ids=None if get_accelerator().is_synchronized_device() else [rank])"),
    Rule("nccl-other", "another use of NCCL", "review",
         ("torch.distributed.ProcessGroupNCCL", "torch.distributed.ProcessGroupNCCL.*", "torch.distributed.is_nccl_available"), {},
         "Other accelerators use other backends, so NCCL and its options have no effect there.", "torch.distributed.is_nccl_available()"),
    Rule("nccl-average", "the reduction ReduceOp.AVG", "review", ("torch.distributed.ReduceOp.AVG", ), {},
         "torch documents this reduction for NCCL only, and gloo rejects it. Divide by the number of ranks before "
         "or after a sum. AnyAccel's staged backend supports it.",
         "torch.distributed.all_reduce(x, op=torch.distributed.ReduceOp.AVG)"),
)

SETTINGS = (
    Rule("cudnn",
         "torch.backends.cudnn",
         "none", ("torch.backends.cudnn", "torch.backends.cudnn.*"), {},
         "These settings affect only cuDNN. They have no effect on other accelerators and can stay.",
         "torch.backends.cudnn.benchmark = True",
         harmless=True,
         runtime="ignore"),
    Rule("cuda-math-settings",
         "torch.backends.cuda",
         "none", ("torch.backends.cuda", "torch.backends.cuda.*"), {},
         "These settings affect only cuBLAS and CUDA's attention kernels. They have no effect on other accelerators and can stay. "
         "The portable setting for TF32 is `torch.set_float32_matmul_precision()`.",
         "torch.backends.cuda.matmul.allow_tf32 = True",
         harmless=True,
         runtime="ignore"),
    Rule("attention-backend", "an attention backend that only some devices have", "review",
         tuple(f"torch.nn.attention.SDPBackend.{name}" for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")), {},
         "scaled_dot_product_attention raises an error if the device has none of the selected backends. Add `SDPBackend.MATH`, "
         "which every device supports, or remove the selection. Selections with this backend are not reported.",
         "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)"),
    Rule("version-cuda", "torch.version.cuda", "none", ("torch.version.cuda", "torch.has_cuda"), {},
         "The CUDA version that torch was built for, or None in builds without CUDA. Code that parses it needs a default.", "torch.version.cuda"),
    Rule("profiler-activity", "ProfilerActivity.CUDA", "equivalent",
         ("torch.profiler.ProfilerActivity.CUDA", "torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.profile:use_cuda"),
         _same("torch.profiler.supported_activities()"),
         "`torch.profiler.supported_activities()` returns the activities that this build of torch supports.",
         "torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])",
         "torch.profiler.profile(activities=torch.profiler.supported_activities())"),
    Rule("profiler-cuda-time", "profiler columns with cuda in their names", "equivalent",
         ("string:cuda_time_total", "attribute:cuda_time_total"), _same("{name}"),
         "torch.profiler uses the column names device_time, device_time_total and device_memory_usage for all accelerators.",
         'print(prof.key_averages().table(sort_by="cuda_time_total"))',
         'print(prof.key_averages().table(sort_by="device_time_total"))'),
    Rule("cuda-stream-handle", ".cuda_stream", "none", ("attribute:cuda_stream", "attribute:cuda_event"), {},
         "This is the native handle of a CUDA stream or event. Only CUDA functions accept it.", "torch.cuda.current_stream().cuda_stream"),
    Rule("inductor-cudagraphs",
         "torch.compile's settings for CUDA graphs",
         "none", ("torch._inductor.config.triton.cudagraphs", "torch._inductor.config.triton.cudagraph_trees",
                  "torch._inductor.cudagraph_trees", "torch._inductor.cudagraph_trees.*",
                  "torch.profiler._utils._init_for_cuda_graphs", "torch.compiler.cudagraph_mark_step_begin"), {},
         "torch.compile uses these settings only for CUDA. They can stay.",
         "torch._inductor.config.triton.cudagraphs = True",
         harmless=True),
    Rule("cuda-private", "torch's private functions for CUDA", "none", ("torch._C._cuda*", ), {},
         "These functions belong to torch's CUDA backend. Other accelerators do not have them.", "torch._C._cuda_clearCublasWorkspaces()"),
    Rule("data-parallel", "torch.nn.DataParallel", "review",
         ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel",
          "torch.nn.parallel.replicate", "torch.nn.parallel.data_parallel.DataParallel"), {},
         "DataParallel drives several devices from one process, which torch supports well only on CUDA. Use DistributedDataParallel with one process "
         "per device.", "model = torch.nn.DataParallel(model)"),
    Rule("dispatch-key", 'the dispatch key "CUDA"', "review", ("string:dispatch CUDA", ), {},
         "The op is registered only for CUDA. Register it for other dispatch keys too.", 'library.impl("op", kernel, "CUDA")'),
)

ENVIRONMENT = (
    Rule(
        "visible-devices", "CUDA_VISIBLE_DEVICES", "review", ("env:CUDA_VISIBLE_DEVICES", ),
        _to("{acc}.visible_devices_envs()[0]", None),
        "Each vendor has its own variable. `visible_devices_envs()` returns the names for this accelerator, and "
        "`set_visible_devices_envs(env, ids)` sets them.", 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"', 'get_accelerator().set_visible_devices_envs(os.environ, ["0"])'),
    Rule("cuda-variable",
         "another environment variable of CUDA or NCCL",
         "review", ("env:CUDA_*", "env:NCCL_*", "env:TORCH_CUDA_*", "env:PYTORCH_CUDA_*", "env:NVIDIA_*", "env:TORCH_NCCL_*"), {},
         "The variable has no effect on other accelerators. Other vendors have their own variables.",
         'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
         harmless=True),
)

RULES = (*DEVICES, *METHODS, *DISTRIBUTED, *SETTINGS, *ENVIRONMENT)
