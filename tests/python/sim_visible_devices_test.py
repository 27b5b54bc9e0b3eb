"""Variables such as CUDA_VISIBLE_DEVICES limit and reorder the simulated devices."""

import os
import subprocess
import sys

import pytest

import anyaccel

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)

# Prints the number of devices and, for each one, the number at the end of its UUID.
SHOW = """
import anyaccel, torch
accelerator = anyaccel.get_accelerator()
kind = accelerator.device_type()
if kind == "cpu":
    print("none", torch.cuda.is_available(), torch.cuda.device_count())
else:
    module = torch.get_device_module(kind)
    count = module.device_count()
    assert count == accelerator.device_count() == torch.accelerator.device_count()
    for index in range(count):
        assert torch.ones(2, device=f"{kind}:{index}").sum().item() == 2
    try:
        torch.ones(1, device=f"{kind}:{count}")
    except (RuntimeError, anyaccel.Error):
        pass
    else:
        raise AssertionError("a hidden device can be used")
    print(count, *(str(module.get_device_properties(index).uuid)[-1:] for index in range(count)))
"""


def show(code=SHOW, status=0, **variables):
    hidden = ("DS_", "SIM_", "CUDA_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    done = subprocess.run([sys.executable, "-B", "-c", code], env={**environment, **variables}, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip() if status == 0 else done.stderr


def need_no_cuda():
    import torch
    if torch.backends.cuda.is_built():
        pytest.skip("this LibTorch is built with CUDA, so the simulator cannot stand in for it")


# Fails if CUDA_VISIBLE_DEVICES has no effect on the simulator in place of CUDA, or a different
# effect than on CUDA.
@pytest.mark.parametrize(("value", "seen"), [(None, "3 0 1 2"), ("2", "1 2"), ("2,0", "2 2 0"), ("1,-1,2", "1 1"),
                                             ("0,0", "none False 0"), ("", "none False 0"), ("-1", "none False 0"),
                                             ("GPU-00000000-0000-0000-0000-000000000001", "1 1")])
def test_in_place_of_cuda(value, seen):
    need_no_cuda()
    variables = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    assert show(SIM_STANDS_IN_FOR="cuda", SIM_DEVICES="3", **variables) == seen


# Fails if SIM_VISIBLE_DEVICES is ignored, if CUDA_VISIBLE_DEVICES has an effect on other device
# types, or if faults are counted for the wrong device.
def test_on_sim():
    assert show(DS_ACCELERATOR="sim", SIM_VISIBLE_DEVICES="1,0", CUDA_VISIBLE_DEVICES="") == "2 1 0"
    text = show(DS_ACCELERATOR="sim", SIM_VISIBLE_DEVICES="1", SIM_FAULTS="alloc@1/1", status=1)
    assert "SIM_FAULTS made this allocation fail" in text
    assert show(DS_ACCELERATOR="sim", SIM_VISIBLE_DEVICES="0", SIM_FAULTS="alloc@1/1") == "1 0"
    text = show(DS_ACCELERATOR="sim", SIM_VISIBLE_DEVICES="", status=1)
    assert "SIM_VISIBLE_DEVICES selects 0 of 2 devices" in text


# Fails if the simulator in place of another backend ignores that backend's variable.
def test_in_place_of_another_backend():
    assert show(SHOW.replace("module.get_device_properties(index).uuid", "index"), SIM_STANDS_IN_FOR="npu",
                ASCEND_RT_VISIBLE_DEVICES="1") == "1 0"


# Fails if a program cannot set the variable after it has imported AnyAccel, or if a change after
# the first use of a device has an effect.
def test_set_by_the_program():
    need_no_cuda()
    code = "import os, anyaccel, torch\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n" + SHOW + """
os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"
anyaccel.set_accelerator("cuda")
assert torch.cuda.device_count() == 1
"""
    assert show(code, SIM_STANDS_IN_FOR="cuda") == "1 1"
    assert show(code, SIM_STANDS_IN_FOR="cuda", CUDA_VISIBLE_DEVICES="0,1") == "1 1"


# Fails if child processes ignore the variable that their parent sets for them.
def test_child_processes():
    need_no_cuda()
    code = f"""
import os, subprocess, sys
import anyaccel, torch
anyaccel.get_accelerator()
print(torch.cuda.device_count(), flush=True)
for value in ("1", "1,0", ""):
    subprocess.run([sys.executable, "-B", "-c", {SHOW!r}], env={{**os.environ, "CUDA_VISIBLE_DEVICES": value}}, check=True)
"""
    assert show(code, SIM_STANDS_IN_FOR="cuda", CUDA_VISIBLE_DEVICES="0").splitlines() == ["1", "1 1", "2 1 0", "none False 0"]
