"""Rules for the functions and classes of torch.cuda.

methods.py, which tools/methods generates from include/anyaccel/accelerator.h, names the
counterparts of each method in torch.cuda and in DeepSpeed; most rules here derive from it.
"""

from . import cuda_amp, cuda_functions, cuda_only
from .cuda_names import names
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

# Methods whose counterpart in torch.cuda has the same meaning and takes the same arguments.
_SAME = ("is_available", "device", "set_device", "current_device", "device_count", "synchronize", "set_rng_state", "get_rng_state",
         "manual_seed", "manual_seed_all", "initial_seed", "Stream", "stream", "set_stream", "current_stream", "default_stream",
         "Event", "empty_cache", "memory_allocated", "max_memory_allocated", "reset_max_memory_allocated", "memory_cached",
         "max_memory_cached", "reset_max_memory_cached", "memory_stats", "reset_peak_memory_stats", "memory_reserved",
         "max_memory_reserved", "is_bf16_supported", "is_current_stream_capturing")


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


SAME = tuple(_same(method) for method in _SAME)

# Members that no other rule covers, such as new functions, and the module itself as a value.
REST = (
    Rule("cuda-module", "torch.cuda as a value", "review", ("torch.cuda", ), {
        ANYACCEL: cuda_functions.MODULE,
        TORCH: cuda_functions.MODULE,
        DEEPSPEED: cuda_functions.MODULE
    }, "torch.get_device_module returns the device's module, which has most of torch.cuda's functions on most accelerators.",
         "device_module = torch.cuda", "device_module = torch.get_device_module(get_accelerator().device_name())"),
    Rule("cuda-other", "another member of torch.cuda", "review", ("torch.cuda.*", ), {},
         "No rule covers this member. Look for it in the device's module, torch.get_device_module(...).",
         "torch.cuda.something()"),
)

RULES = (*SAME, *cuda_functions.RULES, *cuda_amp.RULES, *cuda_only.RULES, *REST)
