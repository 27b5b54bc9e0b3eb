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
from anyaccel_prove.checks import cases, compare, ops, peaks, program, protocol
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

    broken = "1 failed; the device failed in 0, later checks were not run"
    for checks, alive, code, summary in (([], True, 0, ""), ([skip], True, 77, "skipped: no graphs"),
                                         ([skip, str], True, 0, "1 passed, 1 skipped"),
                                         ([fail, str], True, 1, "1 passed, 1 failed"), ([fail, str], False, 1, broken)):
        out = protocol.Results(alive=lambda alive=alive: alive)
        for number, check in enumerate(checks):
            out.run(str(number), check)
        assert out.end() == code
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["summary"] == summary


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_errors_are_relative_to_the_largest_magnitude(dtype):
    # Fails if a kernel that returns zeros passes because the expected values are small.
    case, want = Case("numbers", None, None), torch.tensor([0.001, -0.002], dtype=dtype)
    with pytest.raises(AssertionError):
        compare.compare(case, [torch.zeros_like(want)], [want], exact=False)
    compare.compare(case, [want * (1 + 1e-6)], [want], exact=False)
    # Rounding errors in place of an exact zero are accepted.
    compare.compare(case, [torch.full_like(want, 1e-10)], [torch.zeros_like(want)], exact=False)


class FailingGraphs:
    """The accelerator, except that its create_graph() raises an error or returns None."""
    def __init__(self, error):
        self.error = error

    def __getattr__(self, name):
        return getattr(anyaccel.get_accelerator(), name)

    def create_graph(self):
        if self.error:
            raise self.error
        return None


@pytest.mark.parametrize("error, raised", [(None, protocol.Skip), (anyaccel.Error("no graphs", "unsupported"), protocol.Skip),
                                           (anyaccel.Error("lost", "device_error"), anyaccel.Error), (ValueError("x"), ValueError)])
def test_only_missing_graphs_are_skipped(error, raised):
    # Fails if a failure of create_graph() is reported as a backend without graphs.
    case = Case("double", lambda draw, size, dtype: [draw.normal(size)], lambda module, tensors: [tensors[0] * 2])
    with pytest.raises(raised):
        compare.Checker(FailingGraphs(error), None).check(case, 3, "float32", "graph")


def run_check(name, *words, **variables):
    return subprocess.run([sys.executable, "-B", "-m", f"anyaccel_prove.checks.{name}", *map(str, words)],
                          env={**os.environ, **variables},
                          capture_output=True,
                          text=True)


def test_a_folder_of_the_user_is_kept(tmp_path):
    # Fails if files that the program did not create are deleted, or a folder that it did create is
    # not replaced.
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    (theirs / "checkpoint").mkdir(parents=True)
    done = run_check("program", "/bin/false", theirs)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "contains files that this program did not create" in done.stderr
    assert [path.name for path in theirs.iterdir()] == ["checkpoint"]
    run_check("program", "/bin/false", ours)
    (ours / "cpu").mkdir()
    done = run_check("program", "/bin/false", ours)
    assert '"check": "train", "status": "failed"' in done.stdout, done.stdout + done.stderr
    assert sorted(path.name for path in ours.iterdir()) == [program.MARKER, "text"]


def test_a_pattern_without_checks_fails(tmp_path):
    # Fails if a misspelled name runs nothing and passes.
    for name, words, known in (("program", ["/bin/false", tmp_path / "folder"], "generate-int8"), ("end_to_end", ["train"],
                                                                                                   "layer-FusedLion/float32"),
                               ("speed", ["--peaks", tmp_path / "peaks.json"], "adamw")):
        done = run_check(name, *words, "--only", "typo")
        lines = done.stderr.splitlines()
        assert (done.returncode, len(lines)) == (2, 1), done.stderr
        assert lines[0].startswith("--only matches no check (got 'typo', expected one of: ") and known in lines[0]


def test_the_cpu_is_not_compared_with_itself():
    # Fails if a comparison of the CPU with itself counts as passed.
    done = run_check("end_to_end", "generate", DS_ACCELERATOR="cpu")
    found = {line["check"]: line["status"] for line in map(json.loads, done.stdout.splitlines()) if "check" in line}
    assert found == {"decoder/float32/formula": "passed", "decoder/float32": "skipped", "decoder/bfloat16": "skipped"}, done.stderr


def test_names_of_device_types():
    # Fails if a backend gets another type than in the library.
    for file in (ROOT / "src/backends").glob("*/traits.cpp"):
        name = file.parent.name
        kind = re.search(r'\bdevice_type = "(\w+)"', file.read_text()).group(1)
        assert peaks.DEVICE_TYPES.get(name, name) == kind


@pytest.mark.parametrize("backend", ["klxpu", "supa", "nonsense"])
def test_peaks_are_those_of_the_named_backend(backend):
    # Fails if another device is measured instead, or the error is not one line.
    if torch.accelerator.is_available():
        pytest.skip("requires a CPU build of torch")
    done = run_check("peaks", DS_ACCELERATOR=backend)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert f"finds no device of type {peaks.DEVICE_TYPES.get(backend, backend)} (found: none)" in done.stderr


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
