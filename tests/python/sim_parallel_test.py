"""torch's parallelism on two simulated devices: DDP, FSDP, DTensor, tensor parallelism, pipeline
schedules, distributed checkpoints; also torch.export and DataLoader's pinned memory.
"""

import os
import subprocess
import sys
import tempfile

import pytest

DEVICE = "sim"


def ranks_program():
    """The program of one rank. Each check prints its name when it has passed."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.get_device_module(DEVICE).set_device(rank)
    dist.init_process_group("staged")
    mesh = init_device_mesh(DEVICE, (world,))

    def model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)

    def batch():
        return torch.arange(32.0).reshape(4, 8).div(32).to(DEVICE)

    def gradients(module):
        return [parameter.grad.cpu() for parameter in module.parameters()]

    def expected():
        reference = model()
        reference(batch()).square().mean().backward()
        return gradients(reference)

    def close(left, right):
        return len(left) == len(right) and all(torch.allclose(a, b, atol=1e-6) for a, b in zip(left, right))

    def ddp():
        parallel = torch.nn.parallel.DistributedDataParallel(model(), device_ids=[rank])
        parallel(batch()).square().mean().backward()
        assert close(gradients(parallel.module), expected())

    def send_and_receive():
        x = torch.full((4,), float(rank), device=DEVICE)
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        assert x.tolist() == [0, 0, 0, 0]

    def dtensor():
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        square = torch.arange(16.0).view(4, 4)
        sharded = distribute_tensor(square.to(DEVICE), mesh, [Shard(0)])
        assert torch.equal((sharded @ sharded.redistribute(mesh, [Replicate()])).full_tensor().cpu(), square @ square)

    def tensor_parallel():
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        split = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        assert torch.allclose(split(batch()), model()(batch()), atol=1e-6)

    def fsdp1():
        from torch.distributed.fsdp import FullyShardedDataParallel
        sharded = FullyShardedDataParallel(model(), device_id=torch.device(DEVICE, rank))
        sharded(batch()).square().mean().backward()
        assert torch.allclose(sharded(batch()), model()(batch()), atol=1e-6)

    def fsdp2():
        from torch.distributed.fsdp import fully_shard
        sharded = model()
        for layer in (sharded[0], sharded[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        optimizer = torch.optim.AdamW(sharded.parameters(), lr=1e-2)
        for step in range(2):
            loss = sharded(batch()).square().mean()
            loss.backward()
            if step == 0:
                assert close([parameter.grad.full_tensor().cpu() for parameter in sharded.parameters()], expected())
            optimizer.step()
            optimizer.zero_grad()

    def pipeline():
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
        for schedule in (ScheduleGPipe, Schedule1F1B):
            stage = PipelineStage(model()[2 * rank], rank, world, torch.device(DEVICE, rank))
            steps = schedule(stage, 4, loss_fn=lambda output, target: (output - target).square().mean())
            if rank == 0:
                steps.step(batch())
            else:
                losses = []
                steps.step(target=torch.zeros(4, 4, device=DEVICE), losses=losses)
                whole = model()
                wanted = whole[2](whole[0](batch())).square().mean()
                assert torch.allclose(torch.stack(losses).mean(), wanted, atol=1e-6)

    def checkpoint():
        import torch.distributed.checkpoint as dcp
        from torch.distributed.fsdp import fully_shard
        saved = fully_shard(model(), mesh=mesh)
        dcp.save({"model": saved.state_dict()}, checkpoint_id=sys.argv[1])
        loaded = fully_shard(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE), mesh=mesh)
        dcp.load({"model": loaded.state_dict()}, checkpoint_id=sys.argv[1])
        assert torch.allclose(loaded(batch()), model()(batch()), atol=1e-6)

    for check in (ddp, send_and_receive, dtensor, tensor_parallel, fsdp1, fsdp2, pipeline, checkpoint):
        check()
        dist.barrier()
        if rank == 0:
            print(check.__name__, flush=True)
    dist.destroy_process_group()


def load_batches():
    import torch
    import torch.utils.data
    data = torch.utils.data.TensorDataset(torch.arange(16.0))
    for method in ("fork", "spawn", "forkserver"):
        batches = torch.utils.data.DataLoader(data, 4, num_workers=1, pin_memory=True, multiprocessing_context=method)
        seen = []
        for (batch,) in batches:
            assert batch.is_pinned()
            seen += batch.to(DEVICE, non_blocking=True).cpu().tolist()
        assert seen == list(range(16)), method
        print(method, flush=True)


def run(*arguments, launcher=()):
    program = os.environ["ANYACCEL_PROGRAM"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SIM_")}
    return subprocess.run([program, *launcher, *([program] if launcher else []), "sim", "run", "--", sys.executable, "-B", __file__, *arguments],
                          capture_output=True, text=True, timeout=280, env={**environment, "DS_ACCELERATOR": "sim", "OMP_NUM_THREADS": "1"})


def test_parallelism():
    """Fails if a kind of parallelism in torch does not run on the device, or gives different
    gradients, outputs or losses than a single device.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = run(folder, launcher=("launch", "-q", "--num_accelerators", "2"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["ddp", "send_and_receive", "dtensor", "tensor_parallel", "fsdp1", "fsdp2", "pipeline", "checkpoint"]


def test_data_loader():
    """Fails if a loader's batches are not pinned, or do not arrive, for one of the start methods."""
    done = run()
    assert (done.returncode, done.stdout.split()) == (0, ["fork", "spawn", "forkserver"]), done.stdout + done.stderr


def test_export():
    """Fails if an exported program gives different results than its module."""
    os.environ["DS_ACCELERATOR"] = "sim"
    import torch

    import anyaccel
    if "sim" not in anyaccel.registered_backends():
        pytest.skip("this build has no simulator")
    anyaccel.get_accelerator()
    model, x = torch.nn.Linear(4, 4).to(DEVICE), torch.randn(2, 4, device=DEVICE)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ranks_program()
    else:
        load_batches()
