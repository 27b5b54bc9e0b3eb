"""DeepSpeed trains on our accelerator to the losses of stock DeepSpeed. A wrong device, a lost gradient or another rule of an optimizer
shows in them within 20 steps."""

import importlib.util
import pathlib

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

from run_child import result  # noqa: E402

TRAIN = pathlib.Path(__file__).with_name("train.py")


@pytest.fixture(scope="module")
def stock():
    """Stock's losses with torch's AdamW, which its own CPUAdam follows: that one would be a minute's build."""
    return result(TRAIN, "stock", 0, "torch", DS_ACCELERATOR="cpu")["losses"]


def test_cpu_adam_zero_1_on_cpu(stock):
    # breaks when load() gives DeepSpeedCPUAdam other functions or another order of arguments
    ours = result(TRAIN, "ours", 1, "cpu_adam", DS_ACCELERATOR="cpu")
    assert "anyaccel.deepspeed" in ours["accelerator"]
    assert ours["losses"] == pytest.approx(stock, rel=1e-4)


def test_cpu_adam_zero_2_offload(stock):
    # breaks when gradients of a partition are not those that the offloaded step reads
    ours = result(TRAIN, "ours", 2, "cpu_adam", "offload", DS_ACCELERATOR="cpu")["losses"]
    assert ours == pytest.approx(stock, rel=1e-4)


def test_zero_3(stock):
    # breaks when parameters gathered under ZeRO-3 are not those that were stepped
    ours = result(TRAIN, "ours", 3, "cpu_adam", DS_ACCELERATOR="cpu")["losses"]
    assert ours == pytest.approx(stock, rel=1e-4)


def test_bf16():
    # breaks when the bf16 engine's master weights or dtype checks go another way than with stock's accelerator
    arguments = (1, "torch", "bf16")
    expected = result(TRAIN, "stock", *arguments, DS_ACCELERATOR="cpu")["losses"]
    assert result(TRAIN, "ours", *arguments, DS_ACCELERATOR="cpu")["losses"] == pytest.approx(expected, rel=1e-6)
