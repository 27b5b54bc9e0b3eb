"""Times DeepSpeed's Python accelerator on the same calls as calls.cpp."""
import json
import logging
import timeit

logging.disable(logging.WARNING)
from deepspeed.accelerator import get_accelerator  # noqa: E402


def nanoseconds(function):
    timer = timeit.Timer(function)
    calls, _ = timer.autorange()
    calls = max(1, calls // 20)
    return sorted(timer.repeat(repeat=7, number=calls))[3] / calls * 1e9


accelerator = get_accelerator()
print(json.dumps({
    "get_accelerator_ns": nanoseconds(get_accelerator),
    "current_device_ns": nanoseconds(accelerator.current_device),
    "device_name_ns": nanoseconds(accelerator.device_name),
    "memory_allocated_ns": nanoseconds(accelerator.memory_allocated),
}))
