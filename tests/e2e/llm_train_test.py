"""Tests of `anyaccel train` and `generate` as users run them: output, interruption, resuming, full
disks and invalid input.
"""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from shell import BIN, shell
from small_model import SMALL, SmallModelTest


class Train(SmallModelTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, out, options="", before=""):
        return shell(f"{before}anyaccel train --data {self.data} --out {self.path(out)} {SMALL} --json {options}")

    def losses(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])["losses"]

    def digests(self, out):
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in pathlib.Path(self.path(out)).iterdir()}

    # Fails if documented lines or keys are missing, or if training does not reduce the loss.
    def test_json(self):
        # Initial weights from bigram counts would already predict half of this text.
        done = self.train("out", "--steps 40 --seed 3 --random-start")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["step"] for line in lines[:-1]], list(range(1, 41)))
        last = lines[-1]
        for key in ("accelerator", "losses", "final_loss", "tokens_per_second", "held_out_loss", "unigram_entropy",
                    "ngram3_loss", "vocab_size"):
            self.assertIn(key, last)
        self.assertEqual(last["losses"], [line["loss"] for line in lines[:-1]])
        self.assertLess(last["final_loss"], 0.6 * last["losses"][0])

    # Fails if two runs with the same seed differ, or if the seed has no effect.
    def test_seed_is_reproducible(self):
        first = self.losses(self.train("a", "--steps 4 --seed 5 --dropout 0.1"))
        self.assertEqual(first, self.losses(self.train("b", "--steps 4 --seed 5 --dropout 0.1")))
        self.assertNotEqual(first, self.losses(self.train("c", "--steps 4 --seed 6 --dropout 0.1")))

    # Fails if a run that is interrupted and resumed differs from an uninterrupted one in any bit.
    def test_resumed_run_is_identical(self):
        for options in ("", "--dropout 0.2", "--dtype bf16"):
            with self.subTest(options):
                whole = self.losses(self.train("whole", f"--steps 300 {options}"))
                command = (f"exec anyaccel train --data {self.data} --out {self.path('parts')} {SMALL} --json "
                           f"--steps 300 {options}")
                environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
                with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True,
                                      env=environment) as process:
                    for _ in range(5):
                        process.stdout.readline()
                    process.send_signal(signal.SIGINT)
                    rest = process.stdout.read()
                self.assertEqual(process.returncode, 130)
                stopped = json.loads(rest.splitlines()[-1])
                self.assertTrue(stopped["interrupted"])
                self.assertLess(stopped["steps"], 300)
                resumed = self.train("parts", "--resume")
                self.assertEqual(stopped["losses"] + self.losses(resumed), whole)
                same = ("model.safetensors", "training_state.safetensors")
                first, second = self.digests("whole"), self.digests("parts")
                self.assertEqual([first[name] for name in same], [second[name] for name in same])

    # Fails if initial weights from bigram counts are not better than random ones. Also fails if
    # tied embeddings, which cannot use them, are rejected.
    def test_bigram_start(self):
        counted, drawn, tied = (self.losses(self.train(f"start{i}", f"--steps 2 {options}"))[0]
                                for i, options in enumerate(("", "--random-start", "--tie-embeddings")))
        self.assertLess(counted, 0.5 * drawn)
        self.assertGreater(tied, 0.8 * drawn)

    # Fails if the vocabulary is larger than requested, or if it changes when a run is resumed.
    def test_vocabulary(self):
        def tokens(out):
            with open(os.path.join(self.path(out), "tokenizer.json"), encoding="utf-8") as file:
                return json.load(file)["model"]["vocab"]

        with open(self.data, "a", encoding="utf-8") as file:
            file.write("a plausible comment about elements\n" * 4000)
        for options, size in (("", 257 + 73), ("--vocab-size 262", 262), ("--vocab-size 257", 257)):
            result = json.loads(self.train("words", f"--steps 2 {options}").stdout.splitlines()[-1])
            self.assertAlmostEqual(result["vocab_size"], size, delta=3 if size > 262 else 0)
            self.assertEqual(len(tokens("words")), result["vocab_size"])
        self.losses(self.train("words", "--steps 2"))
        before = tokens("words")
        self.losses(self.train("words", "--steps 4 --resume"))
        self.assertEqual(tokens("words"), before)
        for wrong in ("256", "65537"):
            self.assertIn("vocab-size", self.train("words", f"--steps 2 --vocab-size {wrong}").stderr)

    # Fails if a byte-level checkpoint from a version without learned vocabularies cannot be
    # resumed.
    def test_resume_from_byte_checkpoint(self):
        whole = self.losses(self.train("whole", "--steps 6 --vocab-size 257"))
        first = self.losses(self.train("old", "--steps 3 --vocab-size 257"))
        path = pathlib.Path(self.path("old"), "trainer_state.json")
        state = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(state["options"].pop("vocab_size"), 257)
        state["options"]["steps"] = 6
        path.write_text(json.dumps(state), encoding="utf-8")
        again = self.losses(self.train("old", "--resume"))
        self.assertEqual(len(first) + len(again), len(whole))
        self.assertEqual(json.loads(path.read_text(encoding="utf-8"))["options"]["vocab_size"], 257)

    # Fails if a finished run cannot be continued, or if a longer time limit does not add steps.
    def test_more_time(self):
        first = json.loads(self.train("out", "--minutes 0.01").stdout.splitlines()[-1])
        more = json.loads(self.train("out", "--resume --minutes 0.03").stdout.splitlines()[-1])
        self.assertGreater(more["steps"], first["steps"])
        self.assertEqual(more["steps"], first["steps"] + len(more["losses"]))
        self.assertEqual(self.train("out", "--resume").returncode, 0)

    # Fails if the losses with --graph differ from those without, for example because the graph
    # always uses the same learning rate, step count or random numbers.
    def test_graph_matches_eager(self):
        eager = self.losses(self.train("eager", "--steps 12 --dropout 0.1"))
        self.assertEqual(self.losses(self.train("graph", "--steps 12 --dropout 0.1 --graph")), eager)

    # Fails if mixed precision breaks training, for example if fp16 trains without loss scaling.
    def test_mixed_precision(self):
        full = self.losses(self.train("full", "--steps 25"))
        for dtype in ("bf16", "fp16"):
            mixed = self.losses(self.train(dtype, f"--steps 25 --dtype {dtype}"))
            self.assertNotEqual(mixed, full)
            self.assertAlmostEqual(mixed[-1], full[-1], delta=0.1 * full[-1])

    # Fails if the captured step always uses the same loss scale, or if it updates weights when
    # gradients overflow.
    def test_fp16_graph_matches_eager(self):
        eager = self.losses(self.train("eager16", "--steps 12 --dtype fp16"))
        self.assertEqual(self.losses(self.train("graph16", "--steps 12 --dtype fp16 --graph")), eager)

    # Fails if --steps disables --minutes or vice versa.
    def test_steps_and_minutes(self):
        self.assertEqual(len(self.losses(self.train("steps", "--steps 3 --minutes 5"))), 3)
        self.assertLess(len(self.losses(self.train("minutes", "--steps 1000000 --minutes 0.02"))), 1000000)

    # Fails if an invalid value of an option is accepted, or if an endless device such as /dev/zero
    # is read.
    def test_invalid_arguments(self):
        for options, text in (("--steps 0", "steps"), ("--minutes -1", "minutes"), ("--dtype fp64", "fp32, bf16 or fp16"),
                              ("--lr 50", "lr"), ("--data /dev/zero", "/dev/zero")):
            done = self.train("wrong", options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    # Fails if Ctrl-C stops a job that ignores SIGINT, like the background jobs of a non-interactive
    # shell.
    def test_ignored_signal_stays_ignored(self):
        done = shell(f"trap '' INT; anyaccel train --data {self.data} --out {self.path('ignored')} {SMALL} --json --minutes 0.05 & "
                     "pid=$!; sleep 1; kill -INT $pid; wait $pid")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(json.loads(done.stdout.splitlines()[-1])["interrupted"])

    # Fails if a failed save damages the previous checkpoint. A file size limit simulates a full
    # disk.
    def test_full_disk_keeps_previous_checkpoint(self):
        self.losses(self.train("out", "--steps 3"))
        before = self.digests("out")
        done = self.train("out", "--steps 5", before="trap '' XFSZ; ulimit -f 20; ")
        self.assertEqual(done.returncode, 1)
        self.assertIn("model.safetensors", done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(self.digests("out"), before)

    # Fails if a run is resumed with changed data or without a checkpoint.
    def test_resume_rejects_changed_data(self):
        self.losses(self.train("out", "--steps 3"))
        with open(self.data, "a", encoding="utf-8") as file:
            file.write("more\n")
        done = self.train("out", "--resume --steps 5")
        self.assertEqual(done.returncode, 2)
        self.assertIn("data", done.stderr)
        self.assertIn("no run to resume", self.train("nowhere", "--resume").stderr)

    # Fails if invalid input is accepted, or if the error does not name the cause.
    def test_invalid_input(self):
        for options, text in (("--data /nowhere/x", "/nowhere/x"), ("--dtype int3", "int3"), ("--steps 0", "steps"),
                              ("--lr -1", "lr"), ("--heads 3 --kv-heads 2", "heads"), ("--rope-theta 0", "rope_theta"),
                              ("--initializer-range nan", "initializer_range")):
            done = shell(f"anyaccel train --out {self.path('x')} --data {self.data} {options} --minutes 0.01")
            self.assertNotEqual(done.returncode, 0, options)
            self.assertIn(text, done.stderr, options)
        short = self.path("short.txt")
        with open(short, "w", encoding="utf-8") as file:
            file.write("too short")
        self.assertIn("too little text", shell(f"anyaccel train --out {self.path('x')} --data {short}").stderr)

    # Fails if an option that cannot change on --resume is ignored, or if its unchanged value is
    # rejected.
    def test_resume_rejects_changed_options(self):
        self.losses(self.train("out", "--steps 2 --seed 4"))
        for option in ("--seed 5", "--dtype bf16", "--clip 2", "--tie-embeddings", "--vocab-size 300"):
            done = self.train("out", f"--resume --steps 3 {option}")
            self.assertEqual((done.returncode, done.stdout), (2, ""), option)
            self.assertIn(f"[resume] {option.split()[0]} differs from the saved run", done.stderr)
        self.losses(self.train("out", "--resume --steps 3 --seed 4 --dtype float32"))

    # Fails if a run without remaining steps reports a loss.
    def test_nothing_left_to_train(self):
        self.losses(self.train("out", "--steps 2"))
        self.assertIsNone(json.loads(self.train("out", "--steps 2 --resume").stdout.splitlines()[-1])["final_loss"])
        done = shell(f"anyaccel train --data {self.data} --out {self.path('out')} --resume")
        self.assertIn("nothing to do: the run was already complete after 2 steps", done.stdout)

    # Fails if an unwritable output folder is detected only after training.
    def test_unwritable_folder_fails_before_training(self):
        for out in ("text.txt/out", "text.txt"):
            done = self.train(out, "--steps 2")
            self.assertEqual((done.returncode, done.stdout), (1, ""), out)
            self.assertIn("text.txt", done.stderr)

    # Fails if no checkpoint is written when a path is not valid UTF-8.
    def test_paths_without_utf8(self):
        data, out = os.fsencode(self.folder) + b"/\xff.txt", os.fsencode(self.folder) + b"/out\xff"
        os.rename(self.data, data)
        command = [os.path.join(BIN, "anyaccel"), "train", "--data", data, "--out", out, "--steps", "2", "--json"]
        done = subprocess.run(command + SMALL.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["steps"], 2)
        self.assertIn(b"model.safetensors", os.listdir(out))

    # Fails if progress is not printed without a terminal, or if it contains control characters.
    def test_plain_progress(self):
        done = shell(f"anyaccel train --data {self.data} --out {self.path('out')} {SMALL} --steps 3")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("step 1", "loss", "tokens/s", "memory", "left"):
            self.assertIn(word, done.stderr)
        self.assertNotIn("\r", done.stderr + done.stdout)
        for word in ("held-out loss", "unigram entropy", "order-3 n-gram", self.path("out")):
            self.assertIn(word, done.stdout)


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "model")
        data = os.path.join(cls.folder.name, "text.txt")
        with open(data, "w", encoding="utf-8") as file:
            file.write("abcdefgh\n" * 400)
        done = shell(f"anyaccel train --data {data} --out {cls.model} {SMALL} --steps 60")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def generate(self, options):
        return shell(f"anyaccel generate --model {self.model} {options}")

    # Fails if the model did not learn its training text, or if standard output contains anything
    # but the generated text.
    def test_greedy(self):
        done = self.generate("--prompt abc -n 5 --temperature 0")
        self.assertEqual((done.returncode, done.stdout), (0, "defgh\n"), done.stderr)

    # Fails if two generations with the same seed differ, or if the seed has no effect.
    def test_seed(self):
        sample = "--prompt a -n 25 --temperature 3 --seed "
        self.assertEqual(self.generate(sample + "1").stdout, self.generate(sample + "1").stdout)
        self.assertNotEqual(self.generate(sample + "1").stdout, self.generate(sample + "2").stdout)

    # Fails if generation does not end at a stop text, or if the stop text is printed.
    def test_stop(self):
        self.assertEqual(self.generate("--prompt abc -n 20 --greedy --stop gh").stdout, "def\n")

    # Fails if a key that programs read is missing.
    def test_json(self):
        out = json.loads(self.generate("--prompt abc -n 5 --greedy --json").stdout)
        self.assertEqual((out["text"], out["ids"], out["finish_reason"]), ("defgh", list(b"defgh"), "length"))
        for key in ("prefill_seconds", "decode_seconds", "tokens_per_second", "accelerator"):
            self.assertIn(key, out)

    # Fails if invalid input is accepted, or if the error does not name the cause.
    def test_invalid_input(self):
        for options, text in (("--prompt " + "a" * 33, "context"), ("--prompt-ids '1 x'", '"x"'),
                              ("--prompt-ids 999", "999"), ("--prompt a --top-p 2", "top-p"),
                              ("--prompt a --dtype int3", "int3")):
            done = self.generate(options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(text, done.stderr)
        self.assertIn("/nowhere", shell("anyaccel generate --model /nowhere --prompt a").stderr)

    # Fails if a damaged checkpoint is used, or if the error does not name the file or tensor.
    def test_damaged_checkpoint(self):
        copy = os.path.join(self.folder.name, "copy")
        weights = os.path.join(copy, "model.safetensors")
        shell(f"rm -rf {copy}; cp -r {self.model} {copy}; truncate -s -100 {weights}")
        done = shell(f"anyaccel generate --model {copy} --prompt a")
        self.assertEqual(done.returncode, 1)
        self.assertIn(weights, done.stderr)
        shell(f"rm -rf {copy}; cp -r {self.model} {copy}")
        path = os.path.join(copy, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict(config, intermediate_size=49), file)
        done = shell(f"anyaccel generate --model {copy} --prompt a")
        for word in ("gate_proj", "[48, 32]", "[49, 32]"):
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
