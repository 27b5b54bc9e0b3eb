"""deepspeed.comm between two ranks on our accelerator: each collective gives what the ranks' numbers make."""

import importlib.util
import os
import pathlib

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import ranks  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("collectives.py")
NAMES = [line[4:line.index("(")] for line in PROGRAM.read_text().split("@check\n")[1:]]


@pytest.fixture(scope="module")
def outcomes():
    # Where oneCCL is installed DeepSpeed has its own backend over it, which lacks bitwise reductions and scatter_list: docs/deepspeed.md.
    return [each["outcome"] for each in ranks.results(PROGRAM, SIM_DEVICES="2", ANYACCEL_CCL="off")]


@pytest.mark.parametrize("name", NAMES)
def test_collective(outcomes, name):
    # breaks when the accelerator's backend of torch.distributed lacks this collective, or gives other numbers
    if name == "monitored_barrier" and os.environ["DS_ACCELERATOR"] != "cpu":
        # torch has it for gloo's groups alone, and says so
        assert all("only implemented for GLOO" in each[name] for each in outcomes), outcomes
        return
    assert [each[name] for each in outcomes] == ["ok", "ok"]
