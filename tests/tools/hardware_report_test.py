"""tools/hardware_report with fake build and test programs: which parts run, are saved, are repeated
and appear in the report.
"""
import html.parser
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from program_folder import ProgramFolder

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A fake cmake that creates a cache and the kit's program in the build folder.
CMAKE = """#!/bin/sh
echo "cmake $*" >> "$LOG"
[ "$1" = --preset ] && { mkdir -p "$BUILD/bin"; touch "$BUILD/CMakeCache.txt"; cp "$KIT" "$BUILD/bin/anyaccel_conformance"; }
[ -e "$BROKEN" ] && { echo "no compiler today" >&2; exit 1; }
exit 0
"""
KIT = """#!{python}
import json, os, sys, time
open(os.environ["LOG"], "a").write("kit\\n")
time.sleep(float(os.environ.get("KIT_SECONDS", 0)))
counts = dict(passed=3, failed=0)
outcome, message = os.environ.get("OUTCOME", "passed"), "<script>alert('seen')</script> & |"
case = dict(suite="memory", name="peak_resets", outcome=outcome, message=message)
print(json.dumps(dict(cases=[case], summary=dict(required=counts, recommended=counts, optional=counts))))
"""
# A fake Python with torch. The process exits in the second check of FusedLionBuilder.
PYTHON = """#!/bin/sh
echo "python $*" >> "$LOG"
case "$*" in *"import json, torch"*) [ -z "$NO_TORCH" ] && echo '{"torch": "2.13.0"}'; exit;; esac
echo '{"begin": "lion/1/float32/forward"}'
echo '{"check": "lion/1/float32/forward", "status": "passed", "message": ""}'
case "$*" in *FusedLambBuilder*) echo '{"begin": "lamb/3/float32/graph"}'; exec sleep 60;; esac
case "$*" in *FusedLionBuilder*) echo '{"begin": "lion/17/float32/stream"}'; kill -SEGV $$;; esac
echo '{"summary": "1 passed"}'
"""
SANITIZER = """#!/bin/sh
[ "$1" = --version ] && { echo "compute-sanitizer 1.0"; exit 0; }
echo "========= Invalid __global__ write of size 4 bytes"
exit 9
"""


class Page(html.parser.HTMLParser):
    """Collects the elements and attributes of a page."""
    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "action", "data")]

    def handle_data(self, data):
        self.text += data


