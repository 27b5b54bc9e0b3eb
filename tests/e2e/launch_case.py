"""What tests of `anyaccel launch` have in common: jobs of shell scripts that say when they are up, and what is left of them."""
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
    """For a test case that has a folder, `self.folder`, and can tell what is left of a job: assert_nothing_left()."""

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def started(self, process, ranks):
        """A launcher's process, when each of its ranks has made a file up*."""
        def end():
            # Of a test that failed: nothing of it may stand in the next one's way.
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
        """What servers that start ranks have to say when they do not start them."""
        return ""

    def check_train(self, options=""):
        """Trains with one rank on another host and with four on two hosts, by the case's launch(), and compares the losses."""
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
        """A few seconds are promised on a machine that has time for it, and are measured by benchmarks; beside other work (a load average of a minute tells of
        it too late) 30 are enough to say that nothing waited for a timeout."""
        self.assert_nothing_left()
        self.assertLess(time.monotonic() - since, 30)


class LaunchCase(Jobs, unittest.TestCase):
    """Jobs that run in a folder of this machine."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(os.path.realpath(folder.name))
        # The Python of the tests is the one at hand, and no .deepspeed_env of the user's is read.
        self.variables = {"PATH": os.path.dirname(PYTHON) + os.pathsep + BIN + os.pathsep + os.environ["PATH"], "HOME": str(self.folder),
                          "DS_ACCELERATOR": "cpu"}

    def run_line(self, line, **variables):
        return shell(line, cwd=self.folder, **{**self.variables, **variables})

    def start_line(self, launch, script, ranks):
        """The launcher that `launch`, a line, is, with ranks of a shell script, in a session of its own; returns when all ranks say that they are up."""
        self.write("script.sh", script)
        process = subprocess.Popen(["bash", "-c", f"exec {launch} sh script.sh"], cwd=self.folder, env={**os.environ, **self.variables},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        return self.started(process, ranks)

    def left(self):
        """Numbers and command lines of processes that have this test's folder as theirs."""
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
