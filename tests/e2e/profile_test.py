"""Tests of `anyaccel profile` in a real shell: exit status, folders, ranks, signals."""
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from shell import libtorch_accelerator, shell, wait_for

PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]
PACKAGE = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python", "anyaccel", "profiler")
OPS = "import torch; torch.ones(3).sin(); "


class Profile(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "program.py").write_text("import sys\n" + OPS + "\nexec(next((word for word in sys.argv[1:] if not word.startswith('--')), ''))\n")

    def run_line(self, line, code=0, **variables):
        done = shell(line.replace("PYTHON", PYTHON), cwd=self.folder, OMP_NUM_THREADS="1", **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def processes(self, folder="out"):
        return [json.loads(path.read_text()) for path in self.folder.glob(folder + "/raw/*/process.json")]

    def ops(self, folder="out"):
        names = set()
        for path in self.folder.glob(folder + "/raw/*/window-*.json.gz"):
            names |= {(event.get("cat"), event["name"]) for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]}
        return names

    # Fails if a result is missing, if the peak is not measured, or if the program's output changes.
    def test_results(self):
        done = self.run_line("anyaccel profile -o out -- PYTHON program.py 'print(12345)'")
        self.assertIn("12345\n", done.stdout)
        for name in ("profile.html", "trace.json.gz", "summary.txt"):
            self.assertTrue((self.folder / "out" / name).stat().st_size > 100, name)
        (process,) = self.processes()
        self.assertGreater(process["peak"]["flops"]["float32"], 1e8)
        self.assertIn(("cpu_op", "aten::sin"), self.ops())

    # Fails if the exit code or the signal of the program is lost.
    def test_exit_status(self):
        self.run_line("anyaccel profile --no-peak -o out -- PYTHON program.py 'sys.exit(7)'", 7)
        self.run_line("anyaccel profile --no-peak -o out -- PYTHON program.py 'import os; os.kill(os.getpid(), 9)'; test $? = 137")
        self.run_line("anyaccel profile --no-peak -o out -- PYTHON program.py 'import os; os.abort()'; test $? = 134")
        self.assertIn("no-such-program", self.run_line("anyaccel profile -o new -- no-such-program", 1).stderr)

    # Fails if a wrong command line is accepted or the message does not name the cause.
    def test_wrong_command_lines(self):
        for words, message in (("", "no program"), ("--nonsense -- true", "--nonsense"), ("--window 0 -- true", "--window"),
                               ("--max-events -1 -- true", "--max-events"), ("--log-level loud -- true", "--log-level")):
            self.assertIn(message, self.run_line("anyaccel profile " + words, 2).stderr)

    # Fails if files of the user are deleted, if the program runs although its results cannot be
    # stored, or if an earlier profile is not replaced.
    def test_folders(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "thesis.txt").write_text("precious")
        done = self.run_line("anyaccel profile -o mine -- touch started", 1)
        self.assertIn("thesis.txt", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertTrue((self.folder / "mine" / "thesis.txt").exists() and not (self.folder / "started").exists())
        (self.folder / "file").write_text("")
        self.assertIn("a file", self.run_line("anyaccel profile -o file -- touch started", 1).stderr)
        for _ in range(2):
            self.run_line("anyaccel profile --no-peak -o out -- PYTHON program.py")
            self.assertEqual(len(self.processes()), 1)

    # Fails if a program without torch is an error, or if its arguments are parsed as options.
    def test_without_torch(self):
        done = self.run_line("anyaccel profile -o out sh -c 'echo \"$*\"; exit 3' sh --log-level -o x", 3)
        self.assertIn("--log-level -o x\n", done.stdout)
        self.assertIn("nothing was recorded", done.stderr)

    # Fails if SIGTERM does not reach the program, or if what was recorded before is not shown.
    def test_terminated(self):
        code = "import time\nopen('ready', 'w')\nwhile True: torch.ones(3).cos(); time.sleep(0.01)"
        command = [os.environ["ANYACCEL_PROGRAM"], "profile", "--no-peak", "--window", "0.2", "-o", "out", "--", PYTHON,
                   "program.py", code]
        running = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(lambda: len(list(self.folder.glob("out/raw/*/window-*.gz"))) >= 2)
        running.send_signal(signal.SIGTERM)
        output = running.communicate(timeout=120)
        self.assertEqual(running.returncode, -signal.SIGTERM, output)
        self.assertIn(("cpu_op", "aten::cos"), self.ops())
        self.assertTrue((self.folder / "out" / "profile.html").exists())

    # Fails if a rank of a launch is not recorded, or if its rank is unknown.
    def test_launch(self):
        self.run_line("anyaccel profile --no-peak -o out -- anyaccel launch --num_gpus 2 --no_python PYTHON program.py", DS_ACCELERATOR="cpu")
        self.assertEqual(sorted(process["rank"] for process in self.processes()), [0, 1])
        self.assertEqual({process["world_size"] for process in self.processes()}, {2})

    # Fails if programs on the simulator are not recorded, or if kernels or findings are missing.
    def test_sim(self):
        if not os.path.exists(os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "lib", "libanyaccel_sim.so")):
            self.skipTest("this build has no simulated accelerator")
        work = "x = torch.ones(9, 9, device='DEVICE'); y = x @ x; x.sum().item()"
        line = "anyaccel profile --no-peak -o {} -- anyaccel sim run {} -- PYTHON program.py \"" + work + '"'
        self.run_line(line.format("out", "--check report").replace("DEVICE", "sim"))
        (process,) = self.processes()
        self.assertEqual((process["accelerator"], process["device_type"]), ("sim", "sim"))
        categories = {category for category, _ in self.ops()}
        self.assertIn("cpu_op", categories)
        if tuple(map(int, process["torch"].split(".")[:2])) >= (2, 12):
            self.assertIn("kernel", categories)
        (findings,) = self.folder.glob("out/raw/*/findings.json")
        self.assertEqual(json.loads(findings.read_text())["problems"], [])
        if not libtorch_accelerator():
            self.run_line(line.format("cuda", "--stands-in-for cuda").replace("DEVICE", "cuda"))
            (process,) = self.processes("cuda")
            self.assertEqual(process["device_type"], "cuda")


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        print("SKIP: the tests' Python has no torch")
        sys.exit(77)
    if not os.path.exists(PACKAGE):
        print("SKIP: this build has no Python package")
        sys.exit(77)
    unittest.main()
