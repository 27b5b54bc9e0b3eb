"""DeepSpeed's hybrid engine on a CPU: what stock can do there, training and generating by turns with a model's own layers, goes the same
way; with a model whose layers DeepSpeed replaces by its inference layers, which stock refuses, they say what the model's own would."""

import importlib.util
import pathlib

import pytest

for package in ("deepspeed", "transformers"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

from run_child import result  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("hybrid.py")


def test_trains_and_generates_by_turns():
    # breaks when a turn leaves the engine in the other one's state, or our accelerator's answers lead it another way than stock
    ours, stock = (result(PROGRAM, side, "opt", 2, DS_ACCELERATOR="cpu") for side in ("ours", "stock"))
    assert ours["engine"] == "DeepSpeedHybridEngine"
    assert ours["losses"] == pytest.approx(stock["losses"], rel=1e-5) and ours["said"] == stock["said"]


@pytest.mark.parametrize("name", ["llama", "gptj"])
def test_generates_through_inference_layers(name):
    # breaks when these read weights of an earlier turn
    ours = result(PROGRAM, "injected", name, 2, DS_ACCELERATOR="cpu")
    assert ours["engine"] == "DeepSpeedHybridEngine"
    assert ours["said"] == ours["own"] and len({str(said) for said in ours["said"]}) > 1
    assert ours["losses"][-1] < 0.95 * ours["losses"][0]


def test_shared_keys_are_refused_by_name():
    # breaks when DeepSpeed's layers, which know no such heads, fail in the middle of a training
    refused = result(PROGRAM, "ours", "llama", 0, DS_ACCELERATOR="cpu")
    assert refused["error"] == "Error" and "whose heads share keys" in refused["refused"]
