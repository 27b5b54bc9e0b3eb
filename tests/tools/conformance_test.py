"""tools/conformance with a fake program that records its calls."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = """#!{python}
import json, os, sys
if sys.argv[1] == "report":
    name = os.environ.get("DS_ACCELERATOR")
    taken = name in ("one", "three")
    print(json.dumps(dict(versions=dict(libtorch_accelerator={accelerator!r}), backends=[
        dict(name=name, verdict="unavailable" if taken else "available", reason="[sim] the LibTorch loaded in this process is another's")])))
    sys.exit()
name = sys.argv[sys.argv.index("--backend") + 1]
if name == "mute":
    sys.exit("no such device")
counts = dict(passed=1, failed=0, skipped=0, expected_failure=0, unexpected_pass=0)
bad = name == "bad"
case = dict(name="peak_resets", suite="memory", grade="required", outcome="failed" if bad else "passed", message="seen", seconds=0)
with open({log!r}, "a") as log:
    log.write(name + " " + os.environ.get("SIM_STANDS_IN_FOR", "-") + "\\n")
print(json.dumps(dict(backend=name, device="x", device_count=2, standing_in=None, libtorch="2", date="2026-01-01", seconds=1, cases=[case],
                      summary=dict(conforms=not bad, required=counts, recommended=counts, optional=counts))))
"""


class Conformance(unittest.TestCase):
    def judge(self, cache, *options, accelerator=None):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "CMakeCache.txt").write_text(cache)
            (build / "bin").mkdir()
            program = build / "bin/anyaccel"
            log = build / "log"
            log.touch()
            program.write_text(PROGRAM.format(python=sys.executable, log=str(log), accelerator=accelerator))
            program.chmod(0o755)
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/conformance", "--build", build, *options], capture_output=True, text=True)
            return done.returncode, done.stdout, [line.split() for line in log.read_text().splitlines()]

    # Fails if the exit status is 0 although a backend does not conform or cannot run.
    def test_exit_status(self):
        cache = "ANYACCEL_BACKENDS:STRING=cpu\nANYACCEL_SIM:BOOL=ON\n"
        self.assertEqual(self.judge(cache, "cpu", "sim")[0], 0)
        status, said, _ = self.judge(cache, "cpu", "bad")
        self.assertEqual(status, 1)
        self.assertIn("failed memory.peak_resets (required): seen", said)
        status, said, _ = self.judge(cache, "mute")
        self.assertEqual(status, 1)
        self.assertIn("no such device", said)

    # Fails if a backend is skipped, or runs without the simulator standing in for its device.
    def test_all_backends_run_on_the_simulator(self):
        cache = "ANYACCEL_BACKENDS:STRING=cpu;one;two\nANYACCEL_SIM:BOOL=ON\n"
        self.assertEqual(self.judge(cache)[2], [["cpu", "-"], ["one", "one"], ["two", "two"], ["sim", "-"]])

    # Fails if a backend whose device type LibTorch already uses is tested, or is skipped without a
    # message. The short run must replace it with another backend.
    def test_device_types_used_by_libtorch(self):
        cache = "ANYACCEL_BACKENDS:STRING=cpu;one;two;three;four\nANYACCEL_SIM:BOOL=ON\n"
        for options in ((), ("--some",)):
            status, said, judged = self.judge(cache, *options, accelerator="another")
            self.assertEqual((status, sorted(name for name, _ in judged)), (0, ["cpu", "four", "sim", "two"]))
            self.assertIn("one    is not tested: [sim] the LibTorch loaded in this process", said)
            self.assertIn("three  is not tested", said)
        self.assertEqual([name for name, _ in self.judge(cache)[2]], ["cpu", "one", "two", "three", "four", "sim"])
        self.assertEqual([name for name, _ in self.judge(cache, "one", accelerator="another")[2]], ["one"])

    # Fails if the short run is not cpu, sim and two other backends. In a build without sim, it must
    # be cpu alone.
    def test_short_run(self):
        cache = "ANYACCEL_BACKENDS:STRING=cpu;one;two;three;four\n"
        names = [name for name, _ in self.judge(cache + "ANYACCEL_SIM:BOOL=ON\n", "--some")[2]]
        self.assertEqual(len(names), 4)
        self.assertTrue({"cpu", "sim"} < set(names), names)
        self.assertEqual(self.judge(cache + "ANYACCEL_SIM:BOOL=OFF\n", "--some")[2], [["cpu", "-"]])


if __name__ == "__main__":
    unittest.main()