class HardwareReport(ProgramFolder):
    def setUp(self):
        super().setUp()
        for name, text in (("bin/cmake", CMAKE), ("kit", KIT.format(python=sys.executable)), ("bin/torch-python", PYTHON)):
            self.program(name, text)

    def words(self, *options, backend="sim"):
        return [
            sys.executable, "-B",
            str(ROOT / "tools/hardware_report"), "--backend", backend, "--build",
            str(self.folder / "build"), "--out",
            str(self.folder / "out"), "--python",
            str(self.folder / "bin/torch-python"), *options
        ]

    def environment(self, **variables):
        return {
            **os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "LOG": str(self.folder / "log"),
            "BUILD": str(self.folder / "build"), "KIT": str(self.folder / "kit"), "BROKEN": str(self.folder / "broken"), **variables
        }

    def run_tool(self, *options, backend="sim", **variables):
        """Return (exit status, output, saved report)."""
        (self.folder / "log").write_text("")
        done = subprocess.run(self.words(*options, backend=backend),
                              env=self.environment(**variables),
                              capture_output=True,
                              text=True)
        report = self.folder / "out/report.json"
        return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else None

    def ran(self):
        return (self.folder / "log").read_text().splitlines()

    # Fails if a part that passed is repeated, or a part that failed is not.
    def test_resume(self):
        (self.folder / "broken").touch()
        status, said, report = self.run_tool("--only", "conformance")
        self.assertEqual((status, report["parts"]["build"]["status"], report["parts"]["conformance"]["status"]),
                         (1, "failed", "blocked"), said)
        self.assertIn("no compiler today", (self.folder / "out/report.md").read_text())
        (self.folder / "broken").unlink()
        status, said, report = self.run_tool("--only", "conformance")
        self.assertEqual((status, report["parts"]["conformance"]["status"]), (0, "passed"), said)
        self.assertIn("kit", self.ran())
        self.assertEqual(list(self.run_tool("--only", "peaks")[2]["parts"]), ["build", "peaks", "conformance"])
        status, said, _ = self.run_tool("--only", "conformance")
        self.assertEqual(status, 0, said)
        self.assertNotIn("kit", self.ran())
        self.assertFalse([line for line in self.ran() if line.startswith("cmake --build")])

    # Fails if a report that was being written when the process was killed is lost, or finished
    # parts are repeated.
    def test_resume_after_kill(self):
        (self.folder / "log").write_text("")
        process = subprocess.Popen(self.words("--only", "conformance"),
                                   env=self.environment(KIT_SECONDS="60"),
                                   stdout=subprocess.DEVNULL,
                                   start_new_session=True)
        deadline = time.monotonic() + 60
        while "kit" not in self.ran() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        process.wait()
        for line in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines():
            if f"{self.folder}/build/bin/anyaccel_conformance" in line:  # the part has its own session
                os.kill(int(line.split()[0]), signal.SIGKILL)
        report = json.loads((self.folder / "out/report.json").read_text())
        self.assertEqual({name: part["status"] for name, part in report["parts"].items()}, {"build": "passed"})
        (self.folder / "out/report.json.new").write_text('{"parts": {"bui')
        status, said, report = self.run_tool("--only", "conformance")
        self.assertEqual((status, report["parts"]["conformance"]["status"]), (0, "passed"), said)
        self.assertFalse([line for line in self.ran() if line.startswith("cmake --build")])

    # Fails if a signal leaves a process behind, or the part that it ended counts as finished.
    def test_signal(self):
        (self.folder / "log").write_text("")
        process = subprocess.Popen(self.words("--only", "conformance"),
                                   env=self.environment(KIT_SECONDS="60"),
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE,
                                   text=True)
        deadline = time.monotonic() + 60
        while "kit" not in self.ran() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.terminate()
        said = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("run the same command again", said)
        self.assertNotIn(f"{self.folder}/build/bin", subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout)
        report = json.loads((self.folder / "out/report.json").read_text())
        self.assertEqual({name: part["status"] for name, part in report["parts"].items()}, {"build": "passed"})

    # Fails if a failed case is not reported with the command that reproduces it.
    def test_failed_case(self):
        status, said, report = self.run_tool("--only", "conformance", OUTCOME="failed")
        self.assertEqual((status, report["parts"]["conformance"]["data"]["failed_cases"]), (1, ["memory.peak_resets"]), said)
        page = (self.folder / "out/report.md").read_text()
        self.assertIn("anyaccel_conformance --backend sim --case memory.peak_resets", page)
        self.assertIn("memory.peak_resets", page)

    # Fails if the page loads anything, or text from a part becomes an element.
    def test_html_is_self_contained_and_escaped(self):
        self.run_tool("--only", "conformance", OUTCOME="failed")
        text = (self.folder / "out/report.html").read_text()
        page = Page(text)
        self.assertNotIn("script", page.tags)
        self.assertEqual((page.links, "url(" in text, "@import" in text), ([], False, False))
        self.assertIn("<script>alert('seen')</script> & |", page.text)
        self.assertIn("color-scheme: light dark", text)
        self.assertIn("conformance", page.text)

    # Fails if a check that ends the process is not named.
    def test_crash(self):
        status, said, report = self.run_tool("--only", "op:FusedLionBuilder")
        part = report["parts"]["op:FusedLionBuilder"]
        self.assertEqual((status, part["status"]), (1, "failed"), said)
        self.assertEqual([failure["name"] for failure in part["failures"]], ["lion/17/float32/stream"])
        self.assertIn("-m anyaccel_prove.checks.ops FusedLionBuilder --only lion/17/float32/stream", part["failures"][0]["command"])
        self.assertIn("SIGSEGV", part["log"])

    # Fails if a check that was running when time ran out is reported as a crash.
    def test_time_runs_out_in_a_check(self):
        status, said, report = self.run_tool("--only", "op:FusedLambBuilder", "--minutes", "0.1")
        part = report["parts"]["op:FusedLambBuilder"]
        self.assertEqual((status, part["status"]), (3, "interrupted"), said)
        self.assertEqual([failure["message"] for failure in part["failures"]], ["time ran out during this check"])

    # Fails if compute-sanitizer's findings are lost, or its absence is not explained.
    def test_sanitizer(self):
        reason = self.run_tool("--only", "sanitizer*")[2]["parts"]["sanitizer"]["summary"]
        self.assertIn("CUDA kernels only", reason)
        self.program("bin/compute-sanitizer", SANITIZER)
        status, said, report = self.run_tool("--only", "sanitizer:racecheck:FusedAdamBuilder", backend="cuda")
        part = report["parts"]["sanitizer:racecheck:FusedAdamBuilder"]
        self.assertEqual((status, part["status"]), (1, "failed"), said)
        self.assertIn("Invalid __global__ write", part["log"])
        self.assertIn("--tool racecheck", part["command"])
        self.assertIn("PYTORCH_NO_CUDA_MEMORY_CACHING=1", part["command"])

    # Fails if a part continues after the time limit, or the report does not say that the run must
    # be resumed.
    def test_time_limit(self):
        status, said, report = self.run_tool("--only", "conformance", "--minutes", "0.1", KIT_SECONDS="60")
        self.assertEqual((status, report["parts"]["conformance"]["status"]), (3, "interrupted"), said)
        self.assertIn("run the same command again", said)
        self.assertEqual(self.run_tool("--only", "conformance")[0], 0)

    # Fails if results of an earlier commit are lost or mixed with those of the current commit.
    def test_other_commit(self):
        self.run_tool("--only", "conformance", "--commit", "first")
        _, said, report = self.run_tool("--only", "device", "--commit", "second")
        self.assertNotIn("conformance", report["parts"], said)
        self.assertEqual(report["commit"], "second")
        self.assertIn("conformance", json.loads((self.folder / "out/report-first-sim-minimal.json").read_text())["parts"])

    # Fails if a damaged file stops the command.
    def test_damaged_report(self):
        for text in ("", "{", "[]", '{"parts": 3}'):
            (self.folder / "out").mkdir(exist_ok=True)
            (self.folder / "out/report.json").write_text(text)
            status, said, report = self.run_tool("--only", "device")
            self.assertEqual((status, report["parts"]["device"]["status"]), (0, "passed"), said)

    # Fails if the command needs a home directory, git, or more than the programs that it names.
    def test_without_home_and_git(self):
        (self.folder / "log").write_text("")
        self.program("bin/c++", "#!/bin/sh\n")
        for name in ("sh", "mkdir", "touch", "cp"):
            os.symlink(f"/bin/{name}", self.folder / "bin" / name)
        given = {name: value for name, value in self.environment().items() if name in ("LOG", "BUILD", "KIT", "BROKEN")}
        done = subprocess.run(self.words("--only", "conformance"),
                              env={**given, "PATH": str(self.folder / "bin"), "HOME": "/proc"},
                              capture_output=True,
                              text=True)
        report = json.loads((self.folder / "out/report.json").read_text())
        self.assertEqual((done.returncode, report["commit"]), (0, "unknown"), done.stdout + done.stderr)
        self.assertIn("-G Unix Makefiles", self.ran()[[line.startswith("cmake --preset") for line in self.ran()].index(True)])
        self.assertIn(f"XDG_CACHE_HOME={self.folder}/build/cache/xdg", report["parts"]["conformance"]["command"])

    # Fails if an unwritable folder or a wrong option gives a traceback, or a pattern without parts
    # passes.
    def test_invalid_use(self):
        for options, code, text in ((("--out", "/proc/report"), 1, "cannot write"),
                                    (("--only", "nothing"), 2, "no part matches 'nothing'"), (("--minutes", "0"), 2,
                                                                                              "--minutes is out of range")):
            status, said, _ = self.run_tool(*options)
            self.assertEqual((status, "Traceback" in said), (code, False), said)
            self.assertIn(text, said)
        status, said, report = self.run_tool("--only", "device", NO_TORCH="1")
        self.assertEqual((status, report), (1, None), said)
        self.assertIn("torch-python cannot import torch. Pass an interpreter with torch: --python FILE.", said)

    # Fails if a full build is tested with the programs of a minimal one.
    def test_full_build(self):
        self.program("kit", "#!/bin/sh\nexit 1\n")
        parts = self.run_tool("--only", "[cm]o*", "--preset", "release")[2]["parts"]
        self.assertIn(f"{self.folder}/build/bin/anyaccel conformance --backend sim", parts["conformance"]["command"])
        self.assertIn(f"checks.program {self.folder}/build/bin/anyaccel ", parts["models:program"]["command"])
        parts = self.run_tool("--only", "models:program")[2]["parts"]
        self.assertIn("--preset release", parts["models:program"]["summary"])

    # Fails if an op or a GPU benchmark is not a separate part.
    def test_parts(self):
        parts = self.run_tool("--list", backend="cuda")[1].split()
        for name in ("build", "device", "peaks", "conformance", "op:FusedAdamBuilder", "op:DecoderInferenceBuilder", "models:train",
                     "models:generate", "bench:kernels", "bench:layers_cuda", "bench:inference_cuda", "tests:decoder_cuda"):
            self.assertIn(name, parts)
        self.assertLess(parts.index("peaks"), parts.index("build"))  # the peaks need only torch

    # Fails if an interpreter with a relative path is not found, or if a link is resolved, which
    # would leave the virtual environment.
    def test_relative_interpreter(self):
        (self.folder / "log").write_text("")
        os.symlink("torch-python", self.folder / "bin/linked")
        done = subprocess.run([*self.words("--only", "device"), "--python", "bin/linked"],
                              cwd=self.folder,
                              env=self.environment(),
                              capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads((self.folder / "out/report.json").read_text())
        self.assertIn(f"{self.folder}/bin/linked -c", report["parts"]["device"]["command"])


if __name__ == "__main__":
    unittest.main()
