"""Times DeepSpeed's optimizer-state swapper with DeepSpeed's async_io or with AnyAccel's, and
prints GB/s.

usage: deepspeed_swap.py FOLDER stock|ours
"""
import contextlib
import json
import os
import shutil
import statistics
import sys
import time
import types

COUNT, STATES, PARAMETERS, TURNS = 16 << 20, 2, 2, 3


def drop_caches(folder):
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(folder):
    import torch

    import deepspeed
    from deepspeed.runtime.swap_tensor.aio_config import AIO_DEFAULT_DICT
    from deepspeed.runtime.swap_tensor.partitioned_optimizer_swapper import PartitionedOptimizerSwapper
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    parameters = [torch.nn.Parameter(torch.randn(COUNT)) for _ in range(PARAMETERS)]
    for number, parameter in enumerate(parameters):
        parameter.ds_id = str(number)
    optimizer = torch.optim.Adam(parameters)
    swapper = PartitionedOptimizerSwapper(types.SimpleNamespace(buffer_count=1 + STATES), AIO_DEFAULT_DICT, folder, optimizer, COUNT, "cpu", torch.float32,
                                          timers=None)
    swapper.initialize_parameters(parameters, [parameter.data.clone() for parameter in parameters])
    times = {"in": [], "out": []}
    for turn in range(TURNS + 1):
        for parameter in parameters:
            drop_caches(folder)
            begin = time.perf_counter()
            swapper.swap_in_optimizer_state(parameter)
            middle = time.perf_counter()
            if turn == 0:
                optimizer.state[parameter] = {"exp_avg": torch.randn(COUNT), "exp_avg_sq": torch.randn(COUNT)}
            out_begin = time.perf_counter()
            swapper.swap_out_optimizer_state(parameter)
            if turn > 0:  # the first pass creates the files
                times["in"].append(middle - begin)
                times["out"].append(time.perf_counter() - out_begin)
    size = COUNT * 4 * (1 + STATES)
    return {f"{way}_gb_s": size / statistics.median(values) / 1e9 for way, values in times.items()}


def main(folder, side):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with contextlib.redirect_stdout(sys.stderr):
        if side == "ours":
            import anyaccel.deepspeed  # noqa: F401
        numbers = measure(folder)
    shutil.rmtree(folder)
    print(json.dumps(numbers))


main(*sys.argv[1:])
