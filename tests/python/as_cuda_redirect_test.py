"""What programs see of the redirection: classes, devices, strings, errors, and torch after disable()."""

import json
import subprocess
import sys

import child
import pytest
from anyaccel_port import rules
from as_cuda_case import ACCELERATORS, environment, everywhere, run, run_file

COMPLETE = """
import torch
import anyaccel
from anyaccel_port import rules
from anyaccel.as_cuda import pretend, cuda_module

wrong = []
for name in torch.cuda.__all__:
    rule = rules.find(f"torch.cuda.{name}")
    member = getattr(torch.cuda, name)
    if rule is None:
        wrong.append(f"{name}: no rule")
    elif callable(member) and not isinstance(member, type) and not rule.runtime and rule.id != "cuda-other":
        try:
            member()
            wrong.append(f"{name}: does not fail although its rule has no replacement")
        except anyaccel.Error as error:
            if rule.why not in str(error) or "\\n" in str(error):
                wrong.append(f"{name}: {error}")
print(*wrong, sep="\\n", end="")
"""


# Fails if a member of torch.cuda has no rule, or if one without an equivalent does not say why.
@everywhere
def test_every_member_of_torch_cuda_has_a_rule(accelerator):
    assert run(COMPLETE, accelerator) == ""


CLASSES = """
import copy, inspect, pickle
import torch
device = torch.device("cuda:1")
assert type(device) is torch.device and pickle.loads(pickle.dumps(device)) == device and copy.deepcopy(device).type == "cuda"
for name in ("Stream", "Event", "CUDAGraph", "device", "FloatTensor", "OutOfMemoryError", "device_of"):
    assert inspect.isclass(getattr(torch.cuda, name)), name
assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
assert inspect.isclass(torch.cuda.amp.autocast) and inspect.isclass(torch.amp.GradScaler) and inspect.isclass(torch.Generator)
assert list(inspect.signature(torch.cuda.memory_allocated).parameters) == ["device"]
assert list(inspect.signature(torch.cuda.synchronize).parameters) == ["device"]
assert torch.cuda.synchronize.__name__ == "synchronize"
class Mine(torch.cuda.amp.GradScaler):
    pass
assert Mine().is_enabled()
x = torch.ones(3, device="cuda")
assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.HalfTensor)
assert x.type("torch.cuda.HalfTensor").dtype is torch.float16 and torch.ones(2).type(torch.cuda.LongTensor).is_cuda
assert torch.cuda.FloatTensor([1, 2]).tolist() == [1.0, 2.0] and torch.cuda.LongTensor(2, 3).shape == (2, 3)
assert pickle.loads(pickle.dumps(x)).is_cuda
"""


# Fails if a class becomes a function, or if devices cannot be pickled, copied or inspected.
@everywhere
def test_classes_and_devices(accelerator):
    run(CLASSES, accelerator)


READ = """
import torch
x = torch.ones(3, device="cuda")
layer = torch.nn.Linear(2, 2).cuda()
assert x.is_cuda and layer.weight.is_cuda and x.new_zeros(2).is_cuda
if SHOWN:
    assert x.device == torch.device("cuda:0") and x.device.type == "cuda" and str(x.device) == "cuda:0"
    assert layer.weight.device == x.device and x.type() == "torch.cuda.FloatTensor"
    assert torch.ones(2).device.type == "cpu" and not torch.ones(2).is_cuda
else:
    assert x.device.type == "cpu"
assert x.to(x.device) is x and torch.zeros(2, device=x.device).is_cuda
assert torch.ones(2).to(0).is_cuda and torch.ones(2, device=0).is_cuda and torch.nn.Linear(2, 2).to(0).weight.is_cuda
assert torch.as_tensor([1.0], device="cuda").is_cuda and torch.tensor(1, device=torch.device("cuda", 0)).is_cuda
assert torch.device(0) == torch.device("cuda", 0) or torch.device(0).type == "sim"
with torch.device("cuda"):
    assert torch.ones(2).is_cuda
torch.set_default_device("cuda")
assert torch.ones(2).is_cuda
torch.set_default_device(None)
torch.set_default_tensor_type("torch.cuda.DoubleTensor")
assert torch.ones(2).is_cuda and torch.ones(2).dtype is torch.float64
assert torch.Tensor(2, 3).is_cuda and torch.Tensor([1]).dtype is torch.float64 and torch.nn.Parameter(torch.Tensor(2)).is_cuda
torch.set_default_tensor_type("torch.FloatTensor")
assert torch.ones(2).device.type == "cpu" and torch.Tensor(2).device.type == "cpu" and torch.Tensor(2).dtype is torch.float32
"""


