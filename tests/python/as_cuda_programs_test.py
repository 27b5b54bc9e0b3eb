"""Programs as they are written for CUDA, on cpu and on the simulator. Each prints its losses, which are
compared with those of the same program with "cpu" instead of "cuda"."""

import subprocess
import sys

import pytest
from as_cuda_case import ACCELERATORS, environment, everywhere, run, run_file

TRAINING = """
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
assert torch.cuda.is_available()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4)).to(device)
assert device.type == "cpu" or all(p.is_cuda for p in model.parameters())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda")
numbers = torch.Generator().manual_seed(1)
x = torch.randn(64, 16, generator=numbers)
y = torch.randint(0, 4, (64,), generator=numbers)
for step in range(6):
    inputs, labels = x.to("cuda", non_blocking=True), y.to(device="cuda", non_blocking=True)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(inputs), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
"""


def numbers(text):
    return [float(word) for word in text.split()]


# Fails if a device argument, autocast or GradScaler is not redirected, or changes the numbers.
@everywhere
def test_training_has_the_losses_of_the_cpu(accelerator):
    on_cpu = TRAINING.replace('"cuda"', '"cpu"').replace("assert torch.cuda.is_available()", "")
    expected = subprocess.run([sys.executable, "-c", on_cpu], env=environment("cpu"), capture_output=True, text=True, check=True)
    found = numbers(run(TRAINING, accelerator))
    assert found == pytest.approx(numbers(expected.stdout), rel=0 if accelerator == "cpu" else 2e-2)
    assert found[-1] < found[0]


OLD_AMP = """
import torch
scaler = torch.cuda.amp.GradScaler(init_scale=1024.0)
weight = torch.ones(4, 4, device="cuda:0", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
with torch.cuda.amp.autocast(dtype=torch.bfloat16):
    assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
    product = torch.ones(2, 4).cuda() @ weight
assert product.dtype is torch.bfloat16, product.dtype
scaler.scale(product.float().sum()).backward()
assert weight.grad.max().item() == 2048
scaler.step(optimizer)
scaler.update()
assert abs(weight[0, 0].item() - 0.8) < 1e-6
(weight * float("inf")).sum().backward()
scaler.scale(torch.ones((), device="cuda"))
scaler.step(optimizer)
scaler.update()
print(scaler.get_scale())
"""


# Fails if torch.cuda.amp selects CUDA's autocast, or if an infinite gradient does not halve the
# scale.
@everywhere
def test_amp_of_torch_cuda(accelerator):
    assert numbers(run(OLD_AMP, accelerator)) == [512.0]


STREAMS = """
import torch
x = torch.arange(1000.0).pin_memory().cuda(non_blocking=True)
side = torch.cuda.Stream()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    assert torch.cuda.current_stream() == side
    y = x * 2
    done = side.record_event()
torch.cuda.current_stream().wait_event(done)
y.record_stream(torch.cuda.current_stream())
z = y + 1
end.record()
end.synchronize()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0 and end.query()
assert isinstance(side, torch.cuda.Stream) and isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
assert isinstance(start, torch.cuda.Event)
print(z.sum().item())
"""


# Fails if a wait is dropped (the checker reports the race), or if the classes are not classes.
@everywhere
def test_streams_and_events(accelerator):
    assert numbers(run(STREAMS, accelerator)) == [1000000.0]


GRAPH = """
import torch
x = torch.zeros(3, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2 + 1
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2 + 1
x.fill_(5)
graph.replay()
torch.cuda.synchronize()
assert isinstance(graph, torch.cuda.CUDAGraph)
model = torch.cuda.make_graphed_callables(torch.nn.Linear(3, 3).cuda(), (torch.ones(2, 3, device="cuda"),))
model(torch.ones(2, 3, device="cuda")).sum().backward()
print(*y.tolist())
"""


# Fails if a replay does not run the captured work again.
@everywhere
def test_graphs(accelerator):
    assert numbers(run(GRAPH, accelerator)) == [11.0] * 3


CHECKPOINT = """
import os, sys, tempfile, torch
folder = tempfile.mkdtemp()
file = os.path.join(folder, "model.pt")
model = torch.nn.Linear(4, 4).cuda()
torch.save({"model": model.state_dict(), "rng": torch.cuda.get_rng_state()}, file)
for location in ("cuda", "cuda:0", torch.device("cuda"), lambda storage, place: storage.cuda(), {"cuda:0": "cuda:0"}, None):
    found = torch.load(file, map_location=location)
    assert found["model"]["weight"].is_cuda and torch.equal(found["model"]["weight"], model.weight), location
assert torch.load(file, map_location="cpu")["model"]["weight"].device.type == "cpu"
torch.cuda.set_rng_state(torch.load(file)["rng"])
other = torch.nn.Linear(4, 4)
other.load_state_dict(torch.load(file, map_location="cuda:0")["model"])
# A file written on a CUDA machine: its storages have the tag cuda:0.
tag = torch.serialization.location_tag
torch.serialization.location_tag = lambda storage: "cuda:0"
torch.save(torch.arange(4.0), file)
torch.serialization.location_tag = tag
print(torch.load(file).is_cuda, *torch.load(file).tolist())
"""


