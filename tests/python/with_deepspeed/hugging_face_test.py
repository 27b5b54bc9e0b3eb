"""Training a Hugging Face transformers model with ZeRO-3 on AnyAccel's accelerator, with two ranks
under `anyaccel launch`, gives stock DeepSpeed's losses. With the Trainer, it also gives the same
weights.
"""

import functools
import importlib.util
import os
import pathlib

import pytest

for needed in ("deepspeed", "transformers", "accelerate"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)

import ranks  # noqa: E402
import small_models  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("hugging_face.py")
ACCELERATORS = os.environ["ANYACCEL_TEST_ACCELERATORS"].split(",")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    small_models.make("llama").save_pretrained(folder)
    return functools.cache(lambda side, accelerator: ranks.results(PROGRAM, side, folder, DS_ACCELERATOR=accelerator, SIM_DEVICES=str(ranks.COUNT)))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_custom_loop(results, accelerator):
    # Fails if a custom training loop gives different losses than stock DeepSpeed, because loading
    # shards the checkpoint incorrectly or a step of ZeRO-3 differs.
    for mine, theirs in zip(results("ours", accelerator), results("stock", "cpu")):
        assert "anyaccel.deepspeed" in mine["accelerator"] and "anyaccel" not in theirs["accelerator"]
        assert mine["loop"]["device"].split(":")[0] == accelerator
        assert mine["loop"]["split"] and theirs["loop"]["split"]
        assert mine["loop"]["losses"] == pytest.approx(theirs["loop"]["losses"], rel=1e-5)
        assert len(set(mine["loop"]["losses"])) > 10  # each step has different tokens


def test_trainer(results):
    # Fails if the Trainer gives different losses than stock DeepSpeed, or saves different weights.
    for mine, theirs in zip(results("ours", "cpu"), results("stock", "cpu")):
        assert mine["trainer"]["engine"] == theirs["trainer"]["engine"] == "DeepSpeedEngine"
        assert mine["trainer"]["losses"] == pytest.approx(theirs["trainer"]["losses"], rel=1e-5)
        assert len(mine["trainer"]["losses"]) == 12
    mine, theirs = (results(side, "cpu")[0]["trainer"]["saved"] for side in ("ours", "stock"))
    assert mine.keys() == theirs.keys() and len(mine) > 10
    for name, weights in mine.items():
        assert weights == pytest.approx(theirs[name], abs=1e-5), name