# Fails if a form of device is not redirected, or if comparisons with "cuda" are false.
@everywhere
def test_devices_that_programs_read(accelerator):
    run(READ.replace("SHOWN", str(accelerator != "cpu")), accelerator)


PLACES = """
import threading
import torch
found = []
thread = threading.Thread(target=lambda: found.append(torch.zeros(2, device="cuda").is_cuda))
thread.start()
thread.join()
assert found == [True]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        assert gradient.is_cuda
        return gradient * torch.full((3,), 2.0, device="cuda")


x = torch.ones(3, device="cuda", requires_grad=True)
Doubled.apply(x).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
assert torch.autograd.grad(Doubled.apply(x).sum(), x)[0].tolist() == [2, 2, 2]
assert torch.func.vmap(lambda a: a + torch.ones((), device="cuda"))(x).tolist() == [2, 2, 2]


@torch.jit.script
def scripted(x: torch.Tensor):
    return x + torch.zeros([3], device="cuda")


assert scripted(x).is_cuda
assert torch.jit.trace(lambda a: a.cuda() * 2, (x,))(x).tolist() == [2, 2, 2]


@torch.compile(backend="eager", fullgraph=True)
def compiled(x):
    return x.to("cuda") + torch.ones(3, device="cuda") * torch.ones(3, device="cuda:0")  # a device that was not used before


assert compiled(x).tolist() == [2, 2, 2]
"""


# Fails if threads, backward passes, TorchScript or torch.compile lose the redirection.
@everywhere
def test_threads_backward_scripts_and_compilation(accelerator, tmp_path):
    (tmp_path / "places.py").write_text(PLACES)  # TorchScript reads the source
    found = run_file(tmp_path / "places.py", accelerator, options=["--quiet"])
    assert found.returncode == 0, found.stderr[-3000:]


TRUTH = """
import torch
from anyaccel import get_accelerator
properties = torch.cuda.get_device_properties(0)
assert properties.name == torch.cuda.get_device_name() == get_accelerator().device_properties(0).name
assert properties.total_memory == get_accelerator().total_memory(0)
assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (0, 0)
before = torch.cuda.memory_allocated()
x = torch.ones(1 << 20, device="cuda")
assert torch.cuda.memory_allocated() - before >= 4 << 20
assert torch.cuda.max_memory_allocated("cuda:0") >= torch.cuda.memory_allocated(torch.device("cuda"))
free, total = torch.cuda.mem_get_info()
assert 0 < free <= total and "Memory" in torch.cuda.memory_summary()
assert [int(part) for part in torch.version.cuda.split(".")][0] >= 12  # programs parse it
"""


# Fails if torch.cuda reports a device, a capability or an amount of memory that is not the truth.
@everywhere
def test_names_capabilities_and_memory_are_true(accelerator):
    run(TRUTH, accelerator)


# Fails if --pretend is not applied, or if an unknown name is accepted.
def test_pretend(tmp_path):
    (tmp_path / "name.py").write_text("import torch\np = torch.cuda.get_device_properties(0)\n"
                                      "print(torch.cuda.get_device_name(), torch.cuda.get_device_capability(), p.multi_processor_count, torch.version.cuda)")
    found = run_file(tmp_path / "name.py", "cpu", options=["--quiet", "--pretend", "NVIDIA H100"])
    assert found.stdout == "NVIDIA H100 80GB HBM3 (9, 0) 132 12.6\n"
    wrong = run_file(tmp_path / "name.py", "cpu", options=["--pretend", "NVIDIA Z1"])
    assert wrong.returncode != 0 and "'NVIDIA Z1'" in wrong.stderr and "NVIDIA H100" in wrong.stderr