# Fails if a map_location or the tag of a CUDA machine's file is not redirected.
@everywhere
def test_checkpoints(accelerator):
    assert run(CHECKPOINT, accelerator).split() == ["True", "0.0", "1.0", "2.0", "3.0"]


RANDOM = """
import torch
torch.manual_seed(3)
torch.cuda.manual_seed_all(5)
state, states = torch.cuda.get_rng_state(), torch.cuda.get_rng_state_all()
a = torch.rand(4, device="cuda")
torch.cuda.set_rng_state(state)
assert torch.equal(a, torch.rand(4, device="cuda"))
torch.cuda.set_rng_state_all(states)
assert torch.equal(a, torch.rand(4, device="cuda"))
generator = torch.Generator(device="cuda").manual_seed(7)
b = torch.randn(4, device="cuda", generator=generator)
assert torch.equal(b, torch.randn(4, device="cuda", generator=generator.manual_seed(7)))
assert isinstance(generator, torch.Generator) and torch.cuda.initial_seed() == 5
with torch.random.fork_rng(devices=[0]):
    c = torch.rand(4, device="cuda")
assert torch.equal(c, torch.rand(4, device="cuda"))
"""


# Fails if a generator of the wrong device is saved, restored or seeded.
@everywhere
def test_random_numbers(accelerator):
    run(RANDOM, accelerator)


LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        assert torch.cuda.is_available()  # also in workers
        return torch.full((2,), float(index))


if __name__ == "__main__":
    torch.ones(2, device="cuda")
    for method in ("fork", "spawn", "forkserver"):
        loader = DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True, multiprocessing_context=method)
        print(*[batch.cuda(non_blocking=True).sum().item() for batch in loader])
"""


# Fails if workers of a start method do not inherit the redirection, or if the pinning thread fails.
@everywhere
def test_data_loader(accelerator, tmp_path):
    (tmp_path / "loader.py").write_text(LOADER)
    found = run_file(tmp_path / "loader.py", accelerator, options=["--quiet"])
    assert found.returncode == 0, found.stderr[-3000:]
    assert numbers(found.stdout) == [12.0, 44.0] * 3


RANKS = """
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
torch.manual_seed(0)
model = torch.nn.Linear(8, 2).cuda(local)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local], output_device=local)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
numbers = torch.Generator().manual_seed(local)
for _ in range(3):
    loss = model(torch.randn(4, 8, generator=numbers).cuda(local)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
total = torch.tensor([loss.item()], device=f"cuda:{local}")
dist.all_reduce(total)
dist.broadcast(total, 0, group=dist.new_group([0, 1], backend="nccl"))
init_device_mesh("cuda", (2,))
sharded = FullyShardedDataParallel(torch.nn.Linear(8, 8), device_id=torch.cuda.current_device())
sharded(torch.ones(2, 8, device="cuda")).sum().backward()
if local == 0:
    print(total.item())
dist.destroy_process_group()
"""


# Fails if the ranks do not inherit the redirection, or if "nccl", device_ids or FSDP reject the
# device.
@everywhere
def test_distributed_training_on_two_ranks(accelerator, tmp_path):
    (tmp_path / "ranks.py").write_text(RANKS)
    found = run_file("torch.distributed.run", accelerator, "--standalone", "--nproc_per_node=2", str(tmp_path / "ranks.py"), module=True,
                     options=["--quiet"])
    assert found.returncode == 0, found.stderr[-3000:]
    assert numbers(found.stdout) == pytest.approx([0.70491], rel=1e-4)  # the same program with gloo on the CPU


DATA_PARALLEL = """
import torch
model = torch.nn.DataParallel(torch.nn.Linear(4, 2)).cuda()
y = model(torch.ones(6, 4).cuda())
y.sum().backward()
assert y.is_cuda and y.shape == (6, 2)
print(model.module.weight.grad[0, 0].item())
"""


# Fails if the batch is not divided among the simulator's two devices, or if the CPU is taken for a
# GPU.
@everywhere
def test_data_parallel(accelerator):
    assert numbers(run(DATA_PARALLEL, accelerator)) == [6.0]


# Fails if CUDA_VISIBLE_DEVICES is ignored.
def test_visible_devices():
    if "sim" not in ACCELERATORS:
        pytest.skip("the simulator was not built")
    program = "import torch; print(torch.cuda.device_count(), torch.cuda.is_available())"
    assert run(program, "sim", CUDA_VISIBLE_DEVICES="1") == "1 True\n"
    assert run(program, "sim", CUDA_VISIBLE_DEVICES="-1") == "0 False\n"
