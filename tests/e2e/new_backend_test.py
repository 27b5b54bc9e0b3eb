"""Tests of `anyaccel new-backend`: rejected names and folders, and protection of existing files.
plugin_test.py builds the generated project.
"""
import os
import pathlib
import shutil
import tempfile
import unittest

from shell import shell


class NewBackend(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def refused(self, line, words, status=1):
        before = sorted(self.folder.rglob("*"))
        done = shell(f"anyaccel new-backend {line}", cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    # Fails if the project is incomplete or in another folder, or if the command loads LibTorch.
    def test_writes_a_project(self):
        done = shell("anyaccel new-backend mycard 'new folder/project/' && LD_DEBUG=libs anyaccel new-backend yours here 2>&1 | "
                     "grep -c libtorch", cwd=self.folder)
        self.assertEqual((done.stderr, done.stdout.splitlines()[-1]), ("", "0"))
        # The program runs from the build folder, so it cannot know the prefix.
        self.assertIn("-DCMAKE_PREFIX_PATH=PREFIX_OF_ANYACCEL\n", done.stdout)
        project = self.folder / "new folder/project"
        self.assertIn("anyaccel_add_plugin(mycard", (project / "CMakeLists.txt").read_text())
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["here", "new folder"])
        self.assertEqual([p.name for p in project.parent.iterdir()], ["project"])

    # Fails if an empty folder is rejected, or if an existing file is overwritten.
    def test_folders(self):
        (self.folder / "empty").mkdir()
        done = shell("cd empty && anyaccel new-backend mycard . && ls", cwd=self.folder)
        self.assertIn("CMakeLists.txt", done.stdout, done.stderr)
        self.refused("mycard empty", "the folder is not empty")
        (self.folder / "file").write_text("mine")
        self.refused("mycard file", "exists but is not a folder")
        self.refused("mycard file/under", "cannot be written")
        os.symlink("nowhere", self.folder / "link")
        self.refused("mycard link", "exists but is not a folder")
        self.assertEqual((self.folder / "file").read_text(), "mine")

    # Fails if a name is accepted that AnyAccel, torch, C++ or CMake cannot use.
    def test_names(self):
        for name in ("Card", "card2", "my-card", "a", "_card", "card_", "my__card", "../x", "x" * 33):
            self.refused(f"'{name}' new", "not a valid backend name")
        for name in ("cuda", "sim", "meta", "auto", "opencl"):
            self.refused(f"{name} new", "reserved by AnyAccel or torch")
            self.refused(f"{name} new", f"want another name, for example my_{name}")

    # Fails if an invalid command line does not give an error and exit code 2.
    def test_usage(self):
        self.refused("mycard", "DIR is required", status=2)
        self.refused("mycard new more", "more", status=2)
        self.refused("mycard new --force", 'unknown option "--force"', status=2)
        done = shell("anyaccel new_backend --help && anyaccel help new-backend")
        self.assertEqual((done.returncode, done.stdout.count("Usage: anyaccel new-backend [OPTIONS] NAME DIR")), (0, 2))


if __name__ == "__main__":
    unittest.main()
