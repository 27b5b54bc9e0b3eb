"""torch.<device type>: the module has every name that torch reads, and torch features that depend
on these names work.
"""

import pathlib

import pytest
import torch
from device_module_case import KINDS, MORE_KINDS, run

import anyaccel

AUDIT = pathlib.Path(__file__).parent / "device_module_audit.txt"

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)


def rows():
    for line in AUDIT.read_text().splitlines():
        if line and not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


def versions_of(files):
    """Return the versions of torch that read a name, and the files."""
    if not files.startswith("torch "):
        return ["2.13"], set(files.split())
    versions, _, files = files[len("torch "):].partition(":")
    return versions.split(), set(files.split())


# Fails if the table and torch's sources disagree about the names that torch reads.
def test_audit_lists_what_torch_reads():
    version = ".".join(torch.__version__.split(".")[:2])
    if version not in ("2.11", "2.12", "2.13"):
        pytest.skip(f"the table is for torch 2.11 to 2.13, this is torch {torch.__version__}")
    import device_module_reads
    found = device_module_reads.names()
    found.update(("interface." + name, files) for name, files in device_module_reads.names(device_module_reads.INTERFACE).items())
    listed = {name: versions_of(files) for name, _, _, _, files in rows() if not files.startswith("csrc/")}
    if version == "2.13":
        assert {name: files for name, (versions, files) in listed.items() if version in versions} == found
    else:
        assert found.keys() <= listed.keys()


# Fails if the analysis does not follow a module through variables, attributes, parameters, return
# values and lambdas, or if it follows the results of unrelated getattr() calls.
def test_reads_are_found_through_variables(tmp_path):
    import device_module_reads
    (tmp_path / "example.py").write_text("""
from typing import cast
import torch
def pick(device_type):
    chosen = getattr(torch, device_type, None)
    return chosen
def use(module, count):
    module.through_a_parameter(count.not_this)
class Holder:
    def __init__(self, backend):
        self.mod = cast(object, torch.get_device_module(backend))
    def call(self):
        self.mod.through_an_attribute()
        use(pick("x"), 3)
        use(module=self.mod, count=4)
        name = "through_a_string"
        getattr(self.mod, name)
        hasattr(self.mod, "through_hasattr")
        pick("y").through_a_return_value
        _get_device_attr(lambda m: m.through_a_lambda)
        getattr(torch, dtype_name).not_this_either
""")
    (tmp_path / "interface.py").write_text("get_interface_for_device(kind).of_the_interface\n")
    assert dict(device_module_reads.names(root=str(tmp_path))) == {
        f"through_{name}": {"example.py"}
        for name in ("a_parameter", "an_attribute", "a_string", "hasattr", "a_return_value", "a_lambda")}
    assert dict(device_module_reads.names(device_module_reads.INTERFACE, str(tmp_path))) == {"of_the_interface": {"interface.py"}}


# Fails if a row is malformed, or a name whose absence changes results is listed as absent.
def test_audit_is_well_formed():
    for name, ours, effect, why, _ in rows():
        assert ours in ("present", "absent", "hpu") and effect in ("results", "error", "report", "none") and why.endswith("."), name
        assert (ours, effect) != ("absent", "results"), f"{name} changes results and is absent"


# Fails if there is no check for a name that the table lists as present, or for a name that
# subclasses of torch's DeviceInterface must override.
def test_every_name_has_a_check():
    import device_module_checks
    from torch._dynamo.device_interface import DeviceInterface
    listed = {name for name, ours, *_ in rows() if ours != "absent"}
    assert listed - device_module_checks.CHECKS.keys() - device_module_checks.INTERFACE_CHECKS.keys() == set()
    abstract = {f"interface.{name}" for name, value in vars(DeviceInterface).items()
                if not name.startswith("_") and name != "raise_if_triton_unavailable"}  # raises by design if Triton does not work
    assert abstract - device_module_checks.INTERFACE_CHECKS.keys() == set()


# Fails if a module lacks a name that the table lists as present, or if calling one of them gives a
# wrong result.
@pytest.mark.parametrize("kind", [*KINDS, *MORE_KINDS])
def test_names_work(kind):
    names = [name for name, ours, *_ in rows() if ours in ("present", kind)]
    done = run(f"""
import sys, anyaccel, torch
module = getattr(torch, anyaccel.get_accelerator().device_type())
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from device_module_checks import CHECKS, INTERFACE_CHECKS, failures
names = {names!r}
missing = [name for name in names if "." not in name and not hasattr(module, name)]
unlisted = [name for name in CHECKS if name not in names and not name.endswith("set_rng_ctx")]
print(missing, failures(sorted({{*names, *unlisted}} & CHECKS.keys())), failures(INTERFACE_CHECKS, INTERFACE_CHECKS))
""", kind)
    assert done.stdout.splitlines()[-1:] == ["[] {} {}"], done.stdout + done.stderr


