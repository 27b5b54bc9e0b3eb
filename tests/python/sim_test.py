"""The simulated accelerator from Python: torch's Python code works on it, and gives the same
results as on the CPU.
"""

import os
import threading
import time

import child
import pytest

os.environ["DS_ACCELERATOR"] = "sim"
os.environ["SIM_LATENCY"] = "50us"

import torch  # noqa: E402

import anyaccel  # noqa: E402

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)
accelerator = anyaccel.get_accelerator()

torch.set_num_threads(1)
DEVICE = "sim:0"


class Net(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(16)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x):
        y = torch.relu(self.convolution(x)).flatten(2)
        y = self.norm(y + self.attention(y, y, y, need_weights=False)[0])
        return self.head(y.mean(1))


def train(device):
    torch.manual_seed(0)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(8, 1, 4, 4, generator=generator).to(device)
    y = torch.randint(0, 10, (8,), generator=generator).to(device)
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# Fails if training with convolution, attention and AdamW gives different numbers than on the CPU.
def test_training_matches_the_cpu():
    ours, reference = train(DEVICE), train("cpu")
    assert ours == pytest.approx(reference, rel=1e-6)
    assert ours[-1] < ours[0] * 0.75


# Fails if torch's device functions do not work on the simulated device.
def test_torch_knows_the_device():
    x = torch.ones(3, device="sim")
    assert x.device == torch.device("sim", 0) and x.is_sim and str(x.sum()).startswith("tensor(3.")
    assert torch.sim.device_count() == accelerator.device_count() == torch.accelerator.device_count()
    assert torch.accelerator.current_accelerator().type == "sim"
    with torch.sim.device(1):
        assert torch.empty(1, device="sim").device.index == 1 == accelerator.current_device()
    assert accelerator.current_device() == 0
    torch.accelerator.synchronize()
    assert torch.get_device_module("sim") is torch.sim


# Fails if a copy or a kernel does not wait for another stream's work as requested.
def test_streams_and_events():
    side = accelerator.Stream()
    x = torch.zeros(1000, device=DEVICE)
    start, end = (accelerator.Event(enable_timing=True) for _ in range(2))
    start.record()
    side.wait_stream(accelerator.current_stream())
    with accelerator.stream(side):
        for _ in range(20):
            x += 1
        done = side.record_event()
    done.wait()
    y = x * 2
    end.record()
    end.synchronize()
    assert y.sum().item() == 40000
    assert start.elapsed_time(end) > 0.5  # twenty kernels of 50 µs
    x.record_stream(side)
    other = torch.Stream("sim:1")
    assert isinstance(accelerator.Stream(1), torch.Stream) and other.device.index == 1


# Fails if synchronize() or an event's wait blocks other Python threads.
def test_waiting_lets_other_threads_run():
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    x = torch.zeros(10, device=DEVICE)
    for _ in range(4000):  # takes at least 0.2 s
        x += 1
    event = accelerator.current_stream().record_event()
    begin = time.monotonic()
    event.synchronize()
    accelerator.synchronize()
    end = time.monotonic()
    stop.set()
    thread.join()
    if end - begin > 0.05:
        assert any(begin < tick < end for tick in ticks)
    assert x.sum().item() == 40000


# Fails if memory statistics do not describe the device, or exceeding its memory limit does not
# raise torch's OutOfMemoryError.
def test_memory():
    before = accelerator.memory_allocated(0)
    x = torch.empty(1 << 20, dtype=torch.uint8, device=DEVICE)
    assert accelerator.memory_allocated(0) - before >= 1 << 20
    assert torch.sim.memory_allocated() == accelerator.memory_allocated()
    del x
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 42, dtype=torch.uint8, device=DEVICE)
    pinned = accelerator.pin_memory(torch.arange(4.0))
    assert accelerator.is_pinned(pinned) and pinned.is_pinned()


# Fails if a dtype that the simulator supports is not reported.
def test_supported_dtypes():
    assert accelerator.supported_dtypes() == [torch.float32, torch.float16, torch.bfloat16]
    assert accelerator.is_fp16_supported() and accelerator.is_bf16_supported()
    assert torch.sim.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


