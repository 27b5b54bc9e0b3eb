"""Interfaces that torch expects of an accelerator, on the simulated device: torch.compile, the
profiler, storages, submodules of the device module, and process groups.
"""

import os
import types
import warnings

import child
import pytest

os.environ["DS_ACCELERATOR"] = "sim"

import torch  # noqa: E402

import anyaccel  # noqa: E402

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)
accelerator = anyaccel.get_accelerator()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", ["binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss", "mse_loss", "huber_loss"])
def test_repeated_losses(name, reduction, recwarn):
    """Fails if a loss is wrong, or torch warns, once the simulator knows the shape of the result."""
    loss = getattr(torch.nn.functional, name)
    for step in range(3):
        x, target = torch.linspace(0.1, 0.9, 4).view(4, 1) + step / 100, torch.ones(4, 1)
        assert torch.equal(loss(x.to("sim"), target.to("sim"), reduction=reduction).cpu(), loss(x, target, reduction=reduction))
    assert not recwarn.list, [str(warning.message) for warning in recwarn.list]


def test_compile_backend():
    """Fails if the accelerator recommends a backend that cannot compile for the device."""
    assert accelerator.get_compile_backend() == "aot_eager"
    compiled = torch.compile(lambda x: (x + 1).relu(), backend=accelerator.get_compile_backend(), fullgraph=True)
    x = torch.randn(4, device="sim", requires_grad=True)
    y = compiled(x)
    y.sum().backward()
    assert torch.equal(y, (x + 1).relu()) and torch.equal(x.grad, (x > -1).float())


def test_compile_with_the_name_of_the_device():
    """Fails if Dynamo does not have a backend with the device's name."""
    assert "sim" in torch._dynamo.list_backends(exclude_tags=())
    x = torch.randn(4, device="sim")
    assert torch.equal(torch.compile(lambda x: x * 2, backend="sim")(x), x * 2)


def test_inductor_is_replaced():
    """Fails if torch.compile() with its default backend raises an error on the device, or if it no
    longer uses Inductor for host tensors.
    """
    model = torch.nn.Linear(4, 4).to("sim")
    x = torch.randn(2, 4, device="sim")
    with pytest.warns(RuntimeWarning, match="the backend aot_eager is used"):
        assert torch.equal(torch.compile(model)(x), model(x))
    with pytest.warns(RuntimeWarning, match="the backend aot_eager is used"):
        made = torch.compile(lambda: torch.ones(3, device="sim") + 1)()
    assert made.tolist() == [2, 2, 2]
    from anyaccel import _compile
    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    assert not _compile._uses("sim", graph, [torch.ones(2)]) and _compile._uses("sim", graph, [x])


def test_device_interface(monkeypatch):
    """Fails if Dynamo finds no device interface, or one that does not reach the device."""
    from torch._dynamo.device_interface import get_interface_for_device
    interface = get_interface_for_device("sim")
    assert interface is get_interface_for_device("sim:1")
    assert interface.device_count() == 2 and interface.is_available() and not interface.is_triton_capable()
    previous = interface.exchange_device(1)
    assert (interface.current_device(), torch.sim.current_device()) == (1, 1)
    interface.exchange_device(previous)
    assert isinstance(interface.current_stream(), torch.Stream)
    assert interface.get_device_properties(0).name == torch.sim.get_device_name(0)
    assert isinstance(interface.get_raw_stream(0), int)
    assert interface.get_compute_capability(0) == ""
    monkeypatch.setattr(torch.sim, "get_device_properties", lambda device: types.SimpleNamespace(compute_capability=(9, 0)))
    assert interface.get_compute_capability(0) == (9, 0)


