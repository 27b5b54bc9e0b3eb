"""Helpers for the tests of `anyaccel launch`: start jobs that run a shell script on each rank, wait
until all ranks are running, and check for leftover processes.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from shell import BIN, shell, wait_for

PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]
SMALL = "--context 32 --hidden 32 --intermediate 48 --layers 2 --heads 2 --kv-heads 2 --head-dim 16 --lr 1e-2"


class Jobs:
    """Mixin for test cases with a folder `self.folder` and a method assert_nothing_left()."""

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def started(self, process, ranks):
        """Wait until each rank has created a file up*, and return `process`, the launcher."""
        def end():
            # A failed test must not disturb the next one.
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.addCleanup(end)
        try:
            wait_for(lambda: len(list(self.folder.glob("up*"))) == ranks or process.poll() is not None)
        except AssertionError as error:
            self.fail(f"{len(list(self.folder.glob('up*')))} of {ranks} ranks are up: {error}\n{self.why_not_up()}")
        if process.poll() is not None:
            self.fail(process.stderr.read())
        return process

    def why_not_up(self):
        """Return the logs of servers that may have failed to start ranks."""
        return ""

    def check_train(self, options=""):
        """Train with one rank on another host and with four ranks on two hosts, and compare the
        losses.
        """
        self.write("text.txt", "".join(f"line {i} of a text that repeats itself\n" for i in range(400)))
        self.write("one", "host2 slots=1\n")
        losses = []
        for hostfile in ("one", "pairs"):
            result = self.launch(f"{options} {BIN}/anyaccel train --data text.txt --out {hostfile}.out {SMALL} --steps 5 --batch-size 4 --json", hostfile,
                                 OMP_NUM_THREADS="1")
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append(json.loads(result.stdout.splitlines()[-1])["losses"])
            self.assertTrue((self.folder / (hostfile + ".out") / "model.safetensors").exists())
            self.assert_nothing_left()
        self.assertEqual(len(losses[0]), 5)
        for one, four in zip(*losses):
            self.assertLess(abs(one - four), 1e-5 * one, losses)

    def assert_gone_soon(self, since):
        """Check that all processes end promptly, without waiting for a timeout.

        The documented limit is a few seconds on an idle machine, which benchmarks measure. This
        check allows 30 s, because the machine may be busy, and the load average rises too slowly to
        tell.
        """
        self.assert_nothing_left()
        self.assertLess(time.monotonic() - since, 30)


class LaunchCase(Jobs, unittest.TestCase):
    """Base class of tests whose jobs run in a temporary folder of this machine."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(os.path.realpath(folder.name))
        # Use the Python of the tests, and ignore the user's .deepspeed_env.
        self.variables = {"PATH": os.path.dirname(PYTHON) + os.pathsep + BIN + os.pathsep + os.environ["PATH"], "HOME": str(self.folder),
                          "DS_ACCELERATOR": "cpu"}

    def run_line(self, line, **variables):
        return shell(line, cwd=self.folder, **{**self.variables, **variables})

    def start_line(self, launch, script, ranks):
        """Start the command line `launch` in its own session, with a shell script as the program,
        and return the process when all ranks are running.
        """
        self.write("script.sh", script)
        process = subprocess.Popen(["bash", "-c", f"exec {launch} sh script.sh"], cwd=self.folder, env={**os.environ, **self.variables},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        return self.started(process, ranks)

    def left(self):
        """Return (id, command line) of each process whose working directory is the test's folder.
        """
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(self.folder):
                    found.append((int(name), pathlib.Path(f"/proc/{name}/cmdline").read_text(errors="replace")))
            except OSError:
                pass
        return found

    def assert_nothing_left(self):
        wait_for(lambda: not self.left())
