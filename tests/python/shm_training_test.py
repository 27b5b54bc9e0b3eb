"""Training with the "shm" backend: DDP, ZeRO, fully_shard and DTensor have the same losses as with
gloo.
"""
import json
import sys

import pytest
import shm_ranks
import torch
import torch.distributed as dist
from shm_ranks import launch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

STEPS = 5


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)


def losses_of(model, optimizer, rank, clip=False):
    losses = []
    for step in range(STEPS):
        x, y = batch(step, rank)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(rank, size):
    model = DistributedDataParallel(make_model(), bucket_cap_mb=0.01, find_unused_parameters=True)
    return losses_of(model, torch.optim.AdamW(model.parameters(), lr=0.01), rank)


def ddp_static(rank, size):
    """Gradients are views into buckets, and are sent as float16."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    model = DistributedDataParallel(make_model(), gradient_as_bucket_view=True, static_graph=True)
    model.register_comm_hook(None, fp16_compress_hook)
    return losses_of(model, torch.optim.AdamW(model.parameters(), lr=0.01), rank)


def zero(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DistributedDataParallel(make_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
    losses = losses_of(model, optimizer, rank)
    optimizer.consolidate_state_dict(to=0)
    return losses


def fully_sharded(rank, size):
    from torch.distributed.fsdp import fully_shard
    model = make_model()
    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return losses_of(model, torch.optim.AdamW(model.parameters(), lr=0.01), rank, clip=True)


def fsdp1(rank, size):
    from torch.distributed.fsdp import FullyShardedDataParallel
    model = FullyShardedDataParallel(make_model(), device_id=torch.device("cpu"))
    return losses_of(model, torch.optim.AdamW(model.parameters(), lr=0.01), rank)


def tensor_parallel(rank, size):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(48.0).view(6, 8)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(placements=[Shard(1)]).full_tensor(), whole)
    assert torch.equal((sharded @ sharded.t()).redistribute(placements=[Replicate()]).to_local(), whole @ whole.t())
    model = parallelize_module(make_model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return losses_of(model, torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False), 0)


PROGRAMS = [ddp, ddp_static, zero, fully_sharded, fsdp1, tensor_parallel]


def run_training(rank, size):
    losses = {}
    for program in PROGRAMS:
        losses[program.__name__] = program(rank, size)
        dist.barrier()
    print("losses", json.dumps(losses), flush=True)
    dist.destroy_process_group()


def losses_with(backend):
    return [json.loads(output.split("losses ", 1)[1].splitlines()[0]) for output in launch(__file__, "run_training", 2, backend=backend)]


# Fails if a training program that works with gloo fails with shm, or computes different losses.
def test_losses_equal_those_of_gloo():
    ours, theirs = losses_with("shm"), losses_with("gloo")
    for rank in range(2):
        for program in PROGRAMS:
            got, want = ours[rank][program.__name__], theirs[rank][program.__name__]
            assert len(got) == STEPS and got[-1] != got[0], program.__name__
            assert got == pytest.approx(want, rel=1e-6), program.__name__
    assert ours[0]["ddp"] == theirs[0]["ddp"]  # sums of two numbers do not depend on the order


if __name__ == "__main__" and sys.argv[1:2] == ["rank"]:
    shm_ranks.run(globals())
