"""deepspeed.comm between two ranks on AnyAccel's accelerator: each collective returns the correct
result.
"""

import importlib.util
import os
import pathlib

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import ranks  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("collectives.py")
NAMES = [line[4:line.index("(")] for line in PROGRAM.read_text().split("@check\n")[1:]]


@pytest.fixture(scope="module", params=["auto", "off"])
def found(request):
    """Return each rank's outcome. On cpu, the ranks use oneCCL if it can be started, otherwise
    gloo.
    """
    if request.param == "off" and os.environ["DS_ACCELERATOR"] != "cpu":
        pytest.skip("ANYACCEL_CCL affects only the CPU")
    return ranks.results(PROGRAM, SIM_DEVICES="2", ANYACCEL_CCL=request.param)


@pytest.mark.parametrize("name", NAMES)
def test_collective(found, name):
    # Fails if the accelerator's torch.distributed backend lacks this collective, or it gives a
    # wrong result.
    outcomes = [each["outcome"][name] for each in found]
    if name == "monitored_barrier" and found[0]["backend"] != "gloo":
        # torch implements this for gloo groups only, and raises a clear error for others
        assert all("only implemented for GLOO" in each for each in outcomes), outcomes
        return
    assert outcomes == ["ok", "ok"]
