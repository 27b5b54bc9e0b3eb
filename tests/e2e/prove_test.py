"""`anyaccel prove`, as users run it: the program and the Python package."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

from shell import shell

PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]


class Prove(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def prove(self, line, **variables):
        return shell(f"anyaccel prove {line}", cwd=self.folder, ANYACCEL_PYTHON=PYTHON, **variables)

    # Fails if the package is not found, if modules of the current folder are imported, or if a part
    # of the source tree is listed.
    def test_help_and_parts(self):
        for name in ("anyaccel_prove.py", "argparse.py", "torch.py"):
            (self.folder / name).write_text("raise SystemExit('imported a module of the current folder')\n")
        result = self.prove("--help")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("usage: anyaccel prove", result.stdout)
        result = self.prove("--nonsense")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        parts = self.prove("--backend cpu --list").stdout.split()
        self.assertIn("op:FusedAdamBuilder", parts)
        self.assertIn("models:program", parts)
        self.assertNotIn("build", parts)

    # Fails if the command that a report gives for a failed case of the conformance kit is invalid.
    def test_command_of_a_conformance_case(self):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.environ["ANYACCEL_PROGRAM"])), "python"))
        from anyaccel_prove import readers
        case = {"suite": "identity", "name": "name_is_set", "outcome": "failed", "message": ""}
        counts = {"passed": 0, "failed": 1}
        output = json.dumps({"cases": [case], "summary": dict.fromkeys(("required", "recommended", "optional"), counts)})
        command = readers.conformance("anyaccel conformance --backend cpu")(output)["failures"][0]["command"]
        result = shell(command, DS_ACCELERATOR="cpu")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("1 passed", result.stdout)

    # Fails if the report is not written, a part does not find the installation, or the current
    # folder changes what runs.
    def test_report(self):
        (self.folder / "torch.py").write_text("raise SystemExit('imported a module of the current folder')\n")
        result = self.prove("--backend cpu --out report --only 'device'", HOME="/proc")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads((self.folder / "report/report.json").read_text())
        self.assertEqual((report["parts"]["device"]["status"], report["build"]), ("passed", "installed"))
        self.assertRegex(report["facts"]["AnyAccel"], r"^\d+\.\d+")
        self.assertEqual(sorted(path.name for path in (self.folder / "report").iterdir()), ["report.html", "report.json", "report.md", "work"])


if __name__ == "__main__":
    unittest.main()
