"""`anyaccel prove` in an environment like a bare container: no network, no home directory, no git,
and only a compiler in PATH.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROGRAM, PYTHON = os.environ["ANYACCEL_PROGRAM"], os.environ["ANYACCEL_TEST_PYTHON"]
TOOLS = ("sh", "env", "ip", "c++", "g++", "gcc", "ld", "as", "ar")
# The loopback interface exists in containers, too.
START = 'ip link set lo up && exec "$@"'


class Bare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        for name in TOOLS:
            if found := shutil.which(name):
                (self.folder / "bin" / name).symlink_to(found)

    def prove(self, *options):
        """Run the command without network and return its exit code, output and report."""
        bare = ["env", "-i", f"PATH={self.folder}/bin", "HOME=/proc", f"ANYACCEL_PYTHON={PYTHON}", PROGRAM, "prove", "--out", self.folder / "out", *options]
        done = subprocess.run(["unshare", "--net", "--map-root-user", "sh", "-c", START, "sh", *bare], capture_output=True, text=True)
        report = self.folder / "out/report.json"
        return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else None

    # Fails if a part needs the network, the home directory, git or a program that a container with
    # a compiler lacks.
    def test_parts(self):
        if not shutil.which("ip") or subprocess.run(["unshare", "--net", "--map-root-user", "ip", "link", "set", "lo", "up"], capture_output=True).returncode:
            self.skipTest("this machine does not allow network namespaces, or has no program `ip`")
        for name in ("conformance", "op:FusedLionBuilder", "models:generate", "models:program"):
            status, said, report = self.prove("--backend", "cpu", "--only", name)
            self.assertEqual((status, report["parts"][name]["status"]), (0, "passed"), said)
        self.assertEqual(report["commit"], "unknown")


if __name__ == "__main__":
    unittest.main()
