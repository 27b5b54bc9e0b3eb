"""tools/check_examples on pages that the tests write: which blocks run, which outputs are compared,
and which pages are rejected.
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_examples"


def load_tool():
    loader = importlib.machinery.SourceFileLoader("check_examples", str(TOOL))
    spec = importlib.util.spec_from_loader("check_examples", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


tool = load_tool()


class Reading(unittest.TestCase):

    # Fails if a block is not found, or has the wrong kind, text or line.
    def test_kinds_of_blocks(self):
        blocks, errors = tool.read_page("# Page\n\n```sh\nls\n```\n\n<!-- output -->\n```text\na\n```\n\n<!-- file: x.py -->\n```python\nprint()\n```\n"
                                        "<!-- exit: 3 -->\n```sh\nexit 3\n```\n<!-- not run: needs a GPU -->\n```sh\nnvidia-smi\n```\n"
                                        "<!-- copy: README.md as r.md -->\n<!-- output, numbers vary -->\n```text\n1\n```\n<!-- output varies -->\n```\nb\n```\n")
        self.assertEqual(errors, [])
        self.assertEqual([(b.kind, b.text, b.file, b.status) for b in blocks], [
            ("run", "ls\n", None, 0), ("output", "a\n", None, 0), ("file", "print()\n", "x.py", 0), ("run", "exit 3\n", None, 3),
            ("copy", "README.md", "r.md", 0), ("numbers", "1\n", None, 0)])
        self.assertEqual(blocks[0].line, 3)

    # Fails if a block that is never run is accepted, or if a misspelled comment for the tool is
    # accepted.
    def test_invalid_pages(self):
        for page, words in (("```python\nx\n```\n", "no comment"), ("<!-- output -->\n```text\na\n```\n", "without commands"),
                            ("<!-- ouput -->\n```sh\nls\n```\n", "unknown comment"), ("<!-- output -->\n\nText.\n", "no code block follows")):
            _, errors = tool.read_page(page)
            self.assertEqual(len(errors), 1, page)
            self.assertIn(words, errors[0][1])

    # Fails if a block cannot be both a copy of a file in the tree and written to a file for the
    # page's commands.
    def test_file_from_the_tree(self):
        blocks, errors = tool.read_page("<!-- file: main.cpp -->\n<!-- from: examples/a/main.cpp -->\n```cpp\nint x;\n```\n")
        self.assertEqual((errors, blocks[0].kind, blocks[0].file), ([], "file", "main.cpp"))


class Comparing(unittest.TestCase):

    # Fails if different output is accepted, or equal output is rejected.
    def test_output(self):
        self.assertTrue(tool.same("a\nb\n", "a \nb\n\n", False))
        self.assertFalse(tool.same("a\n", "a\nb\n", False))
        self.assertFalse(tool.same("a\n", "b\n", False))

    # Fails if "..." matches too little or too much output.
    def test_dots(self):
        self.assertTrue(tool.same("a ... z\n", "a b c z\n", False))
        self.assertFalse(tool.same("a ... z\n", "a b\nc z\n", False))
        self.assertTrue(tool.same("...\nz\n", "a\nb\nz\n", False))
        self.assertTrue(tool.same("a\n...\n", "a\nb\nc\n", False))
        self.assertTrue(tool.same("a\n...\n", "a\n", False))
        self.assertFalse(tool.same("...\nz\n", "a\nz\nb\n", False))

    # Fails if different numbers are rejected where numbers can vary, or other differences are
    # accepted.
    def test_numbers(self):
        self.assertTrue(tool.same("took 1.5 s, 3 left\n", "took 22 s, 14.25 left\n", True))
        self.assertFalse(tool.same("took 1.5 s\n", "took 1.5 m\n", True))
        self.assertFalse(tool.same("took 1 s\n", "took 2 s\n", False))


class Running(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "prefix/bin").mkdir(parents=True)
        program = self.folder / "prefix/bin/anyaccel"
        program.write_text("#!/bin/sh\necho this is anyaccel\n")
        program.chmod(0o755)

    def run_page(self, text, **environment):
        page = self.folder / "page.md"
        page.write_text(text)
        done = subprocess.run([sys.executable, "-B", TOOL, "--prefix", self.folder / "prefix", "--python", "", page], capture_output=True,
                              text=True, env={**os.environ, **environment})
        return done.returncode, done.stdout + done.stderr

    # Fails if the blocks of a page do not share one shell, one folder, the page's files and the
    # installation.
    def test_blocks_share_a_shell(self):
        status, output = self.run_page("```sh\nmkdir a && cd a\nname=value\n```\n<!-- file: f -->\n```text\nfrom a file\n```\n"
                                       "```sh\ncat f; echo $name; anyaccel; ls -d $HOME/.local/bin | sed 's/.*home/home/'; echo \"[$SIM_CHECK]\"\n```\n"
                                       "<!-- output -->\n```text\nfrom a file\nvalue\nthis is anyaccel\nhome/.local/bin\n[]\n```\n", SIM_CHECK="abort")
        self.assertEqual(status, 0, output)
        self.assertIn("1 passed, 0 failed", output)

    # Fails if a failed command, or output that differs from the page, is accepted.
    def test_failures(self):
        for text, words in (("```sh\nfalse\ntrue\n```\n", "page.md:1: the commands failed"), ("<!-- exit: 1 -->\n```sh\ntrue\n```\n", "expected exit status 1"),
                            ("```sh\necho a\n```\n<!-- output -->\n```text\nb\n```\n", "differs from the page"),
                            ("```sh\nexit 0\n```\n```sh\necho never\n```\n", "the commands failed")):
            status, output = self.run_page(text)
            self.assertEqual(status, 1, text + output)
            self.assertIn(words, output)

    # Fails if commands run without the module that they need, or are skipped although it is
    # installed.
    def test_needs_a_module(self):
        page = "```sh\ntrue\n```\n\n<!-- needs: MODULE -->\n```sh\nfalse\n```\n"
        status, output = self.run_page(page.replace("MODULE", "no_such_module"))
        self.assertEqual(status, 0, output)
        self.assertIn("without the part that needs the module no_such_module", output)
        status, output = self.run_page(page.replace("MODULE", "json"))
        self.assertEqual(status, 1, output)
        self.assertNotIn("needs the module", output)

    # Fails if a command with an expected failure fails the page.
    def test_expected_exit_status(self):
        status, output = self.run_page("<!-- exit: 3 -->\n```sh\necho a; (exit 3)\n```\n<!-- output -->\n```text\na\n```\n")
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()