# Fails if dropout in a checkpointed function draws different numbers in the second forward pass.
@pytest.mark.parametrize("kind", ["sim", "card", "hpu"])
def test_checkpointed_dropout(kind):
    done = run("""
import anyaccel, torch
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint
device = anyaccel.get_accelerator().device_name(1)
def gradient(call):
    torch.manual_seed(0)
    w = torch.randn(64, 64, device=device, requires_grad=True)
    y = torch.randn(8, 64, device=device)
    call(lambda t: dropout(torch.relu(t @ w), 0.2), y).sum().backward()
    return w.grad
direct = gradient(lambda f, y: f(y))
print(torch.equal(direct, gradient(lambda f, y: checkpoint(f, y, use_reentrant=False))))
""", kind)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stdout + done.stderr


# Fails if random numbers do not work on the simulator in place of CUDA. If torch is imported first,
# a warning must say so.
@pytest.mark.parametrize(("imports", "works"), [("anyaccel, torch", True), ("torch, anyaccel", False)])
def test_random_numbers_with_simulated_cuda(imports, works):
    if torch.backends.cuda.is_built():
        pytest.skip("this LibTorch is built with CUDA, so the simulator cannot stand in for it")
    done = run(f"""
import {imports}
device = anyaccel.get_accelerator().device_name(1)
torch.manual_seed(5)
first = torch.rand(4, device=device)
torch.manual_seed(5)
print(device, torch.equal(first, torch.rand(4, device=device)))
""", "cuda")
    assert ("import anyaccel first" in done.stderr) != works, done.stderr
    assert (done.stdout == "cuda:1 True\n") == works, done.stdout + done.stderr


# Fails if DeviceMesh does not select the device of the launcher's local rank, or overrides the
# program's choice.
@pytest.mark.parametrize(("choice", "device"), [("", 1), ("anyaccel.get_accelerator().set_device(0)", 0), ("torch.sim.set_device(0)", 0),
                                                ("torch.ones(1, device='sim')", 0), ("torch.sim.device(0).__enter__()", 1)])
def test_device_mesh_chooses_the_device(choice, device):
    done = run(f"""
import os, torch, anyaccel
accelerator = anyaccel.get_accelerator()
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="1")
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
{choice}
torch.distributed.device_mesh.init_device_mesh("sim", (1,))
print(accelerator.current_device())
torch.distributed.destroy_process_group()
""")
    assert done.stdout.split()[-1:] == [str(device)], done.stdout + done.stderr


# Fails if torch.load() cannot create storages on a device type that this torch was built without.
def test_saved_tensors_load_on_the_device():
    done = run("""
import io
import anyaccel, torch
anyaccel.get_accelerator()
file = io.BytesIO()
torch.save(torch.arange(3.0).to("cuda:1"), file)
file.seek(0)
print(torch.load(file))
""", "cuda")
    assert done.stdout == "tensor([0., 1., 2.], device='cuda:1')\n", done.stdout + done.stderr


DATA_PARALLEL = """
import anyaccel, torch
accelerator = anyaccel.get_accelerator()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
x = torch.randn(6, 4)
model(x).sum().backward()
expected = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
parallel = torch.nn.DataParallel(model.to(accelerator.device_name(0)))
devices = []
model[2].register_forward_hook(lambda module, inputs, output: devices.append(output.device.index))
y = parallel(x)
y.sum().backward()
for p, gradient in zip(model.parameters(), expected):
    torch.testing.assert_close(p.grad.cpu(), gradient)
print(y.device == accelerator.torch_device(0), len(y), sorted(devices))
"""


# Fails if torch.nn.DataParallel raises because torch was built without CUDA, uses one device only,
# or adds up wrong gradients.
@pytest.mark.parametrize("kind", ["sim", "npu", "card"])
def test_data_parallel(kind):
    result = run(DATA_PARALLEL, kind, SIM_CHECK="report")
    assert (result.returncode, result.stdout) == (0, "True 6 [0, 1]\n"), result.stderr
    assert "sim check" not in result.stderr and "NCCL" not in result.stderr, result.stderr
