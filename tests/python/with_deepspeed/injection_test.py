"""Kernel injection: `init_inference` with `replace_with_kernel_inject` replaces the layers of
transformers models with DeepSpeed's inference layers, which call AnyAccel's op. Stock DeepSpeed
cannot do this on a CPU. Logits and generated tokens stay the same.
"""

import functools
import importlib.util
import os
import pathlib

import pytest

for package in ("deepspeed", "transformers"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

import ranks  # noqa: E402
from run_child import result  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("injection.py")
GENERATING = ("gpt2", "opt", "llama", "gptj", "gpt_neo", "gpt_neox")
ENCODERS = ("bert", "roberta", "distilbert")
ACCELERATORS = os.environ["ANYACCEL_TEST_ACCELERATORS"].split(",")
SPLIT = ("gpt2", "llama")


@functools.cache
def alone(accelerator, dtype):
    return result(PROGRAM, dtype, 1, *GENERATING, *ENCODERS, DS_ACCELERATOR=accelerator)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", GENERATING + ENCODERS)
def test_logits_and_tokens(name, accelerator):
    # Fails if logits or generated tokens differ from those of the model's own layers, for example
    # because a token has the wrong position or padding is not masked.
    got = alone(accelerator, "float32")[name]
    assert got["layers"] == 2 and got["device"].split(":")[0] == accelerator
    assert got["error"] < 2e-6 and got["same tokens"], got
    assert len({word for row in got["words"][0] for word in row[9:]}) > 1 if name in GENERATING else got["words"] is None


@pytest.mark.parametrize("dtype", ["bfloat16"])
@pytest.mark.parametrize("name", GENERATING + ENCODERS)
def test_half_precision(name, dtype):
    # Fails if sums are accumulated in the narrow dtype. The error must be close to that of the
    # model's own layers.
    got = alone("cpu", dtype)[name]
    assert got["layers"] == 2
    assert got["error"] < 1.5 * got["plain error"] + 2e-3, got


@functools.cache
def split(accelerator):
    return ranks.results(PROGRAM, "float32", ranks.COUNT, *SPLIT, DS_ACCELERATOR=accelerator, SIM_DEVICES=str(ranks.COUNT))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", SPLIT)
def test_model_split_across_two_ranks(name, accelerator):
    # Fails if biases or residuals are added once per rank instead of once.
    for got in split(accelerator):
        assert got[name]["error"] < 2e-6 and got[name]["same tokens"], got[name]


def test_unsupported_cases_raise():
    # Fails if the error for an unsupported case does not name the cause. If DeepSpeed supports a
    # case, the documentation must be updated.
    got = result(PROGRAM, "float32", 1, "refused", DS_ACCELERATOR="cpu")
    assert "BLOOM inference with DeepSpeed is no longer supported" in got["bloom"]
    assert "layers with grouped-query attention; got 32 query rows and 16 key rows" in got["shared"] and "Error: " in got["shared"]
    assert "got 3 tokens after 9, want one token, or a new prompt" in got["behind"]
