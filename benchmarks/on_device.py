"""Setup and timing for GPU benchmarks."""
import math
import os
import sys
import time

import torch

import anyaccel


def with_builders(*names):
    """Load these ops and return the accelerator and its torch device.

    Exit the program if the accelerator or an op is unavailable, or if the only argument is `needs`.
    """
    os.environ.setdefault("DS_ACCELERATOR", "cuda")
    try:
        accelerator = anyaccel.get_accelerator()
    except anyaccel.Error as error:
        sys.exit(f"SKIP: {error}")
    if sys.argv[1:] == ["needs"]:
        sys.exit()
    for name in names:
        builder = accelerator.create_op_builder(name)
        if not builder.compatibility().compatible:
            print(f"SKIP: {builder.compatibility().reason}")
            sys.exit(77)
        builder.load()
    return accelerator, torch.device(accelerator.current_device_name())


def seconds(calls, synchronize):
    """Return the seconds per call of back-to-back calls: the best of five rounds."""
    for call in calls[:3]:
        call()
    synchronize()
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for call in calls:
            call()
        synchronize()
        best = min(best, (time.perf_counter() - start) / len(calls))
    return best
