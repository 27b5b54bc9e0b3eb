"""Times a step of CPUAdam and of its peers on the same arrays, alternating between them.

usage: cpu_adam.py PLAIN_KERNEL_LIBRARY [MILLIONS_OF_PARAMETERS...]
"""
import ctypes
import json
import os
import sys

import torch

import anyaccel
from by_turns import by_turns, wanted

NUMBERS = (1e-3, 0.9, 0.999, 1e-8, 0.01, True)


def anyaccel_step():
    ops = anyaccel.get_accelerator().create_op_builder("CPUAdamBuilder").load()
    ops.create_adam(0, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, False)
    return ops.adam_update


def deepspeed_step():
    try:
        from deepspeed.ops.op_builder import CPUAdamBuilder
    except ImportError:
        return None
    ops = CPUAdamBuilder().load(verbose=False)
    ops.create_adam(0, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, False)
    return ops.adam_update


def torch_step(p, g):
    parameter = torch.nn.Parameter(p)
    parameter.grad = g
    return torch.optim.AdamW([parameter], lr=1e-3, weight_decay=0.01, fused=True).step


def main():
    plain = ctypes.CDLL(sys.argv[1]).plain
    plain.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64, ctypes.c_int]
    ours, theirs = anyaccel_step(), wanted({"deepspeed": deepspeed_step}).get("deepspeed", lambda: None)()
    out = {}
    for millions in sys.argv[2:] or ("0.1", "1", "10", "100"):
        n = round(float(millions) * 1e6)
        for dtype, word in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            p, g = torch.randn(n).to(dtype), (torch.randn(n) * 0.01).to(dtype)
            m, v = torch.zeros(n), torch.zeros(n)
            own = [m, v] if dtype == torch.float32 else [torch.zeros(n, dtype=dtype) for _ in range(2)]
            sides = {"anyaccel": lambda: ours(0, 100, *NUMBERS, p, g, m, v),
                     "plain": lambda: plain(p.data_ptr(), g.data_ptr(), m.data_ptr(), v.data_ptr(), n, p.element_size()),
                     "own_state": lambda: ours(0, 100, *NUMBERS, p, g, *own),
                     "torch": torch_step(p, g)}
            if theirs:
                sides["deepspeed"] = lambda: theirs(0, 100, *NUMBERS, p, g, m, v)
            for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
                torch.set_num_threads(threads)
                for name, value in by_turns(sides).items():
                    out[f"{name}_{word}_{millions}M_{threads}t_us"] = value
    print(json.dumps(out))


main()
