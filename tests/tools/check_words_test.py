"""tools/check_words on small trees with one problem each."""
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/check_words"
LONG = "a line of text that " + "goes on " * 12


class CheckWords(unittest.TestCase):

    def run_tool(self, files, *options):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(ROOT / "tools/words", folder / "tools/words")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if "--spelling" not in options:
            options = ("--no-spelling", *options)
        result = subprocess.run([sys.executable, TOOL, "--root", folder, *(o for o in options if o != "--spelling")],
                                capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def found(self, name, text, line, words):
        status, output = self.run_tool({name: text})
        self.assertEqual(status, 1, output)
        self.assertIn(f"{name}:{line}: ", output)
        self.assertIn(words, output)

    def clean(self, name, text):
        status, output = self.run_tool({name: text})
        self.assertEqual(status, 0, output)

    # Fails if a comment is not read, or a comment that spans two lines is not read as one text.
    def test_comments(self):
        self.found("a.cpp", "int a;\n// A number that is\n// no multiple of four.\n", 2, "'is no multiple'")
        self.found("a.h", "/* The file\n   beside it. */\n", 2, "'beside'")
        self.found("a.py", "x = 1\n# The file beside it.\n", 2, "'beside'")
        self.found("a.cmake", "# The file beside it.\nset(a b)\n", 1, "'beside'")
        self.found("run", "#!/usr/bin/env bash\n# The file beside it.\n", 2, "'beside'")

    # Fails if messages, help or docstrings are not read.
    def test_strings(self):
        self.found("a.cpp", 'fail("the file beside it is missing");\n', 1, "'beside'")
        self.found("a.py", 'def f():\n    """Return the file beside it."""\n', 2, "'beside'")

    # Fails if code, data or identifiers are treated as prose.
    def test_code_is_not_prose(self):
        self.clean("a.cpp", 'int beside = 1;\nauto b = "beside";\nauto c = R"(the file beside it is here)";\n// Calls `beside`.\n')
        self.clean("a.md", "Text.\n\n```text\nthe file beside it\n```\n\nThe `beside` option.\n")

    # Fails if a question, or "there is no", is reported as unidiomatic.
    def test_idiomatic_sentences(self):
        self.clean("a.md", "What is a stream? There is no such file. Return what the file contains.\n")

    # Fails if a sentence that begins with a relative clause as its subject is accepted.
    def test_subject_clauses(self):
        self.found("a.md", "Text.\n\nWhat is missing is rejected.\n", 3, "begin with the subject")
        self.found("a.md", "Nothing that fails is repeated.\n", 1, "name the subject")

    # Fails if overlong lines are accepted, or if code, tables or links in documents count as
    # overlong.
    def test_columns(self):
        self.found("a.md", LONG + "\n", 1, "at most 100")
        self.found("a.cpp", "// " + LONG + "\n", 1, "at most 100")
        self.found("a.cpp", "int a = " + "1 + " * 30 + "1;\n", 1, "at most 100")
        self.found("a.py", "# " + LONG + "\n", 1, "at most 100")
        self.clean("a.md", f"| {LONG} |\n\n[{LONG}](a.md)\n\n```text\n{LONG}\n```\n")
        self.clean("a.cpp", f'// Text.\nauto a = R"({LONG}\n{LONG})";\n')

    # Fails if test data or the list of patterns, which contains bad examples, is checked.
    def test_exemptions(self):
        self.clean("tests/data/a.md", "What is missing is rejected.\n")
        self.assertIn("beside", (ROOT / "tools/words/avoid.tsv").read_text())

    # Fails if an invalid list of patterns is accepted: each pattern needs an example that it
    # matches.
    def test_broken_list(self):
        for line, words in (("\\bfoo\\b\tbar\n", "expected three fields"), ("\\bfoo\\b\tbar\tbaz\n", "does not match its example")):
            status, output = self.run_tool({"tools/words/avoid.tsv": line, "a.md": "Text.\n"})
            self.assertEqual(status, 1)
            self.assertIn(words, output)

    # Fails if misspelled words are accepted, or the dictionary is ignored. A missing codespell must
    # be an error.
    def test_spelling(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        program = ".venv/bin/codespell"
        stand_in = ('#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = --ignore-words ] && words=$2; shift; done\n'
                    'grep -q teh "$words" && exit 0\ngrep -n teh "$1" >/dev/null && { echo "./$1:1: teh ==> the"; exit 65; }\nexit 0\n')

        def run(files):
            root = pathlib.Path(tempfile.mkdtemp(dir=folder))
            shutil.copytree(ROOT / "tools/words", root / "tools/words")
            for name, text in {program: stand_in, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            (root / program).chmod((root / program).stat().st_mode | stat.S_IXUSR)
            done = subprocess.run([sys.executable, TOOL, "--root", root, "a.md"], capture_output=True, text=True)
            return done.returncode, done.stdout

        self.assertEqual(run({"a.md": "Reads teh file.\n"})[0], 1)
        self.assertIn("a.md:1: spelling: teh ==> the", run({"a.md": "Reads teh file.\n"})[1])
        self.assertEqual(run({"a.md": "Reads teh file.\n", "tools/words/dictionary.txt": "teh\n"})[0], 0)
        if not shutil.which("codespell"):
            self.assertEqual(self.run_tool({"a.md": "Reads the file.\n"}, "--spelling")[0], 77)


if __name__ == "__main__":
    unittest.main()
