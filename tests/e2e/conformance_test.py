"""Tests of `anyaccel conformance` on the CPU with one and two devices: results, output and files.
"""
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree as xml

from shell import shell

SUITES = {"identity", "devices", "random", "streams", "memory", "dtypes", "graphs", "pinned", "ops", "op_builders",
          "environment", "threads", "fork", "errors", "collectives"}


class Conformance(unittest.TestCase):
    # Fails if the CPU backend fails a case, or if a report is incomplete or cannot be parsed.
    def test_cpu_conforms(self):
        with tempfile.TemporaryDirectory() as folder:
            done = shell("anyaccel conformance --backend cpu --json r.json --junit=r.xml --markdown r.md --note 'by a test'",
                         cwd=folder, LOCAL_SIZE="2")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
                data = json.load(file)
            cases = data["cases"]
            self.assertEqual(data["backend"], "cpu")
            self.assertEqual({case["suite"] for case in cases}, SUITES)
            self.assertGreater(len(cases), 200)
            failed = [case for case in cases if case["outcome"] not in ("passed", "skipped")]
            self.assertEqual(failed, [])
            for case in cases:
                self.assertEqual(set(case), {"name", "suite", "grade", "outcome", "message", "seconds"})
                self.assertEqual(case["outcome"] == "skipped", bool(case["message"]), case)
            passed = sum(case["outcome"] == "passed" for case in cases)
            self.assertEqual(passed, sum(grade["passed"] for grade in data["summary"].values() if isinstance(grade, dict)))
            self.assertGreater(passed, 0.75 * len(cases))
            self.assertGreaterEqual(data["seconds"], max(case["seconds"] for case in cases))
            self.assertEqual(len(list(xml.parse(os.path.join(folder, "r.xml")).iter("testcase"))), len(cases))
            with open(os.path.join(folder, "r.md"), encoding="utf-8") as file:
                page = file.read()
            self.assertIn("# Conformance of `cpu`", page)
            self.assertIn("by a test", page)
            self.assertIn("the device itself", page)

    # Fails if the CPU backend with one device fails a case. Also fails if no case is skipped
    # because it needs two devices.
    def test_one_device_conforms(self):
        done = shell("anyaccel conformance --json - --suite devices --suite threads --suite streams", DS_ACCELERATOR="cpu",
                     LOCAL_SIZE="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reasons = {case["message"] for case in json.loads(done.stdout)["cases"] if case["outcome"] == "skipped"}
        self.assertIn("needs 2 devices", reasons)

    # Fails if --list and a run select different cases, or if an unknown name is accepted.
    def test_selection(self):
        listed = shell("anyaccel conformance --list --suite memory").stdout.splitlines()
        self.assertIn("memory.peak_starts_anew_at_reset (required)", listed)
        chosen = json.loads(shell("anyaccel conformance --backend cpu --case 'memory.peak_*' --json -").stdout)["cases"]
        self.assertEqual([case["name"] for case in chosen],
                         [line.split(" ")[0].split(".")[1] for line in listed if line.startswith("memory.peak_")])
        for line in ("--suite nosuch", "--case nosuch", "--backend nosuch"):
            done = shell("anyaccel conformance " + line)
            self.assertEqual((done.returncode, done.stdout), (2, ""), line)
            self.assertIn("nosuch", done.stderr)
        self.assertEqual(shell("anyaccel conformance --timeout soon").returncode, 2)
        self.assertEqual(shell("anyaccel conformance --no-such").returncode, 2)

    # Fails if the exit code is 0 although the report could not be written.
    def test_full_disk(self):
        done = shell("anyaccel conformance --backend cpu --case identity.name_is_set --json /dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/dev/full", done.stderr)

    # Fails if --speed does not print a time.
    def test_speed(self):
        done = shell("anyaccel conformance --backend cpu --speed --case 'ops.add.*'")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"ops\.add\.float32 +[0-9.]+ us")


if __name__ == "__main__":
    unittest.main()
