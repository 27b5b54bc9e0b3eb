"""Tests of `anyaccel profile` in a real shell: exit status, folders, ranks, signals."""
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
# The report is read without AnyAccel's libraries.
sys.path.insert(0, PACKAGE)
from report.events import Window  # noqa: E402

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
        found = [Window(path) for path in self.folder.glob(folder + "/raw/*/window-*.json.gz")]
        names = {(event.get("cat"), event["name"]) for window in found for event in window}
        self.assertEqual([window.error for window in found if window.error], [])
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

    # Fails if an invalid command line is accepted, or if the message does not name the cause.
    def test_wrong_command_lines(self):
        for words, message in (("", "no program"), ("--nonsense -- true", "--nonsense"), ("--window 0 -- true", "--window"),
                               ("--max-events -1 -- true", "--max-events"), ("--log-level loud -- true", "--log-level")):
            self.assertIn(message, self.run_line("anyaccel profile " + words, 2).stderr)

    # Fails if the user's files are deleted, if the program runs although its results cannot be
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
        # Files with these names also occur in profiles.
        for data, name in (("data", "raw/train.csv"), ("notes", "summary.txt")):
            file = self.folder / data / name
            file.parent.mkdir(parents=True)
            file.write_text("precious")
            done = self.run_line(f"anyaccel profile -o {data} -- touch started", 1)
            self.assertIn(name.split("/")[0], done.stderr)
            self.assertTrue(file.exists() and not (self.folder / "started").exists(), name)
        for _ in range(2):
            self.run_line("anyaccel profile --no-peak -o out -- PYTHON program.py")
            self.assertEqual(len(self.processes()), 1)
            # Left behind by a report that was killed.
            (self.folder / "out" / "profile.html.part").write_text("")

    # Fails if a program without torch is an error, or if its arguments are parsed as options.
    def test_without_torch(self):
        done = self.run_line("anyaccel profile -o out sh -c 'echo \"$*\"; exit 3' sh --log-level -o x", 3)
        self.assertIn("--log-level -o x\n", done.stdout)
        self.assertIn("nothing was recorded", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    # Fails if the exit code is lost when this host lacks the interpreter that measures the peak and
    # writes the page, or if the error does not mention the missing interpreter.
    def test_without_interpreter(self):
        only = "PATH=" + os.path.dirname(os.environ["ANYACCEL_PROGRAM"]) + "; anyaccel profile -o out -- "
        for code in (0, 3):
            done = self.run_line(only + f"/bin/sh -c 'exit {code}'", code)
            self.assertIn("nothing was recorded", done.stderr)
        (self.folder / "program.py").write_text("import sys\nsys.executable = '/no/such/python'\n" + OPS)
        for code in (0, 3):
            done = self.run_line(only + f"/bin/sh -c 'PYTHON program.py; exit {code}'", code or 1)
            self.assertIn("the page cannot be built; got python3: No such file", done.stderr)
            self.assertNotIn("nothing was recorded", done.stderr)

    # Fails if a module in the current folder runs in place of Python's, or if the peak is measured
    # with a different number of threads than the program used.
    def test_peak_environment(self):
        (self.folder / "here").mkdir()
        (self.folder / "here" / "pathlib.py").write_text(f"open({str(self.folder / 'executed')!r}, 'w')")
        (self.folder / "site").mkdir()
        (self.folder / "site" / "sitecustomize.py").write_text(
            "import atexit, os, sys\n"
            "def write():\n"
            "    if 'torch' in sys.modules:\n"
            f"        with open({str(self.folder / 'threads')!r}, 'a') as file:\n"
            "            file.write(f'{sys.modules[\"torch\"].get_num_threads()} ')\n"
            "atexit.register(write)\n")
        line = "cd here; anyaccel profile -o ../out -- env OMP_NUM_THREADS=2 PYTHON ../program.py"
        self.run_line(line, PYTHONPATH=str(self.folder / "site"))
        self.assertFalse((self.folder / "executed").exists())
        self.assertIsNotNone(self.processes()[0]["peak"])
        program, peak = (self.folder / "threads").read_text().split()
        self.assertEqual(program, peak)

    # Fails if, on hosts where core dumps are enabled, `anyaccel profile` dumps core in addition to
    # the program.
    def test_no_second_core(self):
        (self.folder / "program.py").write_text("import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + OPS +
                                                "import os\nos.abort()")
        line = "ulimit -c unlimited; exec anyaccel profile -o out -- PYTHON program.py"
        code = "import os, sys; print(os.WCOREDUMP(os.waitpid(os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ), 0)[1]))"
        done = self.run_line(f"PYTHON -c '{code}' bash -c '{line}'")
        self.assertEqual(done.stdout.splitlines()[-1], "False")
        self.assertIsNone(self.processes()[0]["peak"])

    # Fails if SIGTERM does not reach the program, if the data recorded before the signal is not
    # shown, or if the peak delays the page.
    def test_terminated(self):
        loop = "import time\nwhile True: torch.ones(3).cos(); time.sleep(0.01)"
        handler = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        for out, code, expected in (("out", loop, -signal.SIGTERM), ("handled", handler + loop, 5)):
            command = [os.environ["ANYACCEL_PROGRAM"], "profile", "--window", "0.2", "-o", out, "--", PYTHON, "program.py", code]
            running = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_for(lambda: ("cpu_op", "aten::cos") in self.ops(out))
            running.send_signal(signal.SIGTERM)
            output = running.communicate(timeout=120)
            self.assertEqual(running.returncode, expected, output)
            self.assertIsNone(self.processes(out)[0]["peak"])
            self.assertTrue((self.folder / out / "profile.html").exists())

    # Fails if a rank of a job is not recorded, or if its rank is unknown.
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
