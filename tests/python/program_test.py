"""`python -m anyaccel`, anyaccel.report(), representations for notebooks, and the required torch
version.
"""

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

import anyaccel
from anyaccel import _build_info, get_accelerator

PROGRAM = os.environ["ANYACCEL_PROGRAM"]


def run(*command, **environment):
    return subprocess.run([str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)


def module(*words, **environment):
    return run(sys.executable, "-m", "anyaccel", *words, **environment)


needs_program = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="this build has no program")


# Fails if output or exit codes differ from those of the program `anyaccel`.
@needs_program
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["no-such-command"], ["report", "--no-such-option"], ["topology", "--json"],
                                   ["launch", "--num_accelerators", "1", "bash", "-c", "exit 7"], ["launch", "bash", "-c", "echo '  a  b' \"$0\"", "ü *"]])
def test_same_command_line(words):
    ours, theirs = module(*words), run(PROGRAM, *words)
    assert ours.returncode == theirs.returncode
    assert ours.stdout == theirs.stdout
    assert len(ours.stderr.splitlines()) == len(theirs.stderr.splitlines())  # log lines contain the time


# Fails if `python -m anyaccel` imports torch, which takes a second.
@needs_program
def test_program_does_not_import_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    done = module("--version", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("anyaccel ")
    # Verifies that the fake torch works.
    assert run(sys.executable, "-c", "import anyaccel", PYTHONPATH=path).returncode != 0


# Fails if `-m` with another module runs the program, or runpy cannot run the package.
@needs_program
def test_other_modules(tmp_path):
    (tmp_path / "mine.py").write_text("import sys, anyaccel; print(sys.argv[1:], anyaccel.__name__)")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    assert run(sys.executable, "-m", "mine", "anyaccel", PYTHONPATH=path).stdout == "['anyaccel'] anyaccel\n"
    code = "import sys, runpy, anyaccel; sys.argv = ['x', '--version']; runpy.run_module('anyaccel', run_name='__main__')"
    assert run(sys.executable, "-c", code).stdout == run(PROGRAM, "--version").stdout


def torch_of(folder, version):
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").write_text(f"__version__ = {version!r}\n")
    return os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])


# Fails if a different torch version causes a loader error instead of a message with both versions
# and the remedy.
def test_other_torch_version_is_rejected(tmp_path):
    path = torch_of(tmp_path, "2.9.1+cu128")
    code = """
try:
    import anyaccel
except RuntimeError as error:
    print(error.code, error)
"""
    said = run(sys.executable, "-c", code, PYTHONPATH=path).stdout
    assert said.startswith("version_mismatch [import anyaccel] ")
    assert "torch 2.9.1+cu128 in " + str(tmp_path) in said and f"want torch {_build_info.TORCH_VERSION}" in said
    assert f"pip install torch=={_build_info.TORCH_VERSION}" in said


# Fails if the error for missing torch does not say what to install.
def test_missing_torch_is_reported(tmp_path):
    code = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "torch": raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Hidden())
try:
    import anyaccel
except RuntimeError as error:
    print(error.code, error)
"""
    said = run(sys.executable, "-c", code).stdout
    assert said.startswith("unavailable [import anyaccel] ") and f"pip install torch=={_build_info.TORCH_VERSION}" in said


# Fails if report() differs from the program's report, or lacks the versions of Python packages.
@needs_program
def test_report(capsys):
    found = anyaccel.report()
    text = capsys.readouterr().out
    assert text.lstrip().startswith("accelerator") and "Backends, in order of detection" in text and "Versions" in text
    theirs = json.loads(run(PROGRAM, "report", "--json").stdout)
    assert list(found) == list(theirs) and found["accelerator"] == theirs["accelerator"] == "cpu"
    assert [backend["name"] for backend in found["backends"]] == anyaccel.registered_backends()
    versions = found["versions"]
    assert versions["anyaccel"] == anyaccel.__version__ and versions["torch (Python)"] == importlib.metadata.version("torch")
    for name in ("deepspeed", "transformers"):
        try:
            assert versions[f"{name} (Python)"] == importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            assert versions[f"{name} (Python)"] is None
    assert "plugins" in found and isinstance(found["op_builders"], list)
    anyaccel.report(show=False)
    assert capsys.readouterr().out == ""


# Fails if report() imports packages to get their versions, which takes seconds and may initialize a
# device.
@needs_program
def test_report_imports_nothing():
    code = """
import sys, anyaccel
anyaccel.report(show=False)
print([name for name in ("deepspeed", "transformers", "numba") if name in sys.modules])
"""
    assert run(sys.executable, "-c", code).stdout == "[]\n"


# Fails if an object's repr or notebook representation does not show its state.
def test_representations():
    a = get_accelerator()
    assert repr(a) == "<anyaccel.Accelerator 'cpu'>"
    page = a._repr_html_()
    assert page.startswith("<table>") and "<td>0*</td>" in page and page.count("<tr>") == 1 + a.device_count()
    assert repr(a.Stream()).startswith("anyaccel.Stream(device='cpu', device_index=0, id=")
    assert repr(a.Event()) == "anyaccel.Event(done)"
    graph = a.create_graph()
    assert repr(graph) == "anyaccel.Graph(empty)"
    with a.capture_to_graph(graph):
        pass
    assert repr(graph) == "anyaccel.Graph(captured)"
    assert repr(a.create_op_builder("CPUAdamBuilder")) == "<anyaccel.CPUAdamBuilder of the op 'cpu_adam'>"
    info = a.memory_info()
    assert repr(info) == f"MemoryInfo(free={info.free}, total={info.total})"
    assert f"<th>total</th><td>{info.total}</td>" in info._repr_html_()
    assert "&#x27;" in anyaccel.detect()._repr_html_()  # special characters are escaped
