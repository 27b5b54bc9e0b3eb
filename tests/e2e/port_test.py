"""`anyaccel port`, as users run it: the program, the Python package and, for --verify, the simulator.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from shell import libtorch_accelerator, shell

PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]
TRAIN = """\
import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.arange(32.0).reshape(4, 8) / 32
for step in range(3):
    loss = model(data.to("cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.6f}")
torch.cuda.synchronize()
"""


def has(*modules):
    code = f"import importlib.util, sys; sys.exit(any(importlib.util.find_spec(name) is None for name in {modules!r}))"
    return subprocess.run([PYTHON, "-c", code], capture_output=True).returncode == 0


def port(line, folder, **variables):
    return shell(f"anyaccel port {line}", cwd=folder, ANYACCEL_PYTHON=PYTHON, **variables)


class Port(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").write_text(TRAIN)

    # Fails if the package is not found, or if modules of the examined folder are imported.
    def test_help_and_usage(self):
        (self.folder / "anyaccel_port.py").write_text("raise SystemExit('imported the examined program')\n")
        (self.folder / "argparse.py").write_text("raise SystemExit('imported the examined program')\n")
        result = port("--help", self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--unsafe-fixes", result.stdout)
        result = port("--nonsense .", self.folder)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("unrecognized arguments: --nonsense", result.stderr)
        result = shell("anyaccel port .", cwd=self.folder, ANYACCEL_PYTHON="/nonexistent/python")
        self.assertEqual(result.returncode, 1)
        self.assertIn("ANYACCEL_PYTHON", result.stderr)

    # Fails if a missing parser has no clear message.
    def test_without_the_parsers(self):
        result = port("--check .", self.folder, PYTHONPATH=str(self.blocked("libcst")))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("libcst is not installed. Run: pip install 'anyaccel[port]'", result.stderr)

    def blocked(self, module):
        """A folder whose sitecustomize hides a module."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        (path / "sitecustomize.py").write_text(
            "import sys\n\nclass Hide:\n    def find_spec(self, name, path=None, target=None):\n"
            f"        if name.split('.')[0] == {module!r}:\n"
            "            raise ModuleNotFoundError('No module named ' + name, name=name)\n\n"
            "sys.meta_path.insert(0, Hide())\n")
        return path

    # Fails if --fix leaves a finding that it can fix, or if the result differs between two runs.
    @unittest.skipUnless(has("libcst"), "libcst is not installed")
    def test_fix(self):
        result = port("--format json .", self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)["findings"]
        self.assertGreaterEqual(len(found), 3)
        self.assertEqual(port("--check .", self.folder).returncode, 1)
        self.assertEqual(port("--fix --check .", self.folder).returncode, 0)
        text = (self.folder / "train.py").read_text()
        self.assertIn("from anyaccel import get_accelerator", text)
        self.assertNotIn("cuda", text)
        self.assertEqual(port("--fix .", self.folder).returncode, 0)
        self.assertEqual((self.folder / "train.py").read_text(), text)

    # Fails if the ported program's losses differ from those on the simulated CUDA device, or if a
    # program whose results change with the fix passes.
    @unittest.skipUnless(has("libcst", "torch"), "libcst or torch is not installed")
    def test_verify(self):
        if accelerator := libtorch_accelerator():
            self.skipTest(f"the simulator cannot stand in for cuda: LibTorch is built for {accelerator}")
        command = f"anyaccel port --verify '{PYTHON} train.py' --format json ."
        result = shell(command, cwd=self.folder, ANYACCEL_PYTHON=PYTHON)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual((report["same"], report["numbers"], report["problems"]), (True, 6, []))
        self.assertEqual((self.folder / "train.py").read_text(), TRAIN)
        # The length of the device's name differs: cuda:0, sim:0.
        (self.folder / "train.py").write_text(TRAIN + 'print("length", len(str(data.to(device).device)))\n')
        result = shell(command, cwd=self.folder, ANYACCEL_PYTHON=PYTHON)
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("length 6", [each["before"] for each in report["differences"]])


if __name__ == "__main__":
    unittest.main()
