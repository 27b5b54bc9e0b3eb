"""Options for a model that trains in a second, and a training text for the model."""
import os
import tempfile
import unittest

SMALL = "--context 32 --hidden 32 --intermediate 48 --layers 2 --heads 2 --kv-heads 2 --head-dim 16 --lr 1e-2"


class SmallModelTest(unittest.TestCase):
    """Base class for tests that need a text file, `self.data`, in a temporary folder, `self.folder`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.data = os.path.join(self.folder, "text.txt")
        with open(self.data, "w", encoding="utf-8") as file:
            file.write("".join(f"line {i} of a text that repeats itself\n" for i in range(400)))
