"""DeepSpeed's hybrid engine on a CPU: what stock can do there, training and generating by turns with a model's own layers, goes the same
way; a model whose layers DeepSpeed would replace by its inference kernels is refused by name, as stock refuses it."""

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


def test_kernels_are_refused_by_name():
    # breaks when a missing inference kernel is found out in the middle of a training, or by an AttributeError
    refused = result(PROGRAM, "ours", "llama", 0, DS_ACCELERATOR="cpu")
    assert refused["error"] == "NotImplementedOp" and "InferenceBuilder" in refused["refused"]
