"""tools/build: passes on compiler messages and the exit status, and estimates the remaining time.
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = """#!/bin/sh
echo "$@" > "$LOG"
echo "[1/3] Building a"
echo "a.cpp:1: warning: seen"
echo "[2/3] Building b"
echo "[3/3] Linking c"
exit $STATUS
"""


def load_tool():
    loader = importlib.machinery.SourceFileLoader("build_tool", str(ROOT / "tools/build"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("build_tool", loader))
    loader.exec_module(module)
    return module


class Build(unittest.TestCase):
    def run_tool(self, status, *options):
        """Return (exit status, output, arguments of cmake)."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "cmake")
            program.write_text(CMAKE)
            program.chmod(0o755)
            log = pathlib.Path(folder, "log")
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STATUS": str(status), "LOG": str(log)}
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/build", "build/x", *options], env=environment, capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr, log.read_text().split()

    # Fails if a failed build returns success, or a compiler's message is lost.
    def test_passes_on_status_and_messages(self):
        for status, word in ((0, "done"), (3, "failed")):
            code, said, _ = self.run_tool(status)
            self.assertEqual(code, status, said)
            self.assertIn("a.cpp:1: warning: seen", said)
            self.assertIn(f"build: {word}, 3 steps", said)

    # Fails if targets or the number of jobs are not passed to CMake.
    def test_targets_and_jobs(self):
        _, _, words = self.run_tool(0, "--jobs", "7", "--target", "one", "--target", "two")
        self.assertEqual(words, "--build build/x -j 7 --target one two".split())

    # Fails if the estimate is not proportional to the remaining steps, or is shown before enough
    # steps are finished.
    def test_estimate(self):
        progress = load_tool().progress
        self.assertEqual(progress(20, 80, 60), "build: 20 of 80 steps, 1 min 00 s, about 3 min 00 s left")
        self.assertEqual(progress(2, 80, 2), "build: 2 of 80 steps, 2 s")
        self.assertEqual(progress(80, 80, 90), "build: 80 of 80 steps, 1 min 30 s")


if __name__ == "__main__":
    unittest.main()
