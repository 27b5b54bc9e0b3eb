"""tools/test_all: the page of results, also for parts that run one by one, in a tree with fake
checks.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/test_all"
CHECKS = ("check_layers", "check_docs", "check_examples", "check_words", "proof", "methods", "port_rules", "stubs", "check_plugin_abi", "format")


class TestAll(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in ("tools", "docs", ".cache/setup", "torch/share/cmake/Torch", "torch/include/torch/headeronly"):
            (self.root / path).mkdir(parents=True)
        shutil.copy(TOOL, self.root / "tools/test_all")
        (self.root / ".cache/setup/torch_dir").write_text(f"{self.root}/torch/share/cmake/Torch\n")
        (self.root / "torch/include/torch/headeronly/version.h").write_text(
            "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 13\n#define TORCH_VERSION_PATCH 0\n")
        for name in CHECKS:
            self.check(name, 0)

    def check(self, name, status, before="true"):
        path = self.root / "tools" / name
        path.write_text(f"#!/bin/sh\n{before}\nexit {status}\n")
        path.chmod(0o755)

    def run_parts(self, *options):
        return subprocess.run([sys.executable, self.root / "tools/test_all", *options], capture_output=True, text=True)

    def rows(self):
        lines = (self.root / "docs/test-results.md").read_text().splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
        return {row[0]: row[1:] for row in cells}

    # Fails if running one part removes the rows of other parts from the page, or the total does not
    # match the rows.
    def test_parts_one_by_one(self):
        self.assertEqual(self.run_parts("--only", "tree").returncode, 0)
        self.assertEqual(self.rows()["tree"][2:5], ["9", "0", "0"])
        self.assertEqual(self.rows()["release"][0], "not run")
        self.check("methods", 1)
        self.assertEqual(self.run_parts("--only", "tree").returncode, 1)
        rows = self.rows()
        self.assertEqual(rows["tree"][2:5], ["8", "1", "0"])
        self.run_parts("--only", "format")  # skipped without clang-format
        rows = self.rows()
        self.assertEqual(rows["tree"][2:5], ["8", "1", "0"])
        self.assertEqual([int(n) for n in rows["all"][2:5]], [sum(int(rows[part][i]) for part in ("tree", "format")) for i in (2, 3, 4)])
        self.assertIn("- tree: `tools/methods --check` failed", (self.root / "docs/test-results.md").read_text())

    # Fails if a build folder that was configured without tests, for example by `make demo`, keeps
    # that setting. The minimal build must not need GoogleTest.
    def test_configures_with_tests(self):
        cmake = self.root / "bin/cmake"
        cmake.parent.mkdir()
        cmake.write_text(f'#!/bin/sh\necho "$*" >> "{self.root}/cmake.txt"\nexit 1\n')
        cmake.chmod(0o755)
        environment = dict(os.environ, PATH=f"{cmake.parent}:{os.environ['PATH']}")
        for part, has_tests in (("release", True), ("minimal", False)):
            (self.root / "cmake.txt").write_text("")
            subprocess.run([sys.executable, self.root / "tools/test_all", "--only", part], capture_output=True, env=environment)
            self.assertEqual("-DANYACCEL_BUILD_TESTS=ON" in (self.root / "cmake.txt").read_text(), has_tests, part)

    # Fails if parts do not run in the order of --only, or a part that is named twice runs twice.
    def test_order(self):
        said = self.run_parts("--ci", "--only", "format,tree,format").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in said if " passed " in line], ["format", "tree"])

    # Fails if the page that a run writes counts as an uncommitted change, or if a real change does
    # not.
    def test_uncommitted_changes_are_marked(self):
        git = lambda *words: subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)
        (self.root / "docs/test-results.md").write_text("old\n")
        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "a")
        for change, mark in ((False, False), (False, False), (True, True)):
            if change:
                self.check("methods", 0)
                (self.root / "tools/methods").write_text("#!/bin/sh\nexit 0  # changed\n")
            self.run_parts("--only", "tree")
            self.assertEqual(self.rows()["tree"][1].endswith("+"), mark)

    # Fails if a run with --limit waits for a part that hangs, leaves its processes running, counts
    # it as a failure, or starts the parts after it.
    def test_limit(self):
        self.check("check_docs", 0, f"sleep 600 & echo $! > '{self.root}/pid'; wait")
        done = self.run_parts("--ci", "--limit", "0.03", "--only", "tree,format")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("tree           1 passed    0 failed    1 skipped", done.stdout)
        self.assertIn("(stopped: the limit of 0.03 minutes passed)", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "1 passed, 0 failed, 2 skipped")
        state = pathlib.Path(f"/proc/{(self.root / 'pid').read_text().strip()}/stat")
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z", "the process that hung is still there")

    # Fails if a slow machine starts a part that does not fit in the budget.
    def test_slowdown(self):
        self.assertIn("9 passed", self.run_parts("--ci", "--budget", "3", "--only", "tree").stdout.splitlines()[-1])
        done = self.run_parts("--ci", "--budget", "3", "--slowdown", "4", "--only", "tree")
        self.assertIn("too little time: 3 of 3 minutes left, 4 needed", done.stdout)

    # Fails if the counts of a part that writes its own results are lost, if CI runs every part of
    # tools/cross, or if a machine without the emulator counts as a failure.
    def test_results_of_another_tool(self):
        cross = self.root / "tools/cross"
        cross.write_text(f'#!/bin/sh\necho "$*" > "{self.root}/cross.txt"\nmkdir -p build/aarch64-results\n'
                         'printf "7 passed, 0 failed, 2 skipped\\n2\\tneeds i8mm\\n" > build/aarch64-results/results.txt\n')
        cross.chmod(0o755)
        self.assertEqual(self.run_parts("--only", "aarch64").returncode, 0)
        self.assertEqual(self.rows()["aarch64"][2:5], ["7", "0", "2"])
        self.assertIn("- aarch64: skipped 2: needs i8mm", (self.root / "docs/test-results.md").read_text())
        self.assertNotIn("--only", (self.root / "cross.txt").read_text())
        self.run_parts("--ci", "--only", "aarch64")
        self.assertIn("--only kernels,base", (self.root / "cross.txt").read_text())
        cross.write_text("#!/bin/sh\nexit 77\n")
        self.assertEqual(self.run_parts("--ci", "--only", "tree,aarch64").stdout.splitlines()[-1], "9 passed, 0 failed, 1 skipped")

    # Fails if an unknown part counts as success.
    def test_unknown_part(self):
        done = self.run_parts("--only", "tree,foo")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown part: got 'foo'", done.stderr)

    # Fails if continuous integration changes the tree.
    def test_ci_does_not_write_the_page(self):
        self.assertEqual(self.run_parts("--ci", "--only", "tree").returncode, 0)
        self.assertFalse((self.root / "docs/test-results.md").exists())


if __name__ == "__main__":
    unittest.main()
