"""tools/run_tests: counts, reasons for skipped tests, and failures of ctest."""
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/run_tests"
PASS = 'add_test(good "true")\n'
FAIL = 'add_test(bad "sh" "-c" "echo the reason of the failure; exit 1")\n'
SCRIPT_SKIP = ('add_test(script "sh" "-c" "echo SKIP: no such device; exit 77")\n'
               'set_tests_properties(script PROPERTIES SKIP_RETURN_CODE 77)\n')
GOOGLETEST_SKIP = ('add_test(google "printf" "/a/b_test.cpp:7: Skipped\\\\nno NUMA here\\\\n\\\\n[  SKIPPED ] A.B (0 ms)\\\\n")\n'
                   'set_tests_properties(google PROPERTIES SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]")\n')


class RunTests(unittest.TestCase):
    def run_tool(self, tests, *options, cache=""):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "CTestTestfile.cmake").write_text(tests)
        (folder / "CMakeCache.txt").write_text(cache)
        result = subprocess.run([sys.executable, TOOL, folder, *options], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    # Fails if a count is wrong, or a skipped test lacks its reason.
    def test_counts_and_reasons(self):
        status, output = self.run_tool(PASS + SCRIPT_SKIP + GOOGLETEST_SKIP)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.splitlines()[-1], "1 passed, 0 failed, 2 skipped")
        self.assertIn("skipped 1: no such device (script)", output)
        self.assertIn("skipped 1: no NUMA here (google)", output)

    # Fails if a failed test among many is not reported, or its output is not shown.
    def test_failure(self):
        status, output = self.run_tool(PASS + FAIL)
        self.assertEqual(status, 1)
        self.assertEqual(output.splitlines()[-1], "1 passed, 1 failed, 0 skipped")
        self.assertIn("the reason of the failure", output)

    # Fails if a run in which no test passes counts as success.
    def test_nothing_passed(self):
        self.assertEqual(self.run_tool("")[0], 1)
        self.assertEqual(self.run_tool(SCRIPT_SKIP)[0], 1)

    # Fails if tests of sanitizer builds run without this tree's suppressions.
    def test_sanitizer_options(self):
        tests = 'add_test(env "sh" "-c" "test -f \\"$(echo $LSAN_OPTIONS | sed s/suppressions=// | cut -d: -f1)\\"")\n'
        self.assertEqual(self.run_tool(tests, cache="ANYACCEL_SANITIZE:STRING=address\n")[0], 0)
        self.assertEqual(self.run_tool(tests, cache="ANYACCEL_SANITIZE:STRING=\n")[0], 1)

    # Fails if slow tests run by default, or one of them is in none of the four parts that the
    # commit hash selects.
    def test_slow_tests(self):
        tests = PASS + "".join(f'add_test(slow.{name} "true")\nset_tests_properties(slow.{name} PROPERTIES LABELS slow)\n' for name in "abcde")
        for choice, count in (("none", "1"), ("all", "6")):
            self.assertEqual(self.run_tool(tests, "--slow", choice)[1].splitlines()[-1], f"{count} passed, 0 failed, 0 skipped")
        self.assertIn(self.run_tool(tests, "--slow", "some")[1].splitlines()[-1][:1], "23")
        names = [f"slow.{name}" for name in "abcde"]
        tool = runpy.run_path(str(TOOL), run_name="tool")
        kept = []
        for place in range(4):
            answer = subprocess.CompletedProcess([], 0, stdout=f"{place:08x}\n")
            with unittest.mock.patch("subprocess.run", return_value=answer):
                kept += set(names) - set(tool["left_out"](names, "some"))
        self.assertEqual(sorted(kept), names)


if __name__ == "__main__":
    unittest.main()
