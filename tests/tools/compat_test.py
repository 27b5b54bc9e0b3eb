"""Tests of tools/compat: how it adapts the tests of another project, and the table of results."""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from compat_suites import SUITES, deepspeed, hugging_face, lightning, openreg, process, recorder, report, session, torchtune  # noqa: E402
from compat_suites.guest import pytest_exclusions  # noqa: E402

JUNIT = """<testsuites><testsuite>
<testcase classname="test_a.TestOne" name="test_passes"/>
<testcase classname="test_a.TestOne" name="test_fails"><failure message="AssertionError: 1 | 2&#10;more">...</failure></testcase>
<testcase classname="test_a.TestTwo" name="test_is_skipped"><skipped message="reason"/></testcase>
</testsuite></testsuites>
"""

# Stand-in for `anyaccel sim run`. Prints its arguments, and writes the files that pytest would
# write.
FAKE_PROGRAM = f"""
import json, os, pathlib, sys
asked = json.loads(pathlib.Path(os.environ["COMPAT_EXCLUSIONS"]).read_text())
junit = [each for each in sys.argv if each.startswith("--junit-xml=")][0].split("=", 1)[1]
pathlib.Path(junit).write_text({JUNIT!r})
pathlib.Path(asked["report"]).write_text(json.dumps([["tests/" + name, name] for name in asked["excluded"]]))
print(json.dumps({{"arguments": sys.argv, "excluded": asked["excluded"], "offline": os.environ["HF_HUB_OFFLINE"]}}))
"""


