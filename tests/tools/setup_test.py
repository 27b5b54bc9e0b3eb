"""tools/setup: which torch it selects, and the message before a download. Nothing is installed: pip
has no index, and apt-get is unavailable.
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def put_torch(environment, version):
    """In a virtual environment, create the torch files that setup reads. Return torch's folder."""
    site = next((environment / "lib").glob("python*/site-packages"))
    (site / "torch/include/ATen").mkdir(parents=True)
    (site / "torch/share/cmake/Torch").mkdir(parents=True)
    (site / "torch/__init__.py").touch()
    (site / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    (site / f"torch-{version}.dist-info").mkdir()
    (site / f"torch-{version}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return str(site / "torch")


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        shutil.copytree(ROOT / "tools", self.folder / "tree/tools")
        (self.folder / "bin").mkdir()
        for name in ("apt-get", "sudo"):
            (self.folder / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
            (self.folder / "bin" / name).chmod(0o755)

    def python(self, name, version=None):
        """Create a virtual environment, optionally with torch. Return torch's folder."""
        environment = self.folder / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        return put_torch(environment, version) if version else None

    def setup(self, name, options=("--no-tests",)):
        """Run setup with this environment's Python first in PATH. Return (exit status, output,
        selected torch).
        """
        variables = {key: value for key, value in os.environ.items()
                     if not key.startswith(("PIP_", "ANYACCEL_", "PYTHON")) and key not in ("Torch_DIR", "VIRTUAL_ENV")}
        variables |= {"PATH": f"{self.folder}/{name}/bin:{self.folder}/bin:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
        done = subprocess.run([self.folder / "tree/tools/setup", *options], env=variables, capture_output=True, text=True, timeout=200)
        answer = self.folder / "tree/.cache/setup/torch_dir"
        chosen = answer.read_text().strip().removesuffix("/share/cmake/Torch") if answer.exists() else None
        return done.returncode, done.stdout + done.stderr, chosen

    # Fails if the torch of the user's python3 is not used, or the selection of an earlier run is
    # kept instead.
    def test_uses_the_torch_of_python3(self):
        first, second = self.python("first", "2.11.0+cu130"), self.python("second", "2.12.1")
        for name, folder in (("first", first), ("second", second), ("first", first)):
            status, said, chosen = self.setup(name)
            self.assertEqual((status, chosen), (0, folder), said)
            self.assertIn(f"LibTorch: {folder}", said)
            seen = subprocess.run([self.folder / "tree/.venv/bin/python3", "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True)
            self.assertEqual(seen.stdout.strip(), folder, seen.stderr)
        # A torch that an earlier setup installed is still used, and the tool says so.
        own = put_torch(self.folder / "tree/.venv", "2.13.0")
        (self.folder / "tree/.cache/setup/torch").unlink()
        status, said, chosen = self.setup("second")
        self.assertEqual((status, chosen), (0, own), said)
        self.assertIn(f"not used: {second}", said)

    # Fails if the modules in .venv are not compiled for the tests.
    def test_compiles_modules(self):
        self.python("plain")
        own = self.python("tree/.venv", "2.13.0")
        status, said, chosen = self.setup("plain", [])
        self.assertEqual((status, chosen), (0, own), said)
        self.assertEqual(len(list(pathlib.Path(own).glob("__pycache__/__init__.*.pyc"))), 1, said)

    # Fails if a download starts before its size is printed, or an unsuitable torch is skipped
    # without a message.
    def test_prints_the_size_before_a_download(self):
        self.python("old", "2.10.0")
        status, said, chosen = self.setup("old")
        self.assertEqual((status, chosen), (1, None), said)
        self.assertIn("not used: torch 2.10.0", said)
        self.assertIn("expected 2.11 to 2.13", said)
        self.assertRegex(said, r"(?s)about \d+ MB.* GB.*pip could not (download|install) torch")


if __name__ == "__main__":
    if importlib.util.find_spec("ensurepip") is None:
        print("SKIP: this Python cannot create virtual environments with pip, because ensurepip is missing")
        sys.exit(77)
    unittest.main()
