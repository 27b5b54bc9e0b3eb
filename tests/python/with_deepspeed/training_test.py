"""Training with DeepSpeed on AnyAccel's accelerator, with two ranks under `anyaccel launch`, gives
the losses and weights of stock DeepSpeed. Within 20 steps, differences reveal a wrong device, a
lost gradient, or an optimizer or collective that computes wrong values.
"""

import functools
import importlib.util
import os
import pathlib

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import ranks  # noqa: E402
from train import CASES  # noqa: E402

TRAIN = pathlib.Path(__file__).with_name("train.py")
QUICK = ("zero 1", "zero 2 offload", "zero 3", "zero 3 nvme parameters", "checkpointing in parts", "bf16 zero 3", "fp16 zero 2 offload")
NAMES = tuple(CASES) if os.environ.get("ANYACCEL_TEST_ALL_TRAININGS") == "1" else QUICK
ACCELERATORS = os.environ["ANYACCEL_TEST_ACCELERATORS"].split(",")


def without_half(name):
    """Return the name of the same case in float32, or None. Stock DeepSpeed does not support fp16
    on most CPUs, so float32 is the reference.
    """
    return next((other for other in CASES if CASES[other] == tuple(each for each in CASES[name] if each != "fp16")), None)


def runs_on(name, accelerator):
    """Return whether the accelerator supports a case. On a device without fp16, DeepSpeed writes
    parameters as bfloat16 and reads them as float32, so its files are too short.
    """
    return accelerator == "cpu" or "nvme_parameters" not in CASES[name]


@functools.cache
def stock():
    names = {without_half(name) if "fp16" in name else name for name in NAMES}
    return ranks.results(TRAIN, "stock", *sorted(names - {None}), DS_ACCELERATOR="cpu")


@functools.cache
def ours(accelerator):
    return ranks.results(TRAIN, "ours", *(name for name in NAMES if runs_on(name, accelerator)), DS_ACCELERATOR=accelerator, SIM_DEVICES=str(ranks.COUNT))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", NAMES)
def test_losses_and_weights_match_stock(name, accelerator):
    # Fails if losses or weights differ from stock DeepSpeed's, with ZeRO, offload, NVMe,
    # checkpointing or half precision.
    if not runs_on(name, accelerator):
        pytest.skip("DeepSpeed's parameter files are too short on devices without fp16")
    if "fp16" in name and name not in ours(accelerator)[0]:
        pytest.skip("this device does not support fp16")
    if "fp16" in name and without_half(name) is None:
        pytest.skip("there is no equivalent case in float32")
    if "dropout" in CASES[name] and accelerator != "cpu":
        pytest.skip("dropout masks on a device differ from those on the host, where stock DeepSpeed runs")
    error = 1e-5
    if name == "zero 3 nvme parameters":
        # on a device without fp16, DeepSpeed 0.19.8 rounds parameters on NVMe to bfloat16
        # (partition_parameters.py, _set_dtype)
        error = 2e-2
    if "fp16" in name or "bf16" in name and "cpu_adam" in CASES[name]:
        error = 2e-2
    for mine, theirs in zip(ours(accelerator), stock()):
        got, want = mine[name], theirs[without_half(name) if "fp16" in name else name]
        assert "anyaccel.deepspeed" in mine["accelerator"] and "anyaccel" not in theirs["accelerator"]
        assert got["device"].split(":")[0] == accelerator
        assert got["losses"] == pytest.approx(want["losses"], rel=error)
        for left, right in zip(got["weights"], want["weights"]):
            assert left == pytest.approx(right, abs=error)
    assert [each[name]["weights"] for each in ours(accelerator)] == [ours(accelerator)[0][name]["weights"]] * ranks.COUNT
