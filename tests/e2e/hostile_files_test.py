"""Tests with hostile model files (FIFOs, devices, endless files, terminal escapes), and with
signals.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from shell import BIN, shell
from small_model import SMALL, SmallModelTest

SECONDS = 120  # time limit for commands that must not block, ample even on a busy machine
ENDS_WITHIN = 6  # limit after a signal: one second, and slack for a busy machine


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class HostileFiles(SmallModelTest):
    trained = None

    def setUp(self):
        super().setUp()
        if not HostileFiles.trained:
            folder = tempfile.TemporaryDirectory()
            self.addClassCleanup(folder.cleanup)
            HostileFiles.trained = os.path.join(folder.name, "model")
            done = shell(f"anyaccel train --data {self.data} --out {HostileFiles.trained} --steps 1 --batch-size 2 {SMALL}")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.model = os.path.join(self.folder, "model")
        shutil.copytree(HostileFiles.trained, self.model)

    def path(self, name):
        return os.path.join(self.model, name)

    def fifo(self, name="fifo"):
        path = os.path.join(self.folder, name)
        if os.path.lexists(path):
            os.remove(path)
        os.mkfifo(path)
        return path

    def refused(self, command, *words, status=1):
        """Check that the command fails promptly with exit code `status`, and that standard error is
        short, printable and contains `words`.
        """
        done = shell(f"timeout -s KILL {SECONDS} anyaccel {command}")
        self.assertEqual(done.returncode, status, f"{command}: {done.stderr[-500:]}")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertLess(len(done.stderr), 3000, command)
        self.assertTrue(all(c in "\n\t" or c.isprintable() for c in done.stderr), repr(done.stderr))
        return done.stderr

    def test_special_files(self):
        # Fails if the program reads a model file that blocks on open, never ends, or exceeds its
        # size limit.
        generate = f"generate --model {self.model} --prompt a -n 1"
        for name in ("config.json", "tokenizer.json", "model.safetensors", "generation_config.json", "tokenizer_config.json",
                     "special_tokens_map.json", "chat_template.jinja"):
            for kind in ("fifo", "/dev/zero", "huge", "folder"):
                if kind == "huge" and name == "model.safetensors":
                    continue  # the weights are mapped, so only their header is read
                with self.subTest(name=name, kind=kind):
                    kept = self.path(name) + ".kept"
                    there = os.path.lexists(self.path(name))
                    if there:
                        os.rename(self.path(name), kept)
                    if kind == "fifo":
                        os.mkfifo(self.path(name))
                    elif kind == "huge":
                        with open(self.path(name), "wb") as file:
                            file.truncate(1 << 42)
                    elif kind == "folder":
                        os.mkdir(self.path(name))
                    else:
                        os.symlink(kind, self.path(name))
                    try:
                        self.refused(generate, name)
                    finally:
                        (os.rmdir if kind == "folder" else os.remove)(self.path(name))
                        if there:
                            os.rename(kept, self.path(name))

    def test_pipes_are_inputs(self):
        # Fails if a pipe is rejected when the user names it as an input file.
        done = shell(f"anyaccel train --data <(cat {self.data}) --out {self.folder}/piped --steps 1 --batch-size 2 {SMALL}")
        self.assertEqual(done.returncode, 0, done.stderr)
        want = shell(f"anyaccel tokenize --model {self.model} --file {self.data}").stdout
        self.assertGreater(len(want), 1000)
        for source in (f"--file <(cat {self.data})", f"--file - <{self.data}", f"--file /dev/stdin < <(cat {self.data})",
                       f"--file <(head -c -1 {self.data})"):
            self.assertEqual(shell(f"anyaccel tokenize --model {self.model} {source}").stdout, want, source)
        self.assertEqual(shell(f"anyaccel tokenize --model {self.model} --file /dev/null").returncode, 0)
        prompts = shell(f"anyaccel generate --model {self.model} --greedy -n 1 --prompts <(printf 'a\\nb\\n') --json")
        self.assertEqual([json.loads(line)["line"] for line in prompts.stdout.splitlines()], [1, 2], prompts.stderr)
        self.refused(f"tokenize --model {self.model} --file /dev/zero", "/dev/zero", "a regular file or a pipe")
        self.refused(f"tokenize --model {self.model} --file {self.folder}", "directory")
        self.refused(f"train --data /dev/zero --out {self.folder}/zero --steps 1 {SMALL}", "/dev/zero", status=2)

    def ended_by(self, number, *words, written=None):
        """Start `anyaccel words...` and send the signal `number` while the program is blocked or
        computing. Return the seconds from the signal to the exit, and the exit code.
        """
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
        with subprocess.Popen(["anyaccel", *words], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as program:
            try:
                if written:
                    program.stdin.write(written)
                    program.stdin.flush()
                # Give the program time to block in open() or read(), or to start a long
                # computation.
                until = time.monotonic() + 3
                while time.monotonic() < until and program.poll() is None:
                    time.sleep(0.1)
                self.assertIsNone(program.poll(), f"{words} ended by itself")
                program.send_signal(number)
                begin = time.monotonic()
                program.wait(timeout=60)
                return time.monotonic() - begin, program.returncode
            finally:
                program.kill()

    def test_signals(self):
        # Fails if a signal does not terminate a command that waits for a pipe or runs a long
        # computation.
        fifo = self.fifo()
        slow = os.path.join(self.folder, "slow")
        shutil.copytree(self.model, slow)
        tokenizer = read_json(os.path.join(slow, "tokenizer.json"))
        # Each search backtracks a lot before it matches one letter.
        slow_split = {"type": "Split", "pattern": {"Regex": "(?:a|aa){1,24}[bc]|a"}, "behavior": "Isolated"}
        steps = [slow_split, tokenizer["pre_tokenizer"]] if tokenizer.get("pre_tokenizer") else [slow_split]
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
        write_json(os.path.join(slow, "tokenizer.json"), tokenizer)
        with open(os.path.join(slow, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{{ messages[0].content }}")
        text = "a" * 100000
        for number in (signal.SIGTERM, signal.SIGINT):
            for words, written in ((("train", "--data", fifo, "--out", os.path.join(self.folder, "out")), None),
                                   (("generate", "--model", self.model, "--prompts", fifo), None),
                                   (("tokenize", "--model", self.model, "--file", fifo), None),
                                   (("chat", "--model", slow), None),
                                   (("generate", "--model", slow, "--raw", "--prompt", text), None),
                                   (("tokenize", "--model", slow, "--text", text), None),
                                   (("chat", "--model", slow), text.encode() + b"\n")):
                with self.subTest(words=[word[:40] for word in words], signal=number):
                    seconds, code = self.ended_by(number, *words, written=written)
                    self.assertLess(seconds, ENDS_WITHIN)
                    self.assertIn(code, (-number, 130))

    def test_escaping_of_file_text(self):
        # Fails if text from a checkpoint reaches the terminal unescaped in an error, or floods it.
        escape = "\x1b]0;gone\x07\u202e"
        long = escape + "x" * 300000
        config = read_json(self.path("config.json"))
        for change in ({"model_type": long}, {"hidden_act": escape}, {"architectures": [escape]}, {"rope_parameters": {"rope_type": escape}},
                       {"vocab_size": long}, {"quantization_config": {"quant_method": escape}}, {long: 1, "hidden_size": "x"}):
            with self.subTest(change=str(change)[:40]):
                write_json(self.path("config.json"), {**config, **change})
                self.refused(f"generate --model {self.model} --prompt a -n 1")
        with open(self.path("config.json"), "w", encoding="utf-8") as file:
            file.write('{"a": "' + long)
        self.refused(f"generate --model {self.model} --prompt a -n 1", "config.json is not valid JSON")
        write_json(self.path("config.json"), config)
        with open(self.path("chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{{ raise_exception('" + escape + "x" * 20000 + "') }}")
        self.refused(f"generate --model {self.model} --prompt a -n 1", "rejects these messages", status=2)
        with open(self.path("chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{% " + escape + " %}")
        self.refused(f"generate --model {self.model} --prompt a -n 1", r'"\x1b]0;"')

    def header(self, change):
        """Apply `change` to the header of the weights and write it back."""
        with open(self.path("model.safetensors"), "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(size)), file.read()
        change(header)
        text = json.dumps(header).encode()
        with open(self.path("model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    def test_weights(self):
        # Fails if weights with a wrong dtype or shape are accepted, or if the error does not name
        # the tensor.
        generate = f"generate --model {self.model} --prompt a -n 1"
        name = "model.layers.0.mlp.up_proj.weight"
        self.header(lambda header: header[name].update(dtype="I32"))
        self.refused(generate, "model.safetensors", name, "got I32, want a floating-point dtype")
        self.header(lambda header: header[name].update(dtype="F32", shape=[1] * 100000 + header[name]["shape"]))
        self.refused(generate, name, "dimensions")
        self.header(lambda header: header[name].update(shape=header[name]["shape"][100000:][::-1]))
        self.refused(generate, name, "wrong shape")
        self.header(lambda header: header.update({"\x1b[31m" + "y" * 100000: header.pop(name)}))
        self.refused(generate, name)

    def test_index(self):
        # Fails if an index that names a file outside the folder is accepted, or if the error does
        # not name the index.
        os.rename(self.path("model.safetensors"), self.path("part.safetensors"))
        for file in ("", ".", "..", "../x", "a/b", 3, "\x1b[31m" + "z" * 100000 + "/"):
            with self.subTest(file=str(file)[:20]):
                write_json(self.path("model.safetensors.index.json"), {"weight_map": {"lm_head.weight": file}})
                self.refused(f"generate --model {self.model} --prompt a", "model.safetensors.index.json", "lm_head.weight",
                             "the name of a file in this folder")

    def test_prompt_ids(self):
        # Fails if an empty --prompt-ids is treated as if the option were missing.
        for ids in ("", "  "):
            self.refused(f"generate --model {self.model} --prompt-ids '{ids}' -n 1", "--prompt-ids is empty", status=2)
        self.assertEqual(shell(f"anyaccel generate --model {self.model} --prompt-ids '97' -n 1").returncode, 0)


if __name__ == "__main__":
    unittest.main()
