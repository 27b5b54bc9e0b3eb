"""DeepSpeed's inference v2 on a CPU, which stock DeepSpeed does not support. In ragged batches over
a paged cache, each sequence gets the same logits as without the other sequences.
"""

import functools
import importlib.util
import pathlib

import pytest

for package in ("deepspeed", "transformers"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

from run_child import result  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("ragged.py")
MODELS = ("llama", "mistral", "qwen2", "opt")


@functools.cache
def results(dtype, *options):
    return result(PROGRAM, dtype, *MODELS, *options, DS_ACCELERATOR="cpu")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", MODELS)
def test_logits(name, dtype):
    # Fails if a sequence reads another sequence's blocks, or tokens have the wrong position. The
    # error also shows whether sums are accumulated in the narrow dtype.
    got = results(dtype)[name]
    assert got["rows"] == 12 and got["all is free"]
    assert got["error"] < 1.5 * got["plain error"] + (4e-3 if dtype == "bfloat16" else 1e-3), got


@pytest.mark.parametrize("name", MODELS)
def test_logits_with_six_bit_weights(name):
    # Fails if DeepSpeed's module for six-bit weights is rejected, or a matrix or its scales are
    # wrong.
    got = results("float16", "--six-bits")[name]
    assert got["rows"] == 12 and got["all is free"]
    assert got["error"] < 1.5 * got["plain error"] + 1e-3, got
    assert got["moved"] > 10 * got["error"], got  # rounding the weights changes the logits


def test_six_bit_layer():
    # Fails if few tokens, many tokens or gated activations use the wrong weights. DeepSpeed itself
    # rejects a number of outputs that is not a multiple of 256.
    got = result(PROGRAM.with_name("six_bits.py"), DS_ACCELERATOR="cpu")
    assert len(got["errors"]) == 9 and max(got["errors"].values()) < 2e-3, got
    assert "multiple of 256" in got["odd"]
