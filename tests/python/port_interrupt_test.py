"""Ctrl-C during `anyaccel port --fix`: every file has its old or its new content, and the message says
how many files were written."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("libcst", reason="libcst is not installed; `anyaccel port` needs it for Python sources")

PACKAGES = pathlib.Path(__file__).resolve().parents[2] / "bindings/python"
OLD = "import torch\n\ntorch.cuda.synchronize()\n" + "x = 1\n" * 200
NEW = OLD.replace("import torch\n", "import torch\nfrom anyaccel import get_accelerator\n")
NEW = NEW.replace("torch.cuda", "get_accelerator()")
# Writing a file takes a while, so that the signal arrives while files are being written.
SLOW = """
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
from anyaccel_port.__main__ import main
sync = os.fsync
os.fsync = lambda file: (time.sleep(0.2), sync(file))
sys.exit(main())
"""
FILES = 40


def start(folder, *words):
    return subprocess.Popen([sys.executable, "-B", "-c", SLOW, PACKAGES, "--no-config", *words, folder],
                            stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            text=True,
                            start_new_session=True)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# Fails if a file is half written, a temporary file or a process is left, or the count is wrong.
@pytest.mark.parametrize("jobs", ["0", "1", "3"])
@pytest.mark.parametrize("times", [1, 2])
def test_interrupted_fix(tmp_path, jobs, times):
    paths = [tmp_path / f"file{i}.py" for i in range(FILES)]
    for path in paths:
        path.write_text(OLD)
    process = start(tmp_path, "--fix", "--jobs", jobs)
    wait_for(lambda: sum(path.read_text() == NEW for path in paths) >= 2 and any(tmp_path.glob(".anyaccel-*")))
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    contents = [path.read_text() for path in paths]
    written = contents.count(NEW)
    assert written + contents.count(OLD) == FILES and 2 <= written < FILES
    assert (process.returncode, out, err) == (130, "", f"anyaccel port: interrupted: {written} files were written\n")
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


# Fails if Ctrl-C without --fix claims that files were written, or prints a traceback.
def test_interrupted_report(tmp_path):
    (tmp_path / "big.py").write_text("import torch\n" + "torch.cuda.synchronize()\n" * 30000)
    process = start(tmp_path)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("the kernel does not list child processes in /proc")
    wait_for(lambda: children.read_text())
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "anyaccel port: interrupted: no file was written\n")
