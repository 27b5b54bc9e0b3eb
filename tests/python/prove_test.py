"""The package anyaccel_prove: its table is complete, and its checks find wrong results, streams and
graphs.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import anyaccel
from anyaccel_prove import plan
from anyaccel_prove.checks import cases, compare, ops, protocol
from anyaccel_prove.checks.table import Case

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_builder_has_a_case():
    # Fails if an op is added without a comparison or a reason for its absence.
    names = {re.search(r"^class_name = (\w+)", file.read_text(), re.M).group(1) for file in (ROOT / "src/ops").glob("*/*.op")}
    assert names == set(cases.CASES) | set(cases.NO_KERNELS)
    assert not set(cases.CASES) & set(cases.NO_KERNELS)


def test_lists_of_builders_are_complete():
    # Fails if an installation's report lacks an op, or if compute-sanitizer does not examine an
    # op's CUDA kernels.
    found = {}
    for file in (ROOT / "src/ops").glob("*/*.op"):
        text = file.read_text()
        found.setdefault(re.search(r"^class_name = (\w+)", text, re.M).group(1), []).append("\nbackends = cuda\n" in text)
    assert set(plan.BUILDERS) == set(found)
    assert set(plan.KERNELS) == {name for name, is_cuda in found.items() if any(is_cuda)}


def test_names_are_unique():
    # Fails if two checks of an op have the same name, so that --only runs the wrong one.
    for builder in cases.CASES:
        names = [check[0] for check in ops.checks_of(builder, quick=False)]
        assert len(set(names)) == len(names), builder


WRONG = """
import torch
import anyaccel
from anyaccel_prove.checks.compare import Checker
from anyaccel_prove.checks.table import Case

accelerator = anyaccel.get_accelerator()
checker = Checker(accelerator, None)

def on_the_default_stream(module, tensors):
    if tensors[0].device.type == "cpu":
        return [tensors[0] * 2]
    with accelerator.stream(accelerator.default_stream()):
        return [tensors[0] * 2]

def read_at_capture(module, tensors):
    x = tensors[0]
    return [torch.full_like(x, float(x[0]) if x.device.type == "cpu" else remembered["sim"])]

def make(draw, size, dtype):
    value = draw.normal(1)
    remembered.setdefault("sim", float(value))
    return [value.expand(size).clone()]

remembered = {}
right = lambda module, tensors: [tensors[0] * 2]
for name, call, mode in (("right", right, "stream"), ("right", right, "graph"),
                         ("default stream", on_the_default_stream, "forward"), ("default stream", on_the_default_stream, "stream"),
                         ("capture", read_at_capture, "forward"), ("capture", read_at_capture, "graph")):
    remembered.clear()
    # On a busy host, the stream may finish its delay before the host calls the op.
    tries = 5 if name == "default stream" and mode == "stream" else 1
    found = False
    for _ in range(tries):
        try:
            checker.check(Case(name, make, call), 1003, "float32", mode)
        except AssertionError:
            found = True
            break
    print(name, mode, "failed" if found else "passed")
"""


def test_wrong_streams_and_graphs_are_found():
    # Fails if a kernel on the default stream, or a value that is read at capture, is not noticed.
    if "sim" not in anyaccel.registered_backends():
        pytest.skip("this build has no simulator")
    done = subprocess.run([sys.executable, "-B", "-c", WRONG],
                          env={**os.environ, "DS_ACCELERATOR": "sim"},
                          capture_output=True,
                          text=True)
    assert done.stdout.splitlines() == [
        "right stream passed", "right graph passed", "default stream forward passed", "default stream stream failed",
        "capture forward passed", "capture graph failed"
    ], done.stdout + done.stderr


def test_results(capsys):
    # Fails if skipped checks count as passed, a failed one does not fail the part, or checks go on
    # after the device has failed.
    def fail():
        raise ValueError("wrong")

    def skip():
        raise protocol.Skip("no graphs")

    broken = "1 failed; the device failed in 0, the later checks were not run"
    for checks, alive, code, summary in (([], True, 0, ""), ([skip], True, 77, "skipped: no graphs"),
                                         ([skip, str], True, 0, "1 passed, 1 skipped"),
                                         ([fail, str], True, 1, "1 passed, 1 failed"), ([fail, str], False, 1, broken)):
        out = protocol.Results(alive=lambda alive=alive: alive)
        for number, check in enumerate(checks):
            out.run(str(number), check)
        assert out.end() == code
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["summary"] == summary


@pytest.mark.parametrize("got, want, exact", [([1.0, 2.0], [1.0, 2.1], False), ([1.0, torch.nan], [1.0, 2.0], False),
                                              ([1.0, 2.0], [1.0, torch.inf], False), ([torch.inf], [-torch.inf], False),
                                              ([1.0, 2.0], [1.0, 2.0000002], True), ([torch.nan], [0.0], True),
                                              ([1.0], [1.0, 2.0], False)])
def test_differences_are_found(got, want, exact):
    # Fails if a wrong value, NaN, infinity or shape passes.
    case = Case("numbers", None, None)
    with pytest.raises(AssertionError):
        compare.compare(case, [torch.tensor(got)], [torch.tensor(want)], exact=exact)
    compare.compare(case, [torch.tensor(want)], [torch.tensor(want)], exact=exact)
