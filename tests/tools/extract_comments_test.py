"""tools/extract_comments on headers that the tests write."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

HEADER = """// Copyright 2020 Somebody. All rights are reserved here.
#pragma once

/// Returns the number of elements, which
/// may be zero. Throws if the tensor is not
/// defined.
///
/// \\param x The tensor to look at.
/// ```
/// This Is Code that must not be taken.
/// ```
int numel(int x);  // Trailing comments are not taken, as they are fragments
// std::vector<int> old = f(x);
// Check that the sizes agree.
// - The first item of a list
// - A second item of a list
void list();
//! Check that the sizes agree.
void check();
// too short
// Uses the identifier AVeryLongIdentifierThatNobodyCouldReadAtOnce here.
"""


def run(*arguments):
    return subprocess.run([sys.executable, "-B", ROOT / "tools/extract_comments", *arguments], capture_output=True, text=True)


class ExtractCommentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        path = self.folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    # Fails if wrapped lines are not joined, or sentences are not separated. Code, copyright
    # notices, fragments and repetitions must be omitted.
    def test_sentences(self):
        self.write("a/one.h", HEADER)
        self.write("two.hpp", "// Check that the sizes agree.\n// A sentence of its own here.\n")
        self.write("three.cpp", "// This file is not a header at all.\n")
        done = run(self.folder / "include", self.folder / "out")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^\d+ sentences of 2 headers, 0\.0 MB\n$")
        texts = [path.read_text().splitlines() for path in sorted((self.folder / "out").iterdir())]
        self.assertEqual(texts, [["/// Returns the number of elements, which may be zero.", "/// Throws if the tensor is not defined.",
                                  "// Check that the sizes agree.", "// The first item of a list", "// A second item of a list"],
                                 ["// A sentence of its own here."]])

    # Fails if files of an earlier run remain, because `train` would read them, too.
    def test_replaces_earlier_files(self):
        self.write("one.h", "// A sentence of its own here.\n")
        (self.folder / "out").mkdir()
        (self.folder / "out/00007.txt").write_text("old\n")
        self.assertEqual(run(self.folder / "include", self.folder / "out").returncode, 0)
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], ["00000.txt"])

    # Fails if files that the tool did not write are deleted.
    def test_keeps_other_files(self):
        self.write("one.h", "// A sentence of its own here.\n")
        (self.folder / "out").mkdir()
        for name in ("00001.txt", "notes.txt"):
            (self.folder / "out" / name).write_text("mine\n")
        done = run(self.folder / "include", self.folder / "out")
        self.assertEqual(done.returncode, 2)
        self.assertIn("contains 'notes.txt'", done.stderr)
        self.assertEqual({path.read_text() for path in (self.folder / "out").iterdir()}, {"mine\n"})
        self.assertEqual(len(list((self.folder / "out").iterdir())), 2)

    # Fails if a missing folder, or a folder without comments, returns success.
    def test_without_comments(self):
        self.write("one.h", "int x;\n")
        done = run(self.folder / "include", self.folder / "out")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no comments in", done.stderr)
        done = run(self.folder / "nowhere", self.folder / "out")
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not a folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