# Fails if work on a device other than the current one does not count as initialization.
def test_work_on_another_device_initializes():
    code = """
import torch, anyaccel
accelerator = anyaccel.get_accelerator()
print(torch.sim.is_initialized(), accelerator._is_initialized())
x = torch.ones(1 << 20, device="sim:1")
print(torch.sim.is_initialized(), accelerator._is_initialized(), accelerator.current_device())
reserved = accelerator.memory_reserved(1)
del x
accelerator.synchronize(1)
accelerator.empty_cache()
print(reserved > accelerator.memory_reserved(1))
"""
    done = child.run(code, {**os.environ, "DS_ACCELERATOR": "sim"})
    assert done.stdout.split() == "False False True True 0 True".split(), done.stdout + done.stderr


# Fails if the interpreter exits while work is in flight. A worker that then releases a tensor would
# abort the process.
def test_interpreter_waits_for_work():
    code = """
import atexit
import torch
atexit.register(lambda: print(torch.sim.current_stream().query()))  # runs after the functions registered later
import anyaccel
device = anyaccel.get_accelerator().device_name(0)
model = torch.nn.Linear(64, 64).to(device)
for _ in range(20):
    model(torch.randn(64, 64, device=device)).square().mean().backward()
print(torch.sim.current_stream().query())
"""
    done = child.run(code, {**os.environ, "DS_ACCELERATOR": "sim", "SIM_LATENCY": "3000"})
    assert done.stdout.split() == ["False", "True"], done.stdout + done.stderr


# Fails if the generator's seed or state does not determine its numbers.
def test_random():
    accelerator.manual_seed(7)
    first = torch.rand(5, device=DEVICE)
    state = accelerator.get_rng_state()
    second = torch.rand(5, device=DEVICE)
    accelerator.set_rng_state(state)
    assert torch.equal(second, torch.rand(5, device=DEVICE))
    torch.manual_seed(7)  # seeds all devices
    assert torch.equal(first, torch.rand(5, device=DEVICE))
    generator = torch.Generator(DEVICE).manual_seed(3)
    assert torch.rand(2, device=DEVICE, generator=generator).device.type == "sim"


# Fails if replaying a captured graph gives different numbers than eager execution.
def test_graph():
    x = torch.ones(4, device=DEVICE)
    graph = accelerator.create_graph()
    side = accelerator.Stream()
    side.wait_stream(accelerator.current_stream())
    with accelerator.stream(side):
        (x * 2 + 1).sum()
    accelerator.synchronize()
    with accelerator.capture_to_graph(graph):
        y = x * 2 + 1
    x.fill_(3)
    accelerator.replay_graph(graph)
    accelerator.synchronize()
    assert y.tolist() == [7, 7, 7, 7]


# Fails if a parameter's data cannot be moved to the device and back in place, as DeepSpeed does on
# CUDA.
def test_parameter_data_moves_between_devices():
    module = torch.nn.Linear(2, 3)
    weight = module.weight
    assert module.to(DEVICE).weight is weight and weight.device.type == "sim"
    weight.data = torch.ones(4, device=DEVICE)
    (weight * weight).sum().backward()
    assert weight.grad.tolist() == [2, 2, 2, 2]
    weight.data = weight.data.cpu()
    assert weight.device.type == "cpu" and weight.sum().item() == 4
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        weight.data = torch.ones(2).to_sparse()


# Fails if mixed precision, checkpointing or saving does not work on the device.
def test_torch_utilities(tmp_path):
    a, b = torch.ones(4, 4, device=DEVICE), torch.ones(4, 4, device=DEVICE)
    with torch.autocast("sim", dtype=torch.bfloat16):
        assert (a @ b).dtype is torch.bfloat16
    with accelerator.autocast(torch.bfloat16):
        assert (a @ b).dtype is torch.bfloat16
    from torch.utils.checkpoint import checkpoint
    weight = torch.ones(4, 4, device=DEVICE, requires_grad=True)
    checkpoint(lambda t: (t @ weight).relu(), a, use_reentrant=False).sum().backward()
    assert weight.grad.sum().item() == 64
    torch.save(weight, tmp_path / "weight.pt")
    assert torch.load(tmp_path / "weight.pt").device.type == "sim"
    assert torch.load(tmp_path / "weight.pt", map_location="cpu").device.type == "cpu"
    assert torch.tensor([1.0, 2.0], device=DEVICE).cpu().numpy().tolist() == [1, 2]
