"""Tests of `anyaccel sim campaign`."""
import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

from shell import libtorch_accelerator, wait_for

PROGRAM = os.environ["ANYACCEL_PROGRAM"]
PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]

# Handles the failure of the first allocation, but not that of the second.
HALF_SAFE = """
import torch
try:
    torch.empty(4, device="sim")
except torch.OutOfMemoryError:
    pass
torch.empty(4, device="sim")
"""
# Crashes, hangs or succeeds, depending on the injected fault.
BY_FAULT = """
import os, signal, time, torch
fault = os.environ["SIM_FAULTS"]
if fault.startswith("kernel"):
    os.kill(os.getpid(), signal.SIGSEGV)
if fault.startswith("lost"):
    time.sleep(600)
torch.ones(4, device="sim").cpu()
"""
# Leaves processes behind that ignore SIGTERM: one in another process group, one in another session,
# and a daemon. Then prints more than a campaign keeps of the output.
LEAVES_PROCESSES = """
import os, pathlib, subprocess, sys, time, torch
child = '''
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[2] == "daemon" and os.fork():
    os._exit(0)
os.setsid() if sys.argv[2] == "daemon" else None
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
'''
try:
    torch.ones(4, device="sim").cpu()
except RuntimeError:
    pass
files = []
for name, options in (("group", {"preexec_fn": os.setpgrp}), ("session", {"start_new_session": True}), ("daemon", {})):
    files.append(pathlib.Path(f"{sys.argv[0]}.{os.getpid()}.{name}"))
    subprocess.Popen([sys.executable, "-c", child, files[-1], name], **options)
while not all(file.exists() for file in files):
    time.sleep(0.01)
for _ in range(24):
    print("x" * (1 << 20))
print("the last line", flush=True)
if os.environ["SIM_FAULTS"].startswith("lost"):
    time.sleep(600)
sys.exit(7 if os.environ["SIM_FAULTS"] else 0)
"""


def command_line(process):
    """Return the command line of a process in /proc, or an empty string for other entries."""
    try:
        return pathlib.Path("/proc", process, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def environment(**more):
    return {**{key: value for key, value in os.environ.items() if not key.startswith(("SIM_", "DS_"))}, **more}


def campaign(*arguments):
    return subprocess.run([PROGRAM, "sim", "campaign", *map(str, arguments)], capture_output=True, text=True, env=environment(), timeout=500)


@unittest.skipIf(subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode, "torch is not installed")
@unittest.skipIf(libtorch_accelerator(), "needs a CPU build of torch")
class SimCampaign(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, text):
        file = self.folder / "a program.py"
        file.write_text(text)
        return ["--", PYTHON, file]

    def left(self):
        """Return the command lines of processes that run a program of this test."""
        return [line for line in map(command_line, os.listdir("/proc")) if str(self.folder) in line]

    # Fails if a fault is not injected, if a handled fault counts as a failure, or if the command
    # that is printed for a failure does not reproduce it.
    def test_finds_the_fault_that_is_not_handled(self):
        report = self.folder / "report.json"
        done = campaign("--kinds", "alloc", "--report", report, *self.program(HALF_SAFE))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"without faults: 2 allocations")
        self.assertRegex(done.stdout, r"(?m)^alloc@1 +survived")
        self.assertRegex(done.stdout, r"(?m)^alloc@2 +exit code 1 .*OutOfMemoryError")
        self.assertIn("1 of 2 faults survived", done.stdout)
        runs = json.loads(report.read_text())["runs"]
        self.assertEqual([(run["faults"], run["survived"]) for run in runs], [("alloc@1", True), ("alloc@2", False)])
        for run in runs:
            words = shlex.split(run["repeat"])
            self.assertEqual(words[0], "anyaccel")
            status = subprocess.run([PROGRAM, *words[1:]], capture_output=True, env=environment(), timeout=100).returncode
            self.assertEqual(status, 0 if run["survived"] else 1)

    # Fails if crashes and hangs are confused with errors, or if a hanging program is not killed.
    def test_crashes_and_hangs(self):
        done = campaign("--kinds", "kernel,lost,slow", "--runs", 3, "--run-limit", 100, *self.program(BY_FAULT))
        self.assertRegex(done.stdout, r"(?m)^kernel@1 +killed by SIGSEGV")
        self.assertRegex(done.stdout, r"(?m)^lost@1 +timed out")
        self.assertRegex(done.stdout, r"(?m)^slow=50ms@1 +survived")
        self.assertEqual(self.left(), [])

    # Fails if a process that a run started survives the run, after an exit or a timeout, or if a
    # run fails because it prints much.
    def test_processes_that_a_run_leaves_behind(self):
        done = campaign("--kinds", "kernel,lost", "--runs", 2, "--run-limit", 60, *self.program(LEAVES_PROCESSES))
        self.assertRegex(done.stdout, r"(?m)^kernel@1 +exit code 7 +the last line$", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^lost@1 +timed out +the last line$")
        self.assertEqual(len(list(self.folder.glob("*.daemon"))), 3)
        self.assertEqual(self.left(), [])

    # Fails if the processes of a run survive a campaign that is killed.
    def test_killed_campaign(self):
        words = [PROGRAM, "sim", "campaign", *map(str, self.program(LEAVES_PROCESSES.replace("for _ in range(24)", "while True")))]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment()) as process:
            wait_for(lambda: list(self.folder.glob("*.daemon")))
            self.assertNotEqual(self.left(), [])
            process.kill()
        wait_for(lambda: not self.left())

    # Fails if a program is accepted that fails without faults, or that does not use the device.
    def test_programs_that_cannot_be_tested(self):
        done = campaign(*self.program("raise SystemExit('broken')"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the program fails even without faults: exit code 1, last line: broken", done.stderr)
        done = campaign(*self.program("import torch; torch.ones(4)"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not use the simulated accelerator", done.stderr)

    # Fails if an invalid command line is accepted.
    def test_invalid_command_lines(self):
        for arguments, words in (((), "no program"), (("--kinds", "alloc,oops", "--", "true"), "oops"),
                                 (("--time-limit", "-1", "--", "true"), "--time-limit"),
                                 (("--seed", str(2**63), "--", "true"), "--seed"), (("--faults", "alloc@1", "--", "true"), "--faults")):
            done = campaign(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
