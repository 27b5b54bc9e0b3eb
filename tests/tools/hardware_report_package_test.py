"""Tests of the package anyaccel_prove, which tools/hardware_report runs, without running parts."""
import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import unittest.mock

from program_folder import ProgramFolder

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))

from anyaccel_prove import __main__ as command  # noqa: E402
from anyaccel_prove import execute, facts, options, record  # noqa: E402


class Package(ProgramFolder):
    # Fails if a report starts a new folder on the next day, or continues another device's.
    def test_default_folder(self):
        facts = {"date": "2026-02-01", "device": "NVIDIA H100 80GB"}
        old = self.folder / "docs/hardware/2026-01-31-nvidia-h100-80gb"
        self.assertEqual(command.default_folder(self.folder, "cuda", facts, "abc"), old.with_name("2026-02-01-nvidia-h100-80gb"))
        old.mkdir(parents=True)
        (old / "report.json").write_text(json.dumps({"commit": "abc", "backend": "cuda"}))
        self.assertEqual(command.default_folder(self.folder, "cuda", facts, "abc"), old)
        self.assertNotEqual(command.default_folder(self.folder, "cuda", facts, "other"), old)
        self.assertNotEqual(command.default_folder(self.folder, "cuda", {**facts, "device": "NVIDIA A100"}, "abc"), old)
        self.assertEqual(command.default_folder(self.folder, "sim", facts, "abc"), self.folder / "build/hardware-report/sim")

    # Fails if results from before an upgrade, or from another machine, count as those of this one.
    def test_other_version_or_machine(self):
        found = {"AnyAccel": "1.0", "torch": "2.13.0", "CUDA of torch": "13.0", "device": "A", "devices": 1, "driver": "580"}
        head = {"commit": "unknown", "backend": "cuda", "build": "installed", "facts": found}
        out = self.folder / "out"
        record.Report(out, head, ["device"]).save("device", {"status": "passed", "seconds": 0, "command": "", "log": ""})
        self.assertEqual(record.Report(out, {**head, "facts": {**found, "date": "later"}}, ["device"]).status("device"), "passed")
        for name in found:
            shutil.copytree(out, self.folder / name)
            report = record.Report(self.folder / name, {**head, "facts": {**found, name: "other"}}, ["device"])
            self.assertEqual((name, report.status("device")), (name, None))

    # Fails if an earlier report is overwritten: one of another build, or the second of the same.
    def test_kept_reports(self):
        kept = []
        for number, build in enumerate(("minimal", "release", "minimal", "release", "minimal")):
            head = {"commit": "a/b", "backend": "sim", "build": build, "facts": {}, "number": number}
            kept.append(record.Report(self.folder / "out", head, []).kept)
        self.assertEqual([path.name for path in kept[1:]], [
            "report-a-b-sim-minimal.json", "report-a-b-sim-release.json", "report-a-b-sim-minimal-2.json",
            "report-a-b-sim-release-2.json"
        ])
        self.assertEqual([json.loads(path.read_text())["number"] for path in kept[1:]], [0, 1, 2, 3])

    # Fails if edits of a tree with changes do not change the name of its state, or reports do.
    @unittest.skipUnless(shutil.which("git"), "requires git")
    def test_commit_of_a_tree_with_changes(self):
        tree = self.folder / "tree"
        (tree / "docs/hardware").mkdir(parents=True)
        (tree / "file").write_text("one")
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"]):
            subprocess.run(["git", "-C", tree, *words], check=True)
        clean = facts.commit_of(tree)
        self.assertRegex(clean, r"^[0-9a-f]{12}$")
        (tree / "docs/hardware/report.json").write_text("{}")
        self.assertEqual(facts.commit_of(tree), clean)
        names = [clean]
        for file, text in (("file", "two"), ("file", "three"), ("new", "one"), ("new", "two")):
            (tree / file).write_text(text)
            names.append(facts.commit_of(tree))
        self.assertEqual(len(set(names)), 5, names)
        self.assertTrue(all(name.startswith(f"{clean}-dirty-") for name in names[1:]), names)

    # Fails if other output, or a failure after torch is imported, reads as "cannot import torch".
    def test_torch_facts(self):
        for name, script, version in (("noisy", "echo 'a warning'; echo '{\"torch\": \"2.12.0\"}'; echo bye", "2.12.0"),
                                      ("crashes", "echo '{\"torch\": \"2.12.0\"}'; kill -SEGV $$", "2.12.0"),
                                      ("without", "echo '{\"other\": 1}'; exit 1", None)):
            self.program(f"bin/{name}", f"#!/bin/sh\n{script}\n")
            self.assertEqual(facts.torch_facts(str(self.folder / "bin" / name)).get("torch"), version, name)

    # Fails if one failed device query hides the other facts.
    def test_facts_of_a_device_with_a_failing_query(self):
        (self.folder / "torch.py").write_text("""
from types import SimpleNamespace as N
__version__, version = "2.13.0", N(cuda=None)
accelerator = N(current_accelerator=lambda: N(type="npu"), is_available=lambda: True)
def fail(i):
    raise RuntimeError("no properties")
get_device_module = lambda kind: N(device_count=lambda: 2, get_device_name=lambda i: f"card {i}", get_device_properties=fail)
""")
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=str(self.folder)):
            facts.torch_facts.cache_clear()
            found = facts.torch_facts(sys.executable)
            facts.torch_facts.cache_clear()
        self.assertEqual(found, {"torch": "2.13.0", "cuda": "", "accelerator": "npu", "devices": ["card 0", "card 1"]})

    # Fails if the default is not this machine's accelerator.
    def test_default_backend(self):
        self.program("bin/xpu", "#!/bin/sh\necho '{\"torch\": \"2.13.0\", \"accelerator\": \"xpu\"}'\n")
        for variables, words, want in (({}, ["--python", str(self.folder / "bin/xpu")], "xpu"),
                                       ({"DS_ACCELERATOR": "npu"}, ["--python", str(self.folder / "bin/xpu")], "npu"),
                                       ({}, ["--python", str(self.folder / "bin/none")], "cuda")):
            with unittest.mock.patch.dict(os.environ, variables):
                if not variables:
                    os.environ.pop("DS_ACCELERATOR", None)
                self.assertEqual(options.parse(words, ROOT, None).backend, want)

    # Fails if a signal that arrives just after a part has ended raises an exception.
    def test_stop_after_a_process_has_ended(self):
        running = execute.Processes()
        process = running.start(["true"])
        process.wait()
        running.kill(process)
        running.stop()
        self.assertTrue(running.stopped)

    # Fails if a file does not parse with the oldest supported Python.
    def test_syntax(self):
        files = [
            ROOT / "tools/hardware_report", *(ROOT / "bindings/python/anyaccel_prove").rglob("*.py"),
            *(ROOT / "benchmarks/runner").glob("*.py"), *(ROOT / "benchmarks").glob("*_cuda*.py"), ROOT / "benchmarks/on_device.py"
        ]
        self.assertGreater(len(files), 25)
        for file in files:
            ast.parse(file.read_text(), file.name, feature_version=(3, 10))


if __name__ == "__main__":
    unittest.main()
