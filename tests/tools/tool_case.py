"""Base class for tests that run a tool on a modified copy of its input files."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ToolCase(unittest.TestCase):
    """A subclass sets TOOL, and COPIES, the files or folders to copy. `self.root` is the folder
    with the copies.
    """

    TOOL = ""
    COPIES = ()

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for name in self.COPIES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, self.root / name)

    def run_tool(self, *options, root=None):
        """Return (exit status, output)."""
        done = subprocess.run([sys.executable, "-B", ROOT / self.TOOL, "--root", root or self.root, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def change(self, name, pattern, replacement):
        """Replace the first match of a regular expression in a file."""
        path = self.root / name
        text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.M)
        self.assertEqual(count, 1, pattern)
        path.write_text(text)
