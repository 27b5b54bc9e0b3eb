"""Trains with DeepSpeed, either unmodified ("stock") or on AnyAccel ("ours").

usage: deepspeed_steps.py train|first stock|ours
       deepspeed_steps.py build    build DeepSpeed's own ops if DeepSpeed is installed
"""
import contextlib
import importlib.util
import json
import statistics
import sys
import time

STEPS, WARM_UP = 30, 5


def build():
    if importlib.util.find_spec("deepspeed") is not None:
        from deepspeed.ops.op_builder import AsyncIOBuilder, CPUAdamBuilder
        for builder in (CPUAdamBuilder, AsyncIOBuilder):
            builder().load(verbose=False)


def first():
    import torch

    from deepspeed.ops.adam import DeepSpeedCPUAdam
    parameter = torch.nn.Parameter(torch.ones(1 << 20))
    parameter.grad = torch.ones(1 << 20)
    DeepSpeedCPUAdam([parameter], lr=1e-3).step()


def train():
    import torch

    import deepspeed
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, norm_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(256, 256), torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                                torch.nn.Linear(256, 256))
    config = {"train_batch_size": 1, "zero_optimization": {"stage": 1}}
    optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam(model.parameters(), lr=1e-3)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    engine = deepspeed.initialize(model=model, config=config, optimizer=optimizer)[0]
    tokens = torch.randint(0, 256, (1, 257))
    times = []
    for _ in range(WARM_UP + STEPS):
        begin = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(engine(tokens[:, :-1]).view(-1, 256), tokens[:, 1:].reshape(-1))
        engine.backward(loss)
        engine.step()
        times.append((time.perf_counter() - begin) * 1e3)
    return {"step_ms": statistics.median(times[WARM_UP:])}


def main(what, side=None):
    with contextlib.redirect_stdout(sys.stderr):
        if side == "ours":
            import anyaccel.deepspeed  # noqa: F401
        numbers = {"train": train, "first": first, "build": build}[what]()
    if numbers:
        print(json.dumps(numbers))


main(*sys.argv[1:])
