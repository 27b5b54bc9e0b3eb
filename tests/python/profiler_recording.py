"""Runs programs that record themselves for `anyaccel profile`, and reads their recordings."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

from anyaccel.profiler.report.events import Window

HOOK = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "share", "anyaccel", "python_hook")


def read_window(path):
    """Return a window's trace, with one event per op."""
    window = Window(path)
    events = list(window)
    assert not window.error, window.error
    return {"baseTimeNanoseconds": window.base_ns, "traceEvents": events}


class Recording:
    """The files of one recorded process."""

    def __init__(self, folder):
        self.process = json.loads((folder / "process.json").read_text())
        self.windows = [read_window(path) for path in sorted(folder.glob("window-*.json.gz"))]
        self.sizes = [len(gzip.decompress(path.read_bytes())) for path in sorted(folder.glob("window-*.json.gz"))]
        self.lines = [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(folder.glob("lines-*.json.gz"))]
        self.leftovers = list(folder.glob("*.tmp"))

    def events(self, **wanted):
        return [event for window in self.windows for event in window["traceEvents"]
                if all(event.get(key) == value for key, value in wanted.items())]

    def names(self, category):
        return {event["name"] for event in self.events(cat=category)}

    def frames(self):
        return {frame for lines in self.lines for frame in lines["frames"]}


def record(code, expect=0, out="out", timeout=300, **variables):
    """Run a program that records itself in the folder `out`. Return (its recordings, sorted by
    start; the finished process).
    """
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(textwrap.dedent(code).lstrip("\n"))
        environment = {**os.environ, "PYTHONPATH": HOOK + os.pathsep + os.environ["PYTHONPATH"],
                       "ANYACCEL_PROFILE_DIR": os.path.join(folder, out), "ANYACCEL_PROFILE_WINDOW": "0.3",
                       "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", **variables}
        done = subprocess.run([sys.executable, "-B", str(program)], env=environment, capture_output=True, text=True,
                              timeout=timeout, cwd=folder)
        assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        found = [Recording(path) for path in pathlib.Path(folder, out, "raw").glob("*")]
        return sorted(found, key=lambda one: one.process["start_ns"]), done
