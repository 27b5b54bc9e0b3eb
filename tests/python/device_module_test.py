"""torch.<device type>: the module has every name that torch reads, and torch features that depend
on these names work.
"""

import pathlib

import pytest
import torch
from device_module_case import KINDS, run

import anyaccel

AUDIT = pathlib.Path(__file__).parent / "device_module_audit.txt"

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)


def rows():
    for line in AUDIT.read_text().splitlines():
        if line and not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


# Fails if the table and torch's sources disagree about the names that torch reads.
def test_audit_lists_what_torch_reads():
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the table is for torch 2.13, this is torch {torch.__version__}")
    import device_module_reads
    listed = {name: set(files.split()) for name, _, _, _, files in rows() if not files.startswith("csrc/")}
    assert listed == device_module_reads.names()


# Fails if a row is malformed, or a name whose absence changes results is listed as absent.
def test_audit_is_well_formed():
    for name, ours, effect, why, _ in rows():
        assert ours in ("present", "absent") and effect in ("results", "error", "report", "none") and why.endswith("."), name
        assert (ours, effect) != ("absent", "results"), f"{name} changes results and is absent"


# Fails if a module lacks a name that the table lists as present.
@pytest.mark.parametrize("kind", KINDS)
def test_modules_have_the_listed_names(kind):
    names = [name for name, ours, *_ in rows() if ours == "present"]
    done = run(f"""
import torch, anyaccel
module = getattr(torch, anyaccel.get_accelerator().device_type())
print([name for name in {names!r} if not hasattr(module, name)], module.device_count())
""", kind)
    assert done.stdout.splitlines()[-1:] == ["[] 2"], done.stdout + done.stderr


# Fails if dropout in a checkpointed function draws different numbers in the second forward pass.
@pytest.mark.parametrize("kind", ["sim", "card", "hpu"])
def test_checkpointed_dropout(kind):
    done = run("""
import torch, anyaccel
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
