"""Tests of `anyaccel chat` on a terminal: typed input, and the keys that stop an answer or exit the
program.
"""
import json
import os
import pty
import select
import time
import unittest

from shell import BIN, shell
from small_model import SMALL, SmallModelTest

TOKENS = 1 << 16  # long enough that an answer never ends on its own
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal:
    """A program that runs on a pseudo-terminal, and its output."""

    def __init__(self, *command):
        self.program, self.fd = pty.fork()
        if self.program == 0:
            os.environ["PATH"] = BIN + os.pathsep + os.environ["PATH"]
            os.execvp(command[0], command)
        self.seen = b""

    def read_until(self, text, seconds=200):
        """Return the output up to and including `text`, or all of it if `text` is None."""
        end = time.monotonic() + seconds
        while text is None or text not in self.seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{text} was not printed within {seconds} s: {self.seen[-500:]}")
            try:
                piece = os.read(self.fd, 65536)
            except OSError:  # the program has closed the terminal
                piece = b""
            if not piece:
                if text is None:
                    break
                raise AssertionError(f"the program ended before {text}: {self.seen[-500:]}")
            self.seen += piece
        cut = len(self.seen) if text is None else self.seen.index(text) + len(text)
        found, self.seen = self.seen[:cut], self.seen[cut:]
        return found.replace(b"\r\n", b"\n").decode()

    def write(self, keys):
        os.write(self.fd, keys)

    def end(self):
        """Wait until the program exits and return its exit code."""
        self.read_until(None)
        return os.waitstatus_to_exitcode(os.waitpid(self.program, 0)[1])

    def close(self):
        os.close(self.fd)  # hangs up the terminal, which terminates a program that is still running


class ChatTerminal(SmallModelTest):
    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.folder, "model")
        done = shell(f"anyaccel train --data {self.data} --out {self.model} --steps 60 --batch-size 4 {SMALL}")
        self.assertEqual(done.returncode, 0, done.stderr)
        config = os.path.join(self.model, "config.json")
        with open(config, encoding="utf-8") as file:
            changed = dict(json.load(file), max_position_embeddings=2 * TOKENS, eos_token_id=None)
        with open(config, "w", encoding="utf-8") as file:
            json.dump(changed, file)
        with open(os.path.join(self.model, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}")

    def chat(self, tokens):
        terminal = Terminal("anyaccel", "chat", "--model", self.model, "--greedy", "-n", str(tokens))
        self.addCleanup(terminal.close)
        terminal.read_until(b"> ")
        return terminal

    def answer(self, prompt):
        done = shell(f"anyaccel generate --model {self.model} --greedy -n 4 --raw --json --prompt '{prompt}'")
        return json.loads(done.stdout)["text"]

    def test_conversation(self):
        # Fails if answers on a terminal depend on anything but the turns since the last /reset.
        # Also fails if Ctrl-D does not terminate the program.
        terminal = self.chat(4)
        first = self.answer("uline 7")
        for question, answer in (("line 7", first), ("a text", self.answer(f"uline 7a{first}ua text")), ("/reset", None), ("line 7", first)):
            terminal.write(question.encode() + b"\n")
            said = "" if answer is None else answer + "\n"
            self.assertEqual(terminal.read_until(b"> "), f"{question}\n{said}> ")
        terminal.write(CTRL_D)
        self.assertEqual(terminal.end(), 0)

    def test_exit(self):
        # Fails if /exit does not terminate the program, or if Ctrl-C at the prompt does so.
        terminal = self.chat(4)
        terminal.write(CTRL_C)
        terminal.read_until(b"^C")
        terminal.write(b"line 7\n")
        self.assertIn(self.answer("uline 7"), terminal.read_until(b"> "))
        terminal.write(b"/exit\n")
        self.assertEqual(terminal.end(), 0)

    def test_interrupt(self):
        # Fails if Ctrl-C does not stop the current answer, or if it ends the conversation. Also
        # fails if answers are not streamed.
        terminal = self.chat(TOKENS)
        for _ in range(2):
            terminal.write(b"line\n")
            terminal.read_until(b"line\r\n")
            terminal.read_until(b"t")  # the answer has started
            terminal.write(CTRL_C)
            self.assertLess(len(terminal.read_until(b"> ")), TOKENS)
        terminal.write(CTRL_D)
        self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    unittest.main()
