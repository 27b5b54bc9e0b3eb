"""benchmarks/run --compare in a small repository: checkouts, builds and complete comparisons."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "benchmarks"))
sys.dont_write_bytecode = True

from runner import commits  # noqa: E402

PRESETS = {"version": 3, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}]}
LISTS = """cmake_minimum_required(VERSION 3.22)
project(small NONE)
set(program ${PROJECT_BINARY_DIR}/bin/program)
set(broken ${PROJECT_BINARY_DIR}/bin/broken)
add_custom_command(OUTPUT ${program} COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/text ${program})
add_custom_command(OUTPUT ${broken} COMMAND ${CMAKE_COMMAND} -E false)
add_custom_target(programs DEPENDS ${program} ${broken})
"""
BENCH = """from runner.declare import Benchmark, Side
benchmark = Benchmark(title="{name}", about="a", sides=[Side("ours", ["sh", "-c", "cat {{build}}/bin/program"], ours=("x_", "y_")),
                                                       Side("peer", ["false"], ours=())])
"""


def declared(sides, prepare=()):
    return {"name": "b", "title": "T", "prepare": list(prepare), "warm_up": False, "sides": sides}


class SmallRepository(unittest.TestCase):
    """A repository with this tree's runner, and benchmarks that print the file `text` of their
    commit.
    """

    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "repository"
        (self.root / "tools").mkdir(parents=True)
        shutil.copy(SOURCE / "tools/build", self.root / "tools/build")
        shutil.copytree(SOURCE / "benchmarks/runner", self.root / "benchmarks/runner", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SOURCE / "benchmarks/run", self.root / "benchmarks/run")
        (self.root / "CMakePresets.json").write_text(json.dumps(PRESETS))
        (self.root / "CMakeLists.txt").write_text(LISTS)
        (self.root / ".gitignore").write_text("/build/\n")
        self.git("init", "-q")
        self.write("kept", '{"x_us": 100, "y_tokens_s": 50}')
        self.commit("first")

    def git(self, *words):
        who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", self.root, *who, *words], check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def write(self, benchmark, text):
        (self.root / f"benchmarks/{benchmark}.bench.py").write_text(BENCH.format(name=benchmark))
        (self.root / "text").write_text(text + "\n")

    def run_compare(self, *words):
        """Return (exit status, standard output, last line of standard error)."""
        done = subprocess.run([sys.executable, "-B", self.root / "benchmarks/run", "--compare", *words, "--max-load", "99", "--minutes", "0",
                               "--python", sys.executable], capture_output=True, text=True, timeout=200)
        return done.returncode, done.stdout, (done.stderr.splitlines() or [""])[-1]


class Commits(SmallRepository):
    # Fails if an unknown commit gives a traceback, or is passed to git as an option.
    def test_unknown_commit(self):
        for name in ("nope", "--all", "HEAD:text"):
            with self.assertRaisesRegex(commits.CannotCompare, f"unknown commit: got '{name}', expected a commit, branch or tag"):
                commits.resolve(self.root, name)
        self.assertEqual(commits.resolve(self.root, "HEAD"), (self.git("rev-parse", "HEAD"), "first"))

    # Fails if a comparison ignores uncommitted changes, or if an untracked file prevents the
    # comparison.
    def test_dirty_tree(self):
        (self.root / "notes").write_text("mine")
        commits.check_clean(self.root)
        (self.root / "text").write_text("changed")
        with self.assertRaisesRegex(commits.CannotCompare, "uncommitted changes: got 'text', expected a clean working tree"):
            commits.check_clean(self.root)
        (self.root / "CMakeLists.txt").write_text("changed")
        with self.assertRaisesRegex(commits.CannotCompare, "got 'CMakeLists.txt' and 1 more"):
            commits.check_clean(self.root)

    # Fails if a checkout is recreated each time, or is used although its files were changed. After
    # `make clean`, it must be recreated.
    def test_check_out(self):
        cache, head = self.root / "build/compare", self.git("rev-parse", "HEAD")
        source = commits.check_out(self.root, cache, head)
        (source / "untracked").write_text("a build")
        self.assertEqual(commits.check_out(self.root, cache, head), source)
        self.assertTrue((source / "untracked").exists())
        (source / "text").write_text("changed")
        with self.assertRaisesRegex(commits.CannotCompare, "stale checkout .*: got changed files, expected"):
            commits.check_out(self.root, cache, head)
        shutil.rmtree(self.root / "build")
        self.assertTrue((commits.check_out(self.root, cache, head) / "text").exists())

    # Fails if a benchmark is read with another commit's runner, which would reject fields that were
    # added later.
    def test_benchmarks_are_read_by_their_own_runner(self):
        declare = self.root / "benchmarks/runner/declare.py"
        declare.write_text(declare.read_text().replace('    keep: tuple = ()\n', '    keep: tuple = ()\n    later: int = 7\n'))
        (self.root / "benchmarks/other.bench.py").write_text(BENCH.format(name="other").replace("ours=()", "later=8"))
        found = commits.describe(self.root)
        self.assertEqual([side["later"] for side in found["other"]["sides"]], [7, 8])
        (self.root / "benchmarks/other.bench.py").write_text("import nothing_of_this_name\n")
        with self.assertRaisesRegex(commits.CannotCompare, "cannot be read: .*nothing_of_this_name"):
            commits.describe(self.root)

    # Fails if a benchmark's program or op is not built, or the op of a renamed folder is not found.
    def test_targets(self):
        (self.root / "benchmarks/op.py").write_text('create_op_builder("CPUAdamBuilder"); f"{build}/lib/libplain.so"')
        (self.root / "benchmarks/generate.cpp").write_text('#include "anyaccel/llm/generate.h"')
        for path, text in (("src/ops/renamed/adam_op.op", "name = x\nclass_name = CPUAdamBuilder\n"), ("src/ops/other/other.op", "class_name = OtherBuilder\n"),
                           ("src/ops/decoder/decoder.op", "class_name = DecoderBuilder\n"), ("src/llm/step.cpp", 'load("DecoderBuilder")')):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        op = declared([{"command": ["{python}", "{here}/op.py"], "env": {"PYTHONPATH": "{build}/python"}}])
        generate = declared([{"command": ["{build}/bin/bench_generate", "m"]}])
        self.assertEqual(commits.targets([op], self.root), ["anyaccel_prebuilt_adam_op", "anyaccel_python", "lib/libplain.so"])
        self.assertEqual(commits.targets([generate], self.root), ["anyaccel_prebuilt_decoder", "bin/bench_generate"])

    # Fails if the two builds share data files that different programs generate, or do not share
    # data files that the same program generates.
    def test_data_folder(self):
        build = commits.Build("old", "c", "s", self.root, "python3")
        (self.root / "benchmarks/make.py").write_text("one")
        benchmark = declared([], ["{python}", "{here}/make.py"])
        first = commits.data_folder(benchmark, build, pathlib.Path("/cache"))
        self.assertEqual(first.parent, pathlib.Path("/cache/data"))
        self.assertEqual(commits.data_folder(benchmark, build, pathlib.Path("/cache")), first)
        (self.root / "benchmarks/make.py").write_text("two")
        self.assertNotEqual(commits.data_folder(benchmark, build, pathlib.Path("/cache")), first)


@unittest.skipUnless(shutil.which("cmake") and shutil.which("ninja"), "cmake or ninja is not installed")
class WholeComparisons(SmallRepository):
    # Fails if a build does not run its own commit's program. The two programs differ only in their
    # figures. A slower figure must give exit status 1, a faster rate must not count as slower, and
    # peers must neither run nor appear in the table.
    def test_slower(self):
        self.write("kept", '{"x_us": 110, "y_tokens_s": 60, "torch_us": 1}')
        self.commit("second")
        out = self.root / "build/result.md"
        status, text, _ = self.run_compare("HEAD~1", "kept", "--out", str(out))
        self.assertIn("| ours: x us | 100.0 | 110.0 | 1.100 | 1.100 to 1.100 | 0.0 % | 8 | slower |", text)
        self.assertRegex(text, r"\| ours: y tokens s \| 50.00 \| 60.00 \| 0.833 \|.*\| faster \|")
        self.assertEqual((status, out.read_text()), (1, text))
        self.assertNotIn("torch", text)
        # With the commits swapped, the rate is lower.
        self.assertEqual(self.run_compare("HEAD", "kept", "--with", "HEAD~1")[0], 1)

    # Fails if a benchmark that was renamed in one commit prevents the comparison of the others, or
    # if equal commits do not give exit status 0.
    def test_renamed_benchmark(self):
        self.write("before", '{"x_us": 100}')
        self.commit("second")
        self.git("mv", "benchmarks/before.bench.py", "benchmarks/after.bench.py")
        self.commit("third")
        status, text, _ = self.run_compare("HEAD~1", "--all")
        self.assertEqual(status, 0, text)
        self.assertIn("Benchmarks only in OLD: before.", text)
        self.assertIn("Benchmarks only in NEW: after.", text)
        self.assertIn("1 figures: 0 slower, 0 faster, 1 without a change", text)

    # Fails if a program's failure in one commit counts as success, or if the message does not name
    # the commit.
    def test_failing_side(self):
        self.write("kept", "nonsense")
        self.commit("second")
        status, text, last = self.run_compare("HEAD~1", "kept")
        self.assertEqual(status, 3)
        self.assertRegex(text, r"No figures: new \(\w{12}\): ours: last line of output is not a JSON object")
        self.assertIn("benchmarks: kept: new (", last)

    # Fails if invalid input does not give one clear line and exit status 2. Exit status 1 means
    # that a figure is slower.
    def test_bad_input(self):
        for words, line in ((("nope",), "unknown commit: got 'nope'"), (("HEAD", "nope"), "unknown benchmark: got 'nope', expected one of: kept. List")):
            status, text, last = self.run_compare(*words)
            self.assertEqual((status, text), (2, ""))
            self.assertTrue(last.startswith("benchmarks: cannot compare: " + line), last)
        (self.root / "text").write_text("changed")
        self.assertIn("uncommitted changes: got 'text'", self.run_compare("HEAD")[2])
        self.assertEqual(self.run_compare("HEAD", "--with", "HEAD")[0], 0)  # uncommitted changes do not matter here

    # Fails if a commit that does not build is measured with an earlier build, or if more is built
    # than the selected benchmarks need.
    def test_commit_that_does_not_build(self):
        path = self.root / "benchmarks/kept.bench.py"
        path.write_text(path.read_text().replace("bin/program", "bin/broken"))
        self.commit("second")
        status, text, last = self.run_compare("HEAD~1", "kept")
        self.assertEqual((status, text), (2, ""))
        self.assertRegex(last, r"cannot compare: building \w{12} failed")
        shutil.copy(path, self.root / "benchmarks/broken.bench.py")
        path.write_text(path.read_text().replace("bin/broken", "bin/program"))
        self.commit("third")
        self.assertEqual(self.run_compare("HEAD~2", "kept")[0], 0)


if __name__ == "__main__":
    unittest.main()
