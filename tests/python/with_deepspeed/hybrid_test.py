"""DeepSpeed's hybrid engine on a CPU. Alternating training and generation with a model's own
layers, which stock DeepSpeed supports, gives the same results. With DeepSpeed's inference layers,
which stock DeepSpeed rejects on a CPU, it generates the same tokens as the model's own layers.
"""

import importlib.util
import pathlib

import pytest

for package in ("deepspeed", "transformers"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

from run_child import result  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("hybrid.py")


def test_alternates_training_and_generation():
    # Fails if alternating training and generation gives different results than stock DeepSpeed.
    ours, stock = (result(PROGRAM, side, "opt", 2, DS_ACCELERATOR="cpu") for side in ("ours", "stock"))
    assert ours["engine"] == "DeepSpeedHybridEngine"
    assert ours["losses"] == pytest.approx(stock["losses"], rel=1e-5) and ours["said"] == stock["said"]


@pytest.mark.parametrize("name", ["llama", "gptj"])
def test_generates_through_inference_layers(name):
    # Fails if the inference layers use weights from an earlier step.
    ours = result(PROGRAM, "injected", name, 2, DS_ACCELERATOR="cpu")
    assert ours["engine"] == "DeepSpeedHybridEngine"
    assert ours["said"] == ours["own"] and len({str(said) for said in ours["said"]}) > 1
    assert ours["losses"][-1] < 0.95 * ours["losses"][0]


def test_shared_keys_are_rejected():
    # Fails if a model with grouped-query attention, which DeepSpeed's layers do not support, is
    # rejected only during training instead of at the start.
    refused = result(PROGRAM, "ours", "llama", 0, DS_ACCELERATOR="cpu")
    assert refused["error"] == "Error" and "layers with grouped-query attention" in refused["refused"]
