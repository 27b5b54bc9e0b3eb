"""DeepSpeed's documented examples (seeds/*.txt, unchanged) run with `anyaccel` instead of
`deepspeed`, and do what DeepSpeed's documentation promises. The simulator replaces missing
hardware. Each example runs in its own process, like a user's program.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import anyaccel
import child

EXAMPLES = pathlib.Path(__file__).with_name("seeds")
WITH_SIM = "sim" in anyaccel.registered_backends()
GIB = 1 << 30

# Definitions that the examples assume.
MODEL = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
input_tensor = input_data = torch.ones(2, 4)
"""
ON_DEVICE = """
from anyaccel import get_accelerator
place = get_accelerator().device_name()
model = model.to(place)
input_tensor = input_data = input_tensor.to(place)
"""
# A replayed graph repeats its work with new input at the same address.
REPLAYED = """
input_tensor.fill_(2.0)
accelerator.replay_graph(graph)
accelerator.synchronize()
assert torch.allclose(output, model(torch.full((2, 4), 2.0, device=place)), atol=1e-6)
assert output.shape == (2, 3) and output.device.type == accelerator.device_name()
"""


def run(code, *before, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DS_", "SIM_", "LOCAL_", "ANYACCEL_STRICT"))}
    variables = {**kept, "ANYACCEL_CCL": "off", **environment}
    if before:
        done = subprocess.run([*before, sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=300)
    else:
        done = child.run(code, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def example(name):
    text = (EXAMPLES / f"{name}.txt").read_text()
    assert "deepspeed" in text
    return text.replace("deepspeed", "anyaccel")


def stands_in(name):
    if not WITH_SIM:
        pytest.skip("this build has no simulator")
    probe = f"""
import anyaccel
try:
    anyaccel.set_accelerator({name!r})
except anyaccel.Error as error:
    print(error)
"""
    refused = run(probe, SIM_STANDS_IN_FOR=name)
    if "CPU-only LibTorch" in refused:
        pytest.skip(refused.strip())
    return {"SIM_STANDS_IN_FOR": name, "SIM_MEMORY": "1GiB"}


def run_on_simulated_cuda(code):
    """Load the simulator before torch, with `anyaccel sim run`, because `import torch` looks for
    CUDA.
    """
    environment = stands_in("cuda")
    if not os.path.exists(os.environ["ANYACCEL_PROGRAM"]):
        pytest.skip("this build has no program")
    return run(code, os.environ["ANYACCEL_PROGRAM"], "sim", "run", "--stands-in-for", "cuda", "--", **environment)


def numbers(pattern, text):
    return [int(word) for word in re.search(pattern, text, re.M).groups()]


# The example for CUDA. Fails if a method is missing, or its result does not match the simulated
# device.
def test_cuda():
    after = REPLAYED + """
from anyaccel.accelerator.cuda_accelerator import CUDA_Accelerator
assert isinstance(accelerator, CUDA_Accelerator) and accelerator.name() == "cuda" == accelerator.device_name()
assert accelerator.communication_backend_name() == "nccl" and accelerator.get_compile_backend() == "inductor"
assert accelerator.is_synchronized_device() is False and accelerator.device_name(1) == "cuda:1"
assert transformer_builder().name() == "transformer" and sparse_attn_builder().name() == "sparse_attn"
assert transformer_builder.NAME == "transformer" and sparse_attn_builder.NAME == "sparse_attn"
assert allocated >= 4 * (2 * 4 + 3 * 4 + 3)  # the input and the model
for answer in (accelerator.is_fp16_supported(), accelerator.is_bf16_supported(), accelerator.is_triton_supported()):
    assert isinstance(answer, bool)
assert (torch.float16 in accelerator.supported_dtypes()) is accelerator.is_fp16_supported()
kept = accelerator.memory_allocated(0)
more = torch.ones(1 << 20, device=place)
assert accelerator.memory_allocated(0) - kept >= 4 << 20
assert accelerator.available_memory(0) <= total
"""
    output = run_on_simulated_cuda(MODEL + ON_DEVICE + example("cuda") + after)
    assert numbers(r"^Device count: (\d+)$", output) == [2]
    assert "Current device: cuda:0\n" in output
    allocated, total = numbers(r"^Memory: (\d+)/(\d+) bytes used$", output)
    assert 0 < allocated < 1 << 20 and total == GIB
    assert len(re.findall(r"^(?:FP16|BF16|Triton) supported: (?:True|False)$", output, re.M)) == 3


# The example for the CPU. Fails if the environment does not select the CPU, or a reported property
# is wrong.
def test_cpu():
    after = """
import torch
assert accelerator.is_synchronized_device() is True and accelerator.device_name(0) == "cpu"
before = accelerator.memory_allocated()
kept = torch.ones(1 << 20)
assert accelerator.memory_allocated() - before >= 4 << 20
pages = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
assert abs(accelerator.get_rss() - pages) < 64 << 20
assert accelerator.device_count() >= 1 and accelerator.get_compile_backend() == "inductor"
assert ccl_builder.NAME == "deepspeed_ccl_comm" and adam_builder.NAME == "cpu_adam"
assert ccl_builder().name() == "deepspeed_ccl_comm"
optimizer = adam_builder().load()
optimizer.create_adam(0, 0.1, 0.9, 0.999, 1e-8, 0.0, True, False)
weights, moment, variance = torch.ones(8), torch.zeros(8), torch.zeros(8)
optimizer.adam_update(0, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, True, weights, torch.ones(8), moment, variance)
optimizer.destroy_adam(0)
assert torch.allclose(weights, torch.full((8,), 0.9)), weights  # the first step of Adam is the learning rate
from anyaccel.accelerator.cpu_accelerator import CPU_Accelerator
assert isinstance(accelerator, CPU_Accelerator)
"""
    lines = dict(line.split(": ", 1) for line in run(example("cpu") + after).splitlines() if ": " in line)
    assert lines["Device"] == "cpu" and lines["Backend"] == "gloo"  # the test disables oneCCL
    assert int(lines["Memory"]) >= 0
    assert lines["BF16"] in ("True", "False") and lines["FP16"] in ("True", "False")


# The example for HPU. Fails if behavior specific to Gaudi is missing, such as device names without
# an index.
def test_hpu():
    after = REPLAYED + """
from anyaccel.accelerator.hpu_accelerator import HPU_Accelerator
assert isinstance(accelerator, HPU_Accelerator)
assert accelerator.device_name(1) == "hpu" and accelerator.current_device_name() == "hpu" and accelerator.current_device() == 0
assert accelerator.is_synchronized_device() is False
assert accelerator.resolves_data_dependency() is True and accelerator.handles_memory_backpressure() is True
assert accelerator.get_compile_backend() == "hpu_backend"
assert os.environ["PT_HPU_LAZY_ACC_PAR_MODE"] == "0" and os.environ["PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"] == "0"
assert torch.are_deterministic_algorithms_enabled()
assert isinstance(accelerator.memory_stats(), dict) and accelerator.memory_stats()["allocated_bytes.all.current"] == accelerator.memory_allocated()
"""
    # The example selects the accelerator through the environment before its first import, so the
    # tensors are moved to the device after that part.
    text = example("hpu").replace("# HPU graphs\n", ON_DEVICE + "\n")
    output = run(MODEL + text + after, **stands_in("hpu"))
    lines = dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)
    assert (lines["Device"], lines["Backend"], lines["BF16"], lines["Device count"]) == ("hpu", "hccl", "True", "2")
    assert lines["FP16"] in ("True", "False")
    allocated, total = numbers(r"^Memory: (\d+)/(\d+) bytes$", output)
    assert 0 <= allocated < total == GIB


# DeepSpeed's porting rules replace `torch.cuda` with `get_accelerator()`. Both are called in one
# process, with the simulator as CUDA.
SAME = """
is_available()
device_count()
current_device()
get_rng_state()
get_rng_state(1)
initial_seed()
memory_allocated()
memory_allocated(0)
max_memory_allocated()
memory_reserved()
max_memory_reserved()
memory_stats()["allocated_bytes.all.current"]
memory_stats()["reserved_bytes.all.peak"]
current_stream()
default_stream()
is_bf16_supported()
synchronize()
empty_cache()
manual_seed(7)
manual_seed_all(7)
set_device(0)
reset_peak_memory_stats()
""".split("\n")[1:-1]
CONVERTED = """
import torch
from anyaccel.accelerator import get_accelerator
get_accelerator()
kept = torch.ones(1000, device="cuda")

def same(a, b):
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

for call in {calls!r}:
    theirs, ours = eval("torch.cuda." + call), eval("get_accelerator()." + call)
    assert same(theirs, ours), (call, theirs, ours)

if get_accelerator().is_available():
    weight_shape, dtype = (2, 3), torch.bfloat16
    weight = torch.empty(weight_shape, dtype=dtype, device=get_accelerator().current_device_name())
    assert weight.device == torch.device("cuda", 0) and weight.dtype is dtype and weight.shape == (2, 3)
local_rank = get_accelerator().current_device()
assert local_rank == 0 and type(local_rank) is int
get_accelerator().set_device(1)
assert get_accelerator().current_device() == 1 and get_accelerator().current_device_name() == "cuda:1"
assert torch.empty(1, device=get_accelerator().current_device_name()).device.index == 1
get_accelerator().set_device(0)

generator = get_accelerator().default_generator(1)
generator.manual_seed(5)
first = torch.rand(3, device="cuda:1")
generator.manual_seed(5)
assert torch.equal(first, torch.rand(3, device="cuda:1")) and generator.device == torch.device("cuda", 1)

assert (get_accelerator().device_name(), get_accelerator().device_name(0), get_accelerator().device_name(1)) == ("cuda", "cuda:0", "cuda:1")

my_tensor = torch.arange(4.0)
moved = my_tensor.to(get_accelerator().device_name())
assert moved.is_cuda and get_accelerator().on_accelerator(moved) and not get_accelerator().on_accelerator(my_tensor)
assert moved.tolist() == [0, 1, 2, 3]
pinned = get_accelerator().pin_memory(my_tensor)
assert pinned.is_pinned() and get_accelerator().is_pinned(pinned) and not get_accelerator().is_pinned(my_tensor)
assert torch.equal(pinned, my_tensor)
assert get_accelerator().communication_backend_name() == "nccl"
print("converted")
"""


# Fails if a converted call returns a different result than the original call to torch.cuda.
def test_conversions():
    assert run_on_simulated_cuda(CONVERTED.format(calls=SAME)).strip() == "converted"


# A ported program passes the communication backend's name to torch.distributed. Fails if torch
# rejects it, or a sum is wrong.
def test_communication_backend(tmp_path):
    code = f"""
import torch
from anyaccel.accelerator import get_accelerator
torch.distributed.init_process_group(get_accelerator().communication_backend_name(), init_method="file://{tmp_path}/store", rank=0, world_size=1)
x = torch.ones(2)
torch.distributed.all_reduce(x)
assert x.tolist() == [1, 1]
torch.distributed.destroy_process_group()
print("summed")
"""
    assert run(code, DS_ACCELERATOR="cpu").strip() == "summed"


# Fails if a converted program gives different results on sim than on cpu.
@pytest.mark.parametrize("name", ["cpu", "sim"])
def test_device_agnostic_program(name):
    if name == "sim" and not WITH_SIM:
        pytest.skip("this build has no simulator")
    code = """
import torch
from anyaccel.accelerator import get_accelerator
torch.manual_seed(0)
model = torch.nn.Linear(4, 1).to(get_accelerator().device_name())
x = torch.randn(16, 4).to(get_accelerator().current_device_name())
losses = []
for _ in range(5):
    loss = (model(x) - 1).square().mean()
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.1 * weight.grad
            weight.grad = None
    losses.append(loss.item())
get_accelerator().synchronize()
assert get_accelerator().on_accelerator(x) and losses[-1] < losses[0]
print(" ".join(f"{loss:.5f}" for loss in losses))
"""
    assert run(code, DS_ACCELERATOR=name) == run(code, DS_ACCELERATOR="cpu")


# The example of a custom accelerator, for a device type that torch does not know. Fails if the
# error does not say how to add the type.
def test_custom_accelerator_of_unknown_type():
    code = "import torch\n" + example("custom") + """
import anyaccel
from anyaccel.accelerator import set_accelerator
try:
    set_accelerator(MyCustomAccelerator())
except anyaccel.Error as error:
    print(error.code, error)
"""
    text = run(code)
    assert text.startswith("unavailable [MyCustomAccelerator] this process's LibTorch does not support the device type; got 'custom'"), text
    for way in ("import the vendor's torch package", "torch.utils.rename_privateuse1_backend('custom')", "from device_name()", "SIM_STANDS_IN_FOR=custom"):
        assert way in text


# The same example, after following the advice in that error. Fails if the accelerator does not
# work.
@pytest.mark.parametrize("way", ["sim", "known type"])
def test_custom_accelerator(way):
    text = example("custom")
    if way == "sim" and not WITH_SIM:
        pytest.skip("this build has no simulator")
    if way == "known type":
        text = text.replace("return 'custom'", "return 'cpu'").replace("return f'custom:{device_index}'", "return 'cpu'").replace("torch.custom", "torch.cpu")
    code = "import torch\n" + text + """
from anyaccel.accelerator import get_accelerator, set_accelerator
set_accelerator(MyCustomAccelerator())
accelerator = get_accelerator()
assert type(accelerator) is MyCustomAccelerator and accelerator._name == "custom" and accelerator.communication_backend_name() == "nccl"
x = torch.arange(4.0).to(accelerator.current_device_name())
with accelerator.stream(accelerator.Stream()):
    y = x * 2
accelerator.synchronize()
assert y.tolist() == [0, 2, 4, 6] and accelerator.on_accelerator(y) and accelerator.is_bf16_supported()
print(accelerator.device_name(), x.device.type, accelerator.device_count())
"""
    if way == "sim":
        assert run(code, SIM_STANDS_IN_FOR="custom", SIM_DEVICES="3") == "custom custom 3\n"
    else:
        assert run(code) == "cpu cpu 1\n"


CLASSES = ["CPU", "CUDA", "HPU", "KLXPU", "MLU", "MPS", "NPU", "SDAA", "SUPA", "XPU"]


# Fails if a class of DeepSpeed's import paths is missing, or its constructor selects the
# accelerator. Without the hardware, the constructor must raise `unavailable`.
@pytest.mark.parametrize("name", CLASSES)
def test_import_paths(name):
    lower = name.lower()
    code = f"""
import anyaccel
from anyaccel.accelerator.{lower}_accelerator import {name}_Accelerator
assert issubclass({name}_Accelerator, anyaccel.Accelerator) and {name}_Accelerator.__name__ == "{name}_Accelerator"
assert {name}_Accelerator.__module__ == "anyaccel.accelerator.{lower}_accelerator"
try:
    made = {name}_Accelerator()
except anyaccel.Error as error:
    assert error.code == "unavailable" and "{lower}" in str(error), error
    print("unavailable")
else:
    assert made.name() == "{lower}" and isinstance(made, {name}_Accelerator) and isinstance(made, anyaccel.Accelerator)
    assert not anyaccel._native.chosen()
    anyaccel.set_accelerator(made)
    assert anyaccel.get_accelerator() is made and made.device_count() >= 1
    assert anyaccel.detection().accelerator == "{lower}"
    print(made.communication_backend_name())
"""
    here = run(code).strip()
    if name == "CPU":
        assert here == "gloo"
    # The simulator replaces missing hardware.
    if here == "unavailable":
        names = {"CUDA": "nccl", "HPU": "hccl", "NPU": "hccl", "MLU": "cncl", "SDAA": "tccl", "SUPA": "bccl"}
        there = run(code, **stands_in(lower)).strip()
        assert there == names.get(name, there) and there != "unavailable"


# Fails if set_accelerator() through DeepSpeed's real_accelerator path does not set AnyAccel's
# accelerator.
def test_real_accelerator_path():
    code = """
from anyaccel.accelerator.real_accelerator import get_accelerator, set_accelerator
from anyaccel.accelerator.cpu_accelerator import CPU_Accelerator
from anyaccel.accelerator.cuda_accelerator import CUDA_Accelerator
import anyaccel
set_accelerator(CPU_Accelerator())
assert get_accelerator() is anyaccel.get_accelerator() and get_accelerator().name() == "cpu"
assert isinstance(get_accelerator(), CPU_Accelerator) and not isinstance(get_accelerator(), CUDA_Accelerator)
assert not isinstance("cpu", CPU_Accelerator)
print("same")
"""
    assert run(code).strip() == "same"