CALLS = """
import json, sys, tempfile
import torch
import anyaccel.as_cuda
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
model.cuda()
for _ in range(2):
    model.to("cuda:0")
layers = [torch.nn.TransformerEncoderLayer(8, 2, device="cuda") for _ in range(3)]
class Mine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2, device="cuda"), torch.nn.Linear(2, 2, device="cuda")
Mine()
with tempfile.NamedTemporaryFile() as file:
    torch.save([torch.ones(2), torch.ones(3)], file.name)
    torch.load(file.name, map_location="cuda")
for _ in range(4):
    torch.ones(2).cuda()
model.to_empty(device=torch.device("cuda"))
print(json.dumps({entry["name"]: entry["count"] for entry in anyaccel.as_cuda.report()["redirected"]}))
"""


# Fails if the report counts the tensors of a module or a file instead of the program's calls.
@everywhere
def test_report_counts_the_programs_calls(accelerator):
    counts = {"Module.cuda": 1, 'device "cuda:0"': 2, 'device "cuda"': 6, "torch.load of CUDA tensors": 1, "Tensor.cuda": 4}
    assert json.loads(run(CALLS, accelerator)) == counts


# Fails if a redirected use or a missing equivalent is not in the report, or its line is wrong.
def test_report(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import torch\nx = torch.ones(2).cuda()\nx = x.cuda()\ntry:\n    torch.cuda.utilization()\nexcept Exception as error:\n    print(error)\n")
    found = run_file(file, "cpu", options=["--report", str(tmp_path / "report.json")])
    assert found.returncode == 0 and found.stderr == "" and found.stdout.count("\n") == 1, found.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert {"name": "Tensor.cuda", "count": 2, "first": f"{file}:2"} in report["redirected"]
    assert [entry["name"] for entry in report["no_equivalent"]] == ["torch.cuda.utilization"]
    assert report["no_equivalent"][0]["why"] == rules.find("torch.cuda.utilization").why and report["no_equivalent"][0]["first"] == f"{file}:5"
    text = run_file(file, "cpu")
    assert "2  Tensor.cuda" in text.stderr and f"torch.cuda.utilization at {file}:5" in text.stderr


RESTORED = """
import threading
import torch, torch.distributed, torch.utils._device
import anyaccel
from torch.nn.parallel import data_parallel
places = [torch, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.graphs, torch.cuda.streams, torch.cuda.nvtx, torch.amp,
          torch.amp.GradScaler, torch.amp.autocast_mode, torch.storage, torch._C._nn, torch._utils, torch.distributed, torch.version,
          torch.distributed.distributed_c10d, torch.autograd, torch.autograd.graph, torch.autograd.profiler.profile, threading.Thread,
          torch.utils._device.DeviceContext, torch.nn.parallel.DistributedDataParallel]
anyaccel.get_accelerator()
before = [dict(vars(place)) for place in places]
registry = list(torch.serialization._package_registry)
import anyaccel.as_cuda as as_cuda
assert as_cuda.enabled() and torch.ones(1, device="cuda").is_cuda
as_cuda.disable()
for place, then in zip(places, before):
    now = dict(vars(place))
    changed = [name for name in now if name not in then or now[name] is not then[name]] + [name for name in then if name not in now]
    assert not [name for name in changed if name != "library"], (place, changed)
assert torch.serialization._package_registry == registry
try:
    torch.ones(1, device="cuda")
    raise SystemExit("the redirection is still active")
except (AssertionError, RuntimeError):
    pass
as_cuda.enable()
assert torch.ones(1, device="cuda").is_cuda
"""


# Fails if disable() leaves a patch behind, or if enable() does not work afterwards.
@everywhere
def test_disable_restores_torch(accelerator):
    # The checker would report the use of cuda after disable().
    found = child.run(RESTORED, environment(accelerator, ANYACCEL_AS_CUDA_QUIET="1", SIM_CHECK=""))
    assert found.returncode == 0, found.stderr[-3000:]


# Fails if as_cuda patches a torch whose accelerator is cuda itself, here the simulator in its
# place.
def test_nothing_is_patched_if_the_accelerator_is_cuda(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import anyaccel.as_cuda as a, torch\nassert not a.enabled()\nassert torch.ones(1, device='cuda').device.type == 'cuda'\n")
    if "sim" not in ACCELERATORS:
        pytest.skip("the simulator was not built")
    found = subprocess.run([sys.executable, str(file)], env=environment("cuda", SIM_STANDS_IN_FOR="cuda"), capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr[-2000:]
