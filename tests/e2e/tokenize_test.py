"""Tests that `anyaccel tokenize` gives the same ids and texts as the `tokenizers` library for
tokenizers of all kinds.
"""
import json
import os
import sys
import tempfile
import unittest

from shell import shell

try:
    import tokenizer_kinds as kinds
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

# Lines per kind, more than 100 000 in total.
LINES = 10000


class Tokenize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
        return path

    def tokenize(self, options):
        done = shell(f"anyaccel tokenize --model {self.folder} --json {options} > {self.folder}/out")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder, "out"), encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]

    def test_every_kind(self):
        # Fails if ids or texts differ from those of the `tokenizers` library.
        text = kinds.lines(LINES)
        training = kinds.training_text()
        for kind in kinds.KINDS:
            with self.subTest(kind=kind.__name__):
                kind(training).save(os.path.join(self.folder, "tokenizer.json"))
                theirs = kinds.Tokenizer.from_file(os.path.join(self.folder, "tokenizer.json"))
                want = [encoding.ids for encoding in theirs.encode_batch(text)]
                got = self.tokenize(f"--file {self.write('text', text)}")
                self.assertEqual(len(got), len(want))
                differ = [(line, g, w) for line, g, w in zip(text, got, want) if g != w]
                self.assertEqual(differ[:3], [], f"{len(differ)} lines of {len(text)}")
                ids = self.write("ids", [" ".join(map(str, one)) for one in want])
                want_text = theirs.decode_batch(want)
                got_text = self.tokenize(f"--decode --file {ids}")
                differ = [(w, g) for g, w in zip(got_text, want_text) if g != w]
                self.assertEqual(differ[:3], [], f"{len(differ)} texts of {len(text)}")

    def test_options(self):
        # Fails if an option is ignored.
        kinds.llama3(kinds.PROSE).save(os.path.join(self.folder, "tokenizer.json"))
        [framed] = self.tokenize("--text 'x <s>'")
        [bare] = self.tokenize("--no-special-tokens --text 'x <s>'")
        self.assertEqual(framed[1:], bare)
        self.assertEqual(self.tokenize(f"--decode --text '{framed}'"), ["x "])
        self.assertEqual(self.tokenize(f"--decode --no-special-tokens --text '{framed}'"), ["<s>x <s>"])
        self.assertEqual(self.tokenize(f"--decode --text '{framed + [99999999, 4294967295] + bare}'"), ["x x "])
        done = shell(f"printf 'a\\377b\\n' | anyaccel tokenize --model {self.folder} --file - | anyaccel tokenize --model {self.folder} --decode --file -")
        self.assertEqual(done.stdout, "a\ufffdb\n", done.stderr)

    def test_errors(self):
        # Fails if invalid input is accepted, or if the error does not name the cause.
        kinds.llama3(kinds.PROSE).save(os.path.join(self.folder, "tokenizer.json"))
        for options, message in (("--decode --text '1 x'", "line 1 is not a list of ids"), ("--decode --text -1", "token id out of range"),
                                 ("--decode --text 4294967296", "token id out of range"),
                                 ("--file /nowhere", "/nowhere"), ("", "--file,--text")):
            with self.subTest(options=options):
                done = shell(f"anyaccel tokenize --model {self.folder} {options}")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
