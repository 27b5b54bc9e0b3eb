"""tools/proof on a small tree: the page matches its sources."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/proof"
LIMITS = "<!-- known limits -->\n- One limit.\n<!-- end of known limits -->\n"
TABLE = """<!-- conformance -->
2026-01-02, LibTorch 2.13.0, {where}.

| grade | passed | failed | skipped |
| --- | ---: | ---: | ---: |
| required | 3 | 1 | 2 |
<!-- end of conformance -->
"""
RESULTS = """# Test results

2026-01-03, Debian, 2 cores.

| part | content | commit | passed | failed | skipped | seconds |
| --- | --- | --- | ---: | ---: | ---: | ---: |
| tree | checks | abc1234 | 5 | 0 | 1 | 3 |
| asan | not run | | | | | |
| all | | | 5 | 0 | 1 | 3 |
"""


def target(text, median, limit, kind, passed):
    return {"text": text, "median": median, "limit": limit, "kind": kind, "pass": passed}


BENCHMARKS = {"a": {"title": "CPUAdam", "date": "2026-01-04 10:00 UTC", "machine": {"cpu": "EPYC", "cores": 2}, "versions": {"commit": "def5678"},
                    "targets": [target("fast", 3.0, 1.0, "at least", True), target("slow", 0.5, 1.0, "at least", False),
                                target("small", 10.0, 12.0, "at most", True)]},
              "b": {"title": "No targets", "date": "", "machine": {}, "versions": {}, "targets": []}}
HARDWARE = {"commit": "0123456789", "backend": "cuda", "facts": {"device": "NVIDIA H100", "torch": "2.11.0"},
            "parts": {"device": {"status": "passed"}, "op:a": {"status": "failed"}, "op:b": {"status": "blocked"}, "sanitizer": {"status": "skipped"}}}


class Proof(unittest.TestCase):

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("docs/proof.md", LIMITS)
        self.write("docs/test-results.md", RESULTS)
        self.write("docs/benchmarks.json", json.dumps(BENCHMARKS))
        self.write("src/backends/xpu/README.md", TABLE.format(where="with a simulated device, **not run on hardware**"))
        self.write("src/backends/cpu/README.md", TABLE.format(where="the host"))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, *options):
        done = subprocess.run([sys.executable, TOOL, "--root", self.root, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    # Fails if a source's result is missing from the page, or a simulated device counts as hardware.
    def test_page(self):
        self.assertEqual(self.run_tool()[0], 0)
        page = (self.root / "docs/proof.md").read_text()
        self.assertIn(LIMITS, page)
        self.assertRegex(page, r"\[xpu\].*\| simulator, standing in for the device \| 2026-01-02 \| 3 passed, 1 failed, 2 skipped \| not run \| not run \|")
        self.assertRegex(page, r"\[cpu\].*\| hardware \| 2026-01-02 \|")
        self.assertIn("| tree | abc1234 | 5 | 0 | 1 |", page)
        self.assertIn("| asan | not run | | | |", page)
        self.assertIn("| [CPUAdam](benchmarks.md#cpuadam) | 2 of 3 | slow: 0.5 (at least 1) | 2026-01-04 | EPYC, 2 cores | def5678 |", page)
        self.assertNotIn("No targets", page)
        self.assertIn("Not run: no report from a machine with an accelerator exists yet", page)

    # Fails if a hardware report is ignored, a failed or blocked part counts as passed, or a
    # backend's README lacks its reports or gets another backend's.
    def test_hardware(self):
        block = "before\n<!-- hardware -->\n<!-- end of hardware -->\nafter\n"
        for name in ("cuda", "npu"):
            self.write(f"src/backends/{name}/README.md", block)
        self.write("docs/hardware/2026-01-05-h100/report.json", json.dumps(HARDWARE))
        self.run_tool()
        row = "/2026-01-05-h100/report.md) | cuda: NVIDIA H100 | 2.11.0 | 0123456 | 1 | 2 | 1 |"
        self.assertIn("| [2026-01-05-h100](hardware" + row, (self.root / "docs/proof.md").read_text())
        readme = (self.root / "src/backends/cuda/README.md").read_text()
        self.assertIn("| [2026-01-05-h100](../../../docs/hardware" + row, readme)
        self.assertTrue(readme.startswith("before\n<!-- hardware -->\n") and readme.endswith("<!-- end of hardware -->\nafter\n"), readme)
        self.assertIn("This backend has not run on hardware", (self.root / "src/backends/npu/README.md").read_text())
        self.assertEqual(self.run_tool("--check"), (0, ""))
        self.write("src/backends/cuda/README.md", block)
        self.assertEqual(self.run_tool("--check")[0], 1)

    # Fails if --check accepts an outdated page, or modifies it.
    def test_check(self):
        self.assertEqual(self.run_tool("--check")[0], 1)
        self.assertEqual((self.root / "docs/proof.md").read_text(), LIMITS)
        self.run_tool()
        self.assertEqual(self.run_tool("--check"), (0, ""))
        self.write("docs/test-results.md", RESULTS.replace("| 5 | 0 | 1 | 3 |\n| asan", "| 4 | 1 | 1 | 3 |\n| asan"))
        self.assertEqual(self.run_tool("--check")[0], 1)

    # Fails if a missing list of known limits is accepted.
    def test_limits_are_required(self):
        self.write("docs/proof.md", "# Evidence\n")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("has no known limits", output)
        self.assertEqual((self.root / "docs/proof.md").read_text(), "# Evidence\n")


if __name__ == "__main__":
    unittest.main()