def test_profiler():
    """Fails if the profiler shows no time on the device or no memory, or prints errors for ops."""
    done = child.run("""
import os
os.environ["DS_ACCELERATOR"] = "sim"
import torch, anyaccel
anyaccel.get_accelerator()
from torch.profiler import ProfilerActivity, profile
x = torch.randn(256, 256, device="sim")
with torch.autograd.profiler.profile(use_device="sim", use_kineto=False, profile_memory=True) as autograd:
    for _ in range(3):
        y = x @ x
row = [each for each in autograd.key_averages() if each.key == "aten::mm"][0]
assert row.count >= 3 and row.device_time_total > 10, row
made = [each for each in autograd.key_averages() if each.key == "aten::empty"]
assert sum(each.self_device_memory_usage for each in made) > 0, made
print("ok")
""", os.environ)
    assert done.stdout.split()[-1:] == ["ok"], done.stdout + done.stderr
    assert "Exception" not in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_kineto():
    """Fails if torch.profiler does not report the device's kernels, or does not attribute them to the
    ops that launched them.
    """
    if not hasattr(torch._C._profiler.ProfilerActivity, "PrivateUse1") or torch.__version__ < "2.13":
        pytest.skip("this torch has no traces of PrivateUse1 devices")
    done = child.run("""
import json, os, tempfile
os.environ["DS_ACCELERATOR"] = "sim"
import torch, anyaccel
anyaccel.get_accelerator()
from torch.profiler import ProfilerActivity, profile
x = torch.randn(256, 256, device="sim")
side = torch.Stream(device="sim")
torch.accelerator.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
    for _ in range(3):
        y = x @ x
    with side:
        z = x + x
    torch.accelerator.synchronize()
rows = {each.key: each for each in prof.key_averages()}
assert rows["aten::matmul"].device_time_total > 10, rows["aten::matmul"]
assert rows["aten::add"].device_time_total > 0, rows["aten::add"]
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    prof.export_chrome_trace(file.name)
    events = json.load(open(file.name))["traceEvents"]
kernels = [event for event in events if event.get("cat") == "kernel"]
assert sum("mm" in event["name"] for event in kernels) == 3, kernels
assert len({event["tid"] for event in kernels}) == 2, kernels
print("ok")
""", os.environ)
    assert done.stdout.split()[-1:] == ["ok"], done.stdout + done.stderr


def test_autocast_rejects_binary_cross_entropy():
    """Fails if autocast to float16 accepts binary_cross_entropy, which CUDA's autocast rejects as
    unsafe.
    """
    x, y = torch.rand(4, device="sim"), torch.rand(4, device="sim")
    with torch.autocast("sim", torch.float16), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x, y)
    torch.nn.functional.binary_cross_entropy(x, y)


def test_storages():
    """Fails if a storage cannot be moved to the device, or if it reports the wrong device."""
    host = torch.arange(4.0)
    storage = host.untyped_storage().sim()
    assert storage.is_sim and not host.untyped_storage().is_sim
    assert storage.device == torch.device("sim", 0) and storage.tolist() == host.untyped_storage().tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # typed storages are deprecated
        assert host.to("sim").storage().is_sim


def test_submodules():
    """Fails if `torch.sim.random` or `torch.sim.amp` is missing or does not reach the device."""
    import torch.sim.amp
    import torch.sim.random
    torch.sim.random.manual_seed_all(3)
    states = torch.sim.random.get_rng_state_all()
    first = torch.rand(4, device="sim")
    torch.sim.random.set_rng_state_all(states)
    assert torch.equal(first, torch.rand(4, device="sim"))
    with torch.sim.amp.autocast(dtype=torch.bfloat16):
        assert (torch.ones(2, 2, device="sim") @ torch.ones(2, 2, device="sim")).dtype == torch.bfloat16
    assert torch.sim.amp.GradScaler().is_enabled()


def test_process_group_without_a_backend():
    """Fails if a process group without a named backend cannot reduce tensors on the host or on the
    device, or if DistributedDataParallel has no timer for the device.
    """
    done = child.run("""
import os
os.environ["DS_ACCELERATOR"] = "sim"
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
import torch, anyaccel, torch.distributed as dist
anyaccel.get_accelerator()
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
print(dist.distributed_c10d._world.pg_map[dist.group.WORLD][0], dist.get_backend_config())
for device in ("cpu", "sim"):
    x = torch.ones(3, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [1, 1, 1]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to("sim"))
for _ in range(12):
    model(torch.ones(2, 4, device="sim")).sum().backward()
data = model._get_ddp_logging_data()
assert data["avg_forward_compute_time"] > 0 and data["avg_backward_compute_time"] > 0, data
dist.destroy_process_group()
print("ok")
""", os.environ)
    assert done.stdout.split()[-1:] == ["ok"], done.stdout + done.stderr
    assert "cpu:gloo,sim:staged" in done.stdout, done.stdout
