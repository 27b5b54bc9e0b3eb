"""Tests of the pytest plugin, which run pytest in child processes."""

import importlib.util
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import anyaccel
import pytest

pytestmark = pytest.mark.skipif("sim" not in anyaccel.registered_backends(), reason="this build has no simulator")

# A test with a race between two streams, and a corrected version of it.
RACE = """
import torch

def scale(x, accelerator, stream):
    with accelerator.stream(stream):
        return x * 2

def test_race(accelerator, device):
    x = torch.ones(64, 64, device=device)
    scale(x, accelerator, accelerator.Stream())

def test_no_race(accelerator, device):
    x = torch.ones(64, 64, device=device)
    stream = accelerator.Stream()
    stream.wait_stream(accelerator.current_stream())
    y = scale(x, accelerator, stream)
    accelerator.current_stream().wait_stream(stream)
    y.record_stream(accelerator.current_stream())
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Return a function that writes the test file and runs pytest on it."""
    for name in list(os.environ):
        if name.startswith(("SIM_", "DS_ACCELERATOR", "PYTEST_")):
            monkeypatch.delenv(name)

    def run(content, *options, status=None, **files):
        for name, text in {"test_it": content, **files}.items():
            (tmp_path / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "_anyaccel_pytest", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        output = done.stdout + done.stderr
        assert status is None or done.returncode == status, output
        return output

    return run


CHECKED = ("--accelerator", "sim", "--accelerator-check")


# Fails if a test with a race passes, if a correct test fails, or if the failure does not show the
# line, the problem and a suggested fix.
def test_a_problem_fails_the_test(suite, tmp_path):
    output = suite(RACE, *CHECKED, "--junitxml", "junit.xml", status=1)
    assert "1 failed, 1 passed" in output
    assert ">           return x * 2" in output
    assert "E   unordered_streams: aten::mul" in output
    assert "E   fix: record an event" in output
    assert "test_it.py:6: unordered_streams" in output
    assert "FAILED test_it.py::test_race - accelerator check: unordered_streams" in output
    cases = {case.get("name"): case for case in xml.etree.ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert "unordered_streams" in cases["test_race"].find("failure").get("message")
    assert cases["test_no_race"].find("failure") is None


# Fails if a test that also fails for another reason does not show its problems, or is counted
# twice.
def test_a_failed_test_also_shows_its_problems(suite):
    output = suite(RACE.replace("accelerator.Stream())\n\n", "accelerator.Stream())\n    assert x.shape == (1,)\n\n", 1), *CHECKED, status=1)
    assert "assert torch.Size([64, 64]) == (1,)" in output
    assert "accelerator check" in output and "unordered_streams" in output
    assert "1 failed, 1 passed" in output


# Fails if memory, faults, seeds, dtypes, lost devices or errors carry over from one test to the
# next.
def test_each_test_has_a_fresh_device(suite):
    output = suite(
        """
import pytest
import torch

draws = []

@pytest.mark.accelerator(memory="16MiB")
def test_small(device):
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(32 << 20, dtype=torch.uint8, device=device)

@pytest.mark.accelerator(faults="oom@2")
def test_fault(device):
    torch.ones(4, device=device)
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(4, device=device)

@pytest.mark.accelerator(faults=["lost@1"])
def test_lost(device, accelerator):
    with pytest.raises(Exception, match="lost"):
        torch.ones(4, device=device)
        accelerator.synchronize()

@pytest.mark.accelerator(dtypes=["float32"])
def test_dtypes(device):
    with pytest.raises(Exception, match="dtype"):
        torch.ones(4, dtype=torch.float64, device=device)

@pytest.mark.parametrize("turn", range(2))
def test_fresh(turn, device, accelerator):
    assert accelerator.max_memory_allocated() == 0
    draws.append(torch.rand(4, device=device).cpu())
    assert draws[turn].equal(draws[0])
    torch.empty(32 << 20, dtype=torch.uint8, device=device)
    torch.ones(4, dtype=torch.float64, device=device)
""", "--accelerator", "sim", status=0)
    assert "6 passed" in output


# Fails if an asynchronous error is reported by a later test, or not at all.
def test_an_asynchronous_error_belongs_to_its_test(suite):
    output = suite(
        """
import pytest
import torch

@pytest.mark.accelerator(faults="kernel=mul@1")
def test_first(device):
    torch.ones(4, device=device) * 2

def test_second(device):
    torch.ones(4, device=device) * 2
""", "--accelerator", "sim", status=1)
    assert "FAILED test_it.py::test_first" in output and "1 failed, 1 passed" in output


# Fails if the device cannot take CUDA's place before conftest.py imports torch.
def test_in_place_of_cuda(suite):
    content = """
import torch

def test_it(device, devices):
    assert device == torch.device("cuda", 0) and devices(2)[1] == torch.device("cuda", 1)
    x = torch.ones(4, device="cuda")
    assert x.is_cuda and torch.cuda.memory_allocated() > 0

def test_three(devices):
    devices(3)
"""
    conftest = "import torch\nassert torch.cuda.is_available()\n"
    output = suite(content, "--accelerator", "sim", "--accelerator-stands-in-for", "cuda", "-rs", conftest=conftest, status=0)
    assert "1 passed, 1 skipped" in output and "needs 3 devices; cuda has 2" in output


# Fails if known problems fail tests, if a baseline entry for a fixed problem is not reported, or if
# a malformed file is accepted.
def test_baseline(suite, tmp_path):
    baseline = (*CHECKED, "--accelerator-baseline", "known.json")
    assert "cannot read the baseline 'known.json'" in suite(RACE, *baseline, status=4)
    assert "wrote 1 problem to known.json" in suite(RACE, *baseline, "--accelerator-update-baseline", status=0)
    assert "1 known problem (known.json)" in suite("\n\n" + RACE, *baseline, status=0)
    # An update by a part of the suite keeps the entries of the other tests.
    suite(RACE, *baseline, "--accelerator-update-baseline", "-k", "no_race", status=0)
    assert len(json.loads((tmp_path / "known.json").read_text())["problems"]) == 1
    assert "no longer found" in suite(RACE.replace("accelerator.stream(stream)", "torch.no_grad()"), *baseline, status=0)
    another = RACE.replace("x * 2", "x + 2")
    assert "1 failed" in suite(another, *baseline, status=1)
    (tmp_path / "known.json").write_text('{"version": 2}')
    assert "is not a baseline: version 2, want 1" in suite(RACE, *baseline, status=4)


# Fails if the SARIF file lacks a problem, its location, or its rule.
@pytest.mark.parametrize("workers", [0, 2])
def test_sarif(suite, tmp_path, workers):
    if workers and importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    suite(RACE, *CHECKED, "--accelerator-sarif", "out.sarif", *(["-n", str(workers)] if workers else []), status=1)
    run, = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    result, = run["results"]
    assert result["ruleId"] == "unordered_streams" in [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("test_it.py", 6)
    assert result["level"] == "error" and "test_it.py::test_race" in result["message"]["text"]


# Fails if an option that cannot have an effect is accepted, or if an error is not one clear line.
@pytest.mark.parametrize("options, message", [
    (("--accelerator", "cpu", "--accelerator-check"), "--accelerator-check requires --accelerator sim; got --accelerator cpu"),
    (("--accelerator", "cpu", "--accelerator-memory", "1GiB"), "--accelerator-memory requires --accelerator sim"),
    (("--accelerator", "sim", "--accelerator-memory", "much"), "invalid memory size"),
    (("--accelerator", "nosuch"), "nosuch"),
    (("--accelerator", "sim", "--accelerator-update-baseline"), "requires --accelerator-baseline FILE"),
])  # yapf: disable
def test_invalid_options(suite, options, message):
    output = suite(RACE, *options, status=4)
    assert message in output and "Traceback" not in output


# Fails if a misspelled or invalid option of the marker is ignored.
@pytest.mark.parametrize("marker, message", [
    ("memorry='1GiB'", "has no option memorry"),
    ("'1GiB'", "has no option '1GiB'"),
    ("memory='much'", "invalid memory size"),
    ("faults='x@1'", "invalid fault"),
])  # yapf: disable
def test_invalid_markers(suite, marker, message):
    output = suite(f"import pytest\n\n@pytest.mark.accelerator({marker})\ndef test_it(): pass\n", "--accelerator", "sim", status=1)
    assert message in output and "1 error" in output


# Fails if a test that needs the simulated device runs on a real one, or if the plugin requires the
# simulator for other accelerators.
def test_other_accelerators(suite):
    content = """
import pytest

@pytest.mark.accelerator(faults="oom@1")
def test_fault(): pass

def test_device(device): assert device.type == "cpu"
"""
    output = suite(content, "--accelerator", "cpu", "-rs", status=0)
    assert "1 passed, 1 skipped" in output and "needs the simulated accelerator" in output


# Fails if the plugin slows down runs that do not use it, by importing torch.
def test_without_accelerator_nothing_is_imported(suite):
    suite("import sys\n\ndef test_it(): assert 'torch' not in sys.modules and 'anyaccel' not in sys.modules\n", status=0)
