"""`python -m anyaccel_prove`: reports of a faulty op, and of a simulated device."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import anyaccel

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
