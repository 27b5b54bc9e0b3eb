"""tools/hardware_report with fake build and test programs: which parts run, are saved, are repeated
and appear in the report.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A fake cmake that creates a cache and the kit's program in the build folder.
CMAKE = """#!/bin/sh
echo "cmake $*" >> "$LOG"
[ "$1" = --preset ] && { mkdir -p "$BUILD/bin"; touch "$BUILD/CMakeCache.txt"; cp "$KIT" "$BUILD/bin/anyaccel_conformance"; }
[ -e "$BROKEN" ] && { echo "no compiler today" >&2; exit 1; }
exit 0
"""
KIT = """#!{python}
import json, os, time
open(os.environ["LOG"], "a").write("kit\\n")
time.sleep(float(os.environ.get("KIT_SECONDS", 0)))
counts = dict(passed=3, failed=0)
case = dict(suite="memory", name="peak_resets", outcome=os.environ.get("OUTCOME", "passed"), message="seen")
print(json.dumps(dict(cases=[case], summary=dict(required=counts, recommended=counts, optional=counts))))
"""
# A fake Python with torch that can load every op.
PYTHON = """#!/bin/sh
echo "python" >> "$LOG"
echo "built and loaded in 0.1 s"
"""


class HardwareReport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("bin/cmake", CMAKE), ("kit", KIT.format(python=sys.executable)), ("bin/torch-python", PYTHON)):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def run_tool(self, *options, **variables):
        """Return (exit status, output, saved report)."""
        log = self.folder / "log"
        log.write_text("")
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "LOG": str(log), "BUILD": str(self.folder / "build"),
                       "KIT": str(self.folder / "kit"), "BROKEN": str(self.folder / "broken"), **variables}
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/hardware_report", "--backend", "sim", "--build", self.folder / "build", "--out",
                               self.folder / "out", "--python", self.folder / "bin/torch-python", *options], env=environment, capture_output=True, text=True)
        report = self.folder / "out/report.json"
        return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else None

    def ran(self):
        return (self.folder / "log").read_text().splitlines()

    # Fails if a part that passed is repeated, or a part that failed is not.
    def test_resume(self):
        (self.folder / "broken").touch()
        status, said, report = self.run_tool("--only", "conformance")
        self.assertEqual((status, report["parts"]["build"]["status"], report["parts"]["conformance"]["status"]), (1, "failed", "blocked"), said)
        self.assertIn("no compiler today", (self.folder / "out/report.md").read_text())
        (self.folder / "broken").unlink()
        status, said, report = self.run_tool("--only", "conformance")
        self.assertEqual((status, report["parts"]["conformance"]["status"]), (0, "passed"), said)
        self.assertIn("kit", self.ran())
        status, said, _ = self.run_tool("--only", "conformance")
        self.assertEqual(status, 0, said)
        self.assertNotIn("kit", self.ran())
        self.assertFalse([line for line in self.ran() if line.startswith("cmake --build")])

    # Fails if a failed case is not reported with the command that reproduces it.
    def test_failed_case(self):
        status, said, report = self.run_tool("--only", "conformance", OUTCOME="failed")
        self.assertEqual((status, report["parts"]["conformance"]["data"]["failed_cases"]), (1, ["memory.peak_resets"]), said)
        page = (self.folder / "out/report.md").read_text()
        self.assertIn("anyaccel_conformance --backend sim", page)
        self.assertIn("memory.peak_resets", page)

    # Fails if a part continues after the time limit, or the report does not say that the run must
    # be resumed.
    def test_time_limit(self):
        status, said, report = self.run_tool("--only", "conformance", "--minutes", "0.3", KIT_SECONDS="60")
        self.assertEqual((status, report["parts"]["conformance"]["status"]), (3, "interrupted"), said)
        self.assertIn("run the same command again", said)
        self.assertEqual(self.run_tool("--only", "conformance")[0], 0)

    # Fails if results of an earlier commit are lost or mixed with those of the current commit.
    def test_other_commit(self):
        self.run_tool("--only", "conformance")
        path = self.folder / "out/report.json"
        path.write_text(path.read_text().replace('"commit": "', '"commit": "old'))
        _, said, report = self.run_tool("--only", "device")
        self.assertNotIn("conformance", report["parts"], said)
        self.assertEqual(len(list((self.folder / "out").glob("report-old*-sim.json"))), 1)

    # Fails if an op or a GPU benchmark is not a separate part.
    def test_parts(self):
        _, said, _ = self.run_tool("--list")
        for name in ("build", "device", "conformance", "op:FusedAdamBuilder", "op:DecoderInferenceBuilder", "bench:layers_cuda", "bench:inference_cuda"):
            self.assertIn(name, said.split())


if __name__ == "__main__":
    unittest.main()