class Compat(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def results(self):
        path = self.folder / "junit.xml"
        path.write_text(JUNIT)
        return report.read_junit(path, "test_a.py")

    # Fails if an adapted test still contains OpenReg's device name or expects OpenReg's messages.
    def test_names_and_messages_are_replaced(self):
        text = ('import torch_openreg\nx = torch.openreg.current_device()\nassert ProfilerActivity.OPENREG\n'
                'assertRaisesRegex("The device index is out of range")\n"Cannot re-initialize OpenReg in forked subprocess."\n')
        self.assertEqual(openreg.adapted(text), 'import anyaccel\nx = torch.sim.current_device()\nassert ProfilerActivity.SIM\n'
                         'assertRaisesRegex("device index out of range")\n"Cannot re-initialize SIM in forked subprocess."\n')

    # Fails if a result has the wrong state, or a failure loses its message.
    def test_results(self):
        results = self.results()
        self.assertEqual([(each.name, each.state) for each in results],
                         [("test_a.py::TestOne::test_passes", "passed"), ("test_a.py::TestOne::test_fails", "failed"),
                          ("test_a.py::TestTwo::test_is_skipped", "skipped")])
        self.assertEqual(results[1].reason, "AssertionError: 1 | 2")

    # Fails if the table has wrong counts, breaks on a `|`, or omits a failure or a reason.
    def test_table(self):
        excluded = {"test_a.py::TestOne::test_left_out": "tests something else"}
        results = [*self.results(), report.Result("test_a.py::TestOne::test_left_out", "excluded", "test_a.py::TestOne::test_left_out")]
        text = report.table("Tests of others", "abc", results, excluded)
        self.assertIn("3 tests selected, 1 excluded.", text)
        self.assertIn("| test_a.py | 1 | 1 | 1 | 1 |", text)
        self.assertIn(r"| test_a.py::TestOne::test_fails | AssertionError: 1 \| 2 |", text)
        self.assertIn("| tests something else | 1 |", text)
        many = [report.Result(f"test_b.py::One::test_{i}", "failed", "the same") for i in range(4)]
        self.assertIn("| 4 tests of test_b.py | the same |", report.table("Tests of others", "abc", many, {}))
        page = self.folder / "page.md"
        page.write_text("before\n<!-- compat: openreg -->\nold\n<!-- end of compat -->\nafter\n")
        report.write(page, "openreg", text)
        self.assertEqual(page.read_text(), f"before\n<!-- compat: openreg -->\n{text}\n<!-- end of compat -->\nafter\n")

    # Fails if a test can be excluded without a reason.
    def test_exclusions_have_reasons(self):
        path = self.folder / "x.tsv"
        path.write_text("# comment\ntest_a.py::*\tneeds another torch\n")
        self.assertEqual(report.read_exclusions(path), {"test_a.py::*": "needs another torch"})
        path.write_text("test_a.py::*\n")
        with self.assertRaises(SystemExit):
            report.read_exclusions(path)
        for suite in SUITES:
            report.read_exclusions(ROOT / f"tools/compat_suites/{suite}.tsv")
        self.assertTrue(report.read_exclusions(ROOT / "tools/compat_suites/openreg.tsv"))

    # Fails if an exclusion also leaves out other tests, or keeps a parameter set of an excluded
    # test.
    def test_exclusions_of_tests_classes_and_files(self):
        excluded = {"a/test_b.py::One::test_x", "a/test_b.py::Two::*", "test_c.py::*", "test_d.py::test_y"}
        for node, name in (("tests/a/test_b.py::One::test_x[0-a::b]", "a/test_b.py::One::test_x"), ("tests/a/test_b.py::One::test_xy", None),
                           ("tests/a/test_b.py::Two::test_z", "a/test_b.py::Two::*"), ("tests/test_c.py::Any::test_z", "test_c.py::*"),
                           ("tests/test_d.py::test_y[1]", "test_d.py::test_y"), ("tests/test_d.py::One::test_y", None)):
            self.assertEqual(pytest_exclusions.exclusion_of(node, excluded), name, node)

    # Fails if a suite does not run its selection on the requested devices, or does not count what
    # it leaves out.
    def test_a_suite_in_place_of_cuda(self):
        tests = self.folder / "library/tests"
        tests.mkdir(parents=True)
        (tests / "test_a.py").touch()
        program = self.folder / "build/bin/anyaccel"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!{sys.executable}\n" + FAKE_PROGRAM)
        program.chmod(0o755)
        suite = hugging_face.Suite("A library", files={"test_a.py": ("TestOne",)})
        options = argparse.Namespace(source=tests, build=self.folder / "build", python=sys.executable, only=None, timeout=None, devices=1, check=True,
                                     log=self.folder / "log", resume=self.folder / "results.json")
        results = suite.run(options, {"test_a.py::TestOne::test_left_out": "a reason", "test_b.py::*": "another file"})
        self.assertEqual(sorted(each.state for each in results), ["excluded", "failed", "passed", "skipped"])
        seen = json.loads((self.folder / "log/test_a.py.log").read_text())
        self.assertEqual(seen["excluded"], ["test_a.py::TestOne::test_left_out"])
        self.assertEqual(seen["offline"], "1")
        for words in (["--devices", "1", "--stands-in-for", "cuda", "--check", "report", "--"], ["tests/test_a.py::TestOne"]):
            self.assertIn(" ".join(words), " ".join(seen["arguments"]))
        # A second run takes the results from the file, and does not start the program.
        program.unlink()
        again = suite.run(options, {})
        self.assertEqual([vars(each) for each in again], [vars(each) for each in results])
        (tests / "test_a.py").unlink()
        with self.assertRaisesRegex(report.CannotRun, "lacks test_a.py"):
            suite.run(options, {})

    # Fails if a folder without tests counts as success.
    def test_a_folder_without_tests(self):
        done = subprocess.run([sys.executable, ROOT / "tools/compat", "openreg", "--source", self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no test_*.py", done.stderr)

    # Fails if a suite lists a file twice, or excludes a test of a file that it does not select.
    def test_selections_and_exclusions_agree(self):
        for name, suite in (("deepspeed", deepspeed), ("lightning", lightning), ("torchtune", torchtune)):
            self.assertEqual(len(suite.FILES), len(set(suite.FILES)), name)
            excluded = report.read_exclusions(ROOT / f"tools/compat_suites/{name}.tsv")
            self.assertEqual([key for key in excluded if key.split("::")[0] not in suite.FILES], [], name)

    # Fails if an exclusion matches a test whose name merely begins with it, or does not match the
    # parameter sets of its test.
    def test_exclusions_match_whole_names(self):
        excluded = ["a.py::TestOne::test", "b.py::*"]
        found = {test: recorder.exclusion_of(test, excluded) for test in
                 ("a.py::TestOne::test", "a.py::TestOne::test[1]", "a.py::TestOne::test_more", "b.py::test", "c.py::test")}
        self.assertEqual(list(found.values()), [excluded[0], excluded[0], None, excluded[1], None])

    # Fails if a limit on parameter sets drops a function or keeps too many sets.
    def test_parameter_sets(self):
        tests = [f"a.py::test[{number}]" for number in range(5)] + ["a.py::other"]
        self.assertEqual(recorder.chosen(tests, 2), {"a.py::test[0]", "a.py::test[4]", "a.py::other"})
        self.assertEqual(recorder.chosen(tests, 1), {"a.py::test[0]", "a.py::other"})
        self.assertEqual(recorder.chosen(tests, 9), set(tests))

    # Fails if a later state replaces a failure, or a session that ended early counts as success.
    def test_records(self):
        path = self.folder / "results.jsonl"
        path.write_text('["a.py::test", "failed", "no"]\n["a.py::test", "passed", ""]\n["a.py::two", "excluded", "a.py::two"]\n')
        recorded = [("a.py::test", "failed", "no"), ("a.py::two", "excluded", "a.py::two")]
        for end, more in ((None, []), ("pytest ended early", [("a.py::*", "failed", "pytest ended early")])):
            results = session.results_of(path, "a.py", end)
            self.assertEqual([(each.name, each.state, each.reason) for each in results], recorded + more)
        self.assertEqual([each.state for each in session.results_of(self.folder / "absent", "a.py", "pytest ended early")], ["failed"])
        self.assertEqual(session.results_of(self.folder / "absent", "a.py", None), [])

    # Fails if the recorder loses a test outcome or an exclusion in a real session.
    @unittest.skipIf(importlib.util.find_spec("pytest") is None, "the Python of the tests has no pytest")
    def test_a_session(self):
        tests = self.folder / "tests"
        tests.mkdir()
        (tests / "test_a.py").write_text("import pytest\ndef test_passes(): pass\ndef test_fails(): assert 1 == 2\n"
                                         "def test_left_out(): pass\n@pytest.mark.skip('not today')\ndef test_skipped(): pass\n")
        excluded = {"test_a.py::test_left_out": "reason"}
        options = argparse.Namespace(source=tests, build=self.folder, python=sys.executable, timeout=60, log=self.folder / "log",
                                     devices=None, check=False, resume=self.folder / "results.json")
        results = session.run(options, ["test_a.py"], excluded, mark="test_a.py")
        self.assertEqual({each.name.split("::")[1]: each.state for each in results},
                         {"test_passes": "passed", "test_fails": "failed", "test_left_out": "excluded", "test_skipped": "skipped"})
        self.assertIn("1 failed", (self.folder / "log/test_a.py.log").read_text())
        # A second run takes the results from the file.
        (tests / "test_a.py").write_text("import os\ndef test_ends(): pass\ndef test_crashes(): os._exit(9)\n")
        again = session.run(options, ["test_a.py"], excluded, mark="test_a.py")
        self.assertEqual([vars(each) for each in again], [vars(each) for each in results])
        # A crash keeps the earlier results and is a failure.
        options.resume = None
        results = session.run(options, ["test_a.py"], excluded, mark="test_a.py")
        self.assertEqual([(each.name, each.state) for each in results], [("test_a.py::test_ends", "passed"), ("test_a.py::*", "failed")])
        with self.assertRaisesRegex(report.CannotRun, "no other.py in"):
            session.run(options, ["test_a.py"], excluded, mark="other.py")

    # Fails if a process that the command started outlives the time limit.
    def test_a_time_limit_ends_all_processes(self):
        file = self.folder / "child"
        code = f"import subprocess, sys; child = subprocess.Popen(['sleep', '600']); open({str(file)!r}, 'w').write(str(child.pid)); child.wait()"
        with self.assertRaises(subprocess.TimeoutExpired):
            process.run([sys.executable, "-c", code], 2)
        child = int(file.read_text())
        for _ in range(100):  # a killed process exists until its parent has waited for it
            try:
                if pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    break
            except OSError:
                break
            time.sleep(0.05)
        else:
            self.fail("the child still runs")


if __name__ == "__main__":
    unittest.main()
