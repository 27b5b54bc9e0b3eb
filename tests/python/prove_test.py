"""The package anyaccel_prove: its checks find faults, and its reports say how to reproduce them."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import anyaccel
from anyaccel_prove.checks import cases, compare, ops
from anyaccel_prove.checks.table import Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Makes FusedLion add 1 to the first parameter of bfloat16 lists with 17 elements.
FAULT = """
import sys
from importlib import abc, machinery

class Finder(abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "anyaccel.ops.fused_lion":
            return None
        spec = machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            step = module.multi_tensor_lion
            def faulty(chunk, flag, lists, *numbers):
                step(chunk, flag, lists, *numbers)
                if lists[1][0].numel() == 17 and str(lists[1][0].dtype) == "torch.bfloat16":
                    lists[1][0][0] += 1
            module.multi_tensor_lion = faulty
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Finder())
"""


def prove(folder, *options, python_path="", **variables):
    """Run the command and return its exit code, output and saved report."""
    path = ":".join(filter(None, [python_path, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **variables, "PYTHONPATH": path, "HOME": "/proc"}
    done = subprocess.run([sys.executable, "-B", "-m", "anyaccel_prove", "--out", folder, *options],
                          env=environment,
                          capture_output=True,
                          text=True)
    report = pathlib.Path(folder) / "report.json"
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else None


def test_every_builder_has_a_case():
    # Fails if an op is added without a comparison or a reason for its absence.
    names = {re.search(r"^class_name = (\w+)", file.read_text(), re.M).group(1) for file in (ROOT / "src/ops").glob("*/*.op")}
    assert names == set(cases.CASES) | set(cases.NO_KERNELS)
    assert not set(cases.CASES) & set(cases.NO_KERNELS)


def test_names_are_unique():
    # Fails if two checks of an op have the same name, so that --only runs the wrong one.
    for builder in cases.CASES:
        names = [check[0] for check in ops.checks_of(builder, quick=False)]
        assert len(set(names)) == len(names), builder


def test_a_fault_is_reported_with_a_command_that_reproduces_it(tmp_path):
    # Fails if a wrong result passes, or the command in the report does not fail in the same way.
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault/sitecustomize.py").write_text(FAULT)
    status, said, report = prove(tmp_path / "out",
                                 "--only",
                                 "op:FusedLionBuilder",
                                 "--backend",
                                 "cpu",
                                 python_path=str(tmp_path / "fault"))
    part = report["parts"]["op:FusedLionBuilder"]
    assert (status, part["status"]) == (1, "failed"), said
    # On the CPU, the faulty function computes both sides, so only the formula differs.
    assert [failure["name"] for failure in part["failures"]] == ["lion/17/bfloat16/reference"]
    command = part["failures"][0]["command"]
    assert command in (tmp_path / "out/report.md").read_text()
    # The command is for the shell in which the report was made.
    again = subprocess.run(["sh", "-c", command], env={**os.environ, "HOME": "/proc"}, capture_output=True, text=True)
    assert again.returncode == 1 and part["failures"][0]["message"] in again.stdout, again.stdout + again.stderr
    mended = subprocess.run(["sh", "-c", command.replace(str(tmp_path / "fault"), "")],
                            env={**os.environ, "HOME": "/proc"},
                            capture_output=True,
                            text=True)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    status, said, report = prove(tmp_path / "out", "--only", "op:FusedLionBuilder", "--backend", "cpu")
    assert (status, report["parts"]["op:FusedLionBuilder"]["status"]) == (0, "passed"), said


def test_the_simulator_stands_in_for_a_device(tmp_path):
    # Fails if the parts do not run on the simulator in place of another device, or the report does
    # not say that the device is simulated.
    if "sim" not in anyaccel.registered_backends() or torch.version.cuda:
        pytest.skip("requires the simulator and a CPU build of torch")
    status, said, report = prove(tmp_path, "--stands-in-for", "cuda", "--only", "op:UtilsBuilder")
    assert (status, report["backend"], report["parts"]["op:UtilsBuilder"]["data"]["checks"].get("failed",
                                                                                                0)) == (0, "cuda", 0), said
    assert "The device is simulated" in (tmp_path / "report.md").read_text()


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
    try:
        checker.check(Case(name, make, call), 1003, "float32", mode)
        print(name, mode, "passed")
    except AssertionError:
        print(name, mode, "failed")
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
