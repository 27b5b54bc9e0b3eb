"""Runs the pinned-memory benchmark with one library: times the first and the repeated allocation of
locked memory.

usage: pin_memory.py anyaccel|deepspeed|mlock
"""
import ctypes
import json
import mmap
import sys
import time

SIDE = sys.argv[1]
BYTES = 256 << 20
TIMES = 5


def anyaccel_side():
    import torch

    import anyaccel
    pin = anyaccel.get_accelerator().create_op_builder("PinMemoryBuilder").load()
    handle, example = pin.pin_handle(), torch.empty(0, dtype=torch.uint8)
    return lambda: handle.new_cpu_locked_tensor(BYTES, example), handle.free_cpu_locked_tensor, pin.trim


def deepspeed_side():
    import torch
    from deepspeed.ops.op_builder import AsyncIOBuilder
    handle, example = AsyncIOBuilder().load().aio_handle(), torch.empty(0, dtype=torch.uint8)
    return lambda: handle.new_cpu_locked_tensor(BYTES, example), handle.free_cpu_locked_tensor, lambda: None


def mlock_side():
    libc = ctypes.CDLL(None, use_errno=True)

    def take():
        memory = mmap.mmap(-1, BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory))), ctypes.c_size_t(BYTES)):
            raise OSError(ctypes.get_errno(), "mlock")
        return memory

    return take, lambda memory: memory.close(), lambda: None


def best(take, give, between):
    least = float("inf")
    for _ in range(TIMES):
        begin = time.perf_counter()
        memory = take()
        least = min(least, time.perf_counter() - begin)
        give(memory)
        del memory
        between()
    return 1e3 * least


take, give, trim = {"anyaccel": anyaccel_side, "deepspeed": deepspeed_side, "mlock": mlock_side}[SIDE]()
out = {"first_ms": best(take, give, trim)}
give(take())
out["again_ms"] = best(take, give, lambda: None)
print(json.dumps(out))
