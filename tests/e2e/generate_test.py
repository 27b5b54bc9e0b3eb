"""Tests of `anyaccel generate` with a small model that the test trains: prompts from a file,
speculation, and the timings in --json.
"""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from shell import BIN, shell
from small_model import SMALL, SmallModelTest

SAMPLED = "--temperature 0.8 --top-k 20 --repetition-penalty 1.1 --seed 5"
LONG = 8192
PROMPTS = ["line 7", "a text that repeats itself\\nline 8 of a text", "l", "text"]


class Generate(SmallModelTest):
    trained = None

    def setUp(self):
        super().setUp()
        if not Generate.trained:
            folder = tempfile.TemporaryDirectory()
            self.addClassCleanup(folder.cleanup)
            Generate.trained = self.train(os.path.join(folder.name, "model"), SMALL)
        self.model = Generate.trained

    def train(self, folder, options):
        options = options.replace("--context 32", "--context 96")
        done = shell(f"anyaccel train --data {self.data} --out {folder} --steps 60 --batch-size 4 {options}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def generate(self, options, code=0, **variables):
        done = shell(f"anyaccel generate --model {self.model} {options}", **variables)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def objects(self, options, code=0):
        cache = os.path.join(self.folder, "cache")
        return [json.loads(line) for line in self.generate(options + " --json", code, ANYACCEL_MODEL_CACHE=cache).stdout.splitlines()]

    def prompts(self, text):
        path = os.path.join(self.folder, "prompts")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_speculation(self):
        # Fails if speculation changes the generated tokens, or if drafted tokens are not counted.
        draft = self.train(os.path.join(self.folder, "draft"), SMALL.replace("--layers 2", "--layers 1"))
        wants = {options: self.objects(f"-p '{PROMPTS[0]}' {options}")[0] for options in ("--greedy -n 60", f"{SAMPLED} -n 60")}
        for way in ("--speculate prompt-lookup:3", f"--draft-model {draft} --draft-tokens 4"):
            accepted = 0
            for options, want in wants.items():
                with self.subTest(way=way, options=options):
                    got, = self.objects(f"-p '{PROMPTS[0]}' {options} {way}")
                    self.assertEqual((got["ids"], got["text"], got["finish_reason"]), (want["ids"], want["text"], want["finish_reason"]))
                    self.assertEqual((want["drafted"], want["accepted"]), (0, 0))
                    self.assertGreater(got["drafted"], 0)
                    self.assertLessEqual(got["accepted"], got["drafted"])
                    accepted += got["accepted"]
            self.assertGreater(accepted, 0)

    def test_speculation_errors(self):
        # Fails if a draft model with a different tokenizer is accepted. Also fails if the error
        # about an unknown speculation method does not list the known ones.
        other = os.path.join(self.folder, "other")
        shell(f"cp -r {self.model} {other}")
        path = os.path.join(other, "tokenizer.json")
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        words = tokenizer["model"]["vocab"]
        words["a"], words["b"] = words["b"], words["a"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        self.assertIn('got "b" as token 97, want "a"', self.generate(f"-p a --draft-model {other}", 2).stderr)
        self.assertIn("prompt-lookup:10", self.generate("-p a --speculate lookup", 2).stderr)
        self.assertIn("prompt-lookup:10", self.generate("-p a --speculate prompt-lookup:0", 2).stderr)

    def test_prompts(self):
        # Fails if a prompt in a batch generates different tokens than on its own, or if the results
        # are not in input order.
        lines = [json.dumps({"prompt": text}) if i % 2 else text for i, text in enumerate(PROMPTS)]
        path = self.prompts("\n\n".join(lines) + "\n" + json.dumps({"prompt_ids": [108, 105]}))
        # With near ties and random sampling, a single-bit difference changes the generated tokens.
        integers = "--temperature 1.5 -n 30 --quantize int4 --dtype bf16 --seed "
        for options, step in (("--greedy -n 30", 0), (integers, 1), (SAMPLED.replace("--seed 5", "-n 30 --seed "), 1)):
            seeds = [f"{options}{5 + i}" if step else options for i in range(5)]
            alone = [self.objects(f"-p '{text}' {seeds[i]}")[0] for i, text in enumerate(PROMPTS)]
            alone += self.objects(f"--prompt-ids '108 105' {seeds[4]}")
            for more in ("", "--batch-size 1", "--batch-size 2", "--speculate prompt-lookup"):
                got = self.objects(f"--prompts {path} {seeds[0]} {more}")
                self.assertEqual([one["line"] for one in got], [1, 3, 5, 7, 8])
                self.assertEqual([one["ids"] for one in got], [one["ids"] for one in alone], more)
        text = shell(f"anyaccel generate --model {self.model} --prompts - --greedy -n 5 < {path}")
        first = self.generate(f"-p '{PROMPTS[0]}' --greedy -n 5").stdout
        self.assertEqual((text.returncode, text.stdout.count("==> line ")), (0, 5), text.stderr)
        self.assertTrue(text.stdout.startswith(f"==> line 1 <==\n{first}==> line 3 <==\n"), text.stdout)

    def test_invalid_prompts(self):
        # Fails if an invalid line causes the results of other lines to be lost, or if the error
        # does not name the line.
        bad = ['{"prompt": 1}', '{"x": "y"}', "{not json", '{"prompt_ids": [1.5]}', '{"prompt_ids": [999]}', '{"prompt_ids": []}', '{"prompt_ids": [36666666666666666666666666]}', "x" * 200]
        path = self.prompts("\n".join(["line 7", *bad, "line 8"]))
        done = self.generate(f"--prompts {path} --json -n 3", 1)
        got = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one["line"] for one in got if "error" in one], list(range(2, 10)))
        self.assertEqual([one["line"] for one in got if one.get("new_tokens") == 3], [1, 10])
        for number in range(2, 10):
            self.assertIn(f"{path}, line {number}: ", done.stderr)
        self.assertIn("no/file", self.generate("--prompts no/file", 1).stderr)
        self.assertIn("--self-check", self.generate(f"--prompts {path} --self-check", 2).stderr)

    def lengthen_context(self):
        self.model = shell(f"cp -r {self.model} {self.folder}/long; echo {self.folder}/long").stdout.strip()
        config = os.path.join(self.model, "config.json")
        with open(config, encoding="utf-8") as file:
            changed = dict(json.load(file), max_position_embeddings=LONG, eos_token_id=None)
        with open(config, "w", encoding="utf-8") as file:
            json.dump(changed, file)

    def test_interrupt_of_ranks(self):
        # Fails if SIGINT to the process group loses text that was already generated. Ranks get the
        # signal twice, because the launcher forwards it. A surviving rank would keep the pipe open.
        self.lengthen_context()
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
        command = ["anyaccel", "launch", "-q", "--oversubscribe", "--num_accelerators", "2", "anyaccel", "generate", "--model", self.model,
                   "--tensor-parallel", "auto", "--prompt", "line", "--greedy", "-n", str(LONG)]
        # Use unbuffered pipes, because communicate() does not return data that Python has already
        # read into a buffer.
        with subprocess.Popen(command, bufsize=0, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              start_new_session=True) as program:
            try:
                text = program.stdout.read(8)
                os.killpg(program.pid, signal.SIGINT)
                rest, error = program.communicate(timeout=300)
            finally:
                program.kill()
        self.assertEqual(program.returncode, 130, error)
        whole = self.generate(f"--prompt line --greedy -n {len(text + rest)}").stdout
        self.assertTrue(rest.endswith(b"\n"), error)
        self.assertTrue(whole.startswith((text + rest).decode().removesuffix("\n")))

    def test_interrupt(self):
        # Fails if Ctrl-C loses finished results, or if the remaining prompts are still processed.
        self.lengthen_context()
        # The first prompt fills the context after one token, and the others need thousands of
        # tokens. The others might not have started when the signal arrives.
        path = self.prompts(json.dumps({"prompt_ids": [108] * (LONG - 1)}) + "\nline\nline\n")
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
        with subprocess.Popen(["anyaccel", "generate", "--model", self.model, "--prompts", path, "--json", "--greedy", "-n", str(LONG),
                               "--batch-size", "2"], bufsize=0, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            try:
                first = json.loads(program.stdout.readline())
                program.send_signal(signal.SIGINT)
                out, error = program.communicate(timeout=300)
            finally:
                program.kill()
        self.assertEqual(program.returncode, 130, error)
        self.assertEqual((first["finish_reason"], first["new_tokens"]), ("context", 1))
        rest = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([one["finish_reason"] for one in rest], ["interrupted"] * len(rest))

    def test_timings(self):
        # Fails if a key that programs read is missing or has the wrong type, or if the timings are
        # inconsistent.
        out, = self.objects("-p 'line 7' --greedy -n 20")
        for key in ("load_seconds", "prefill_seconds", "first_token_seconds", "decode_seconds", "prefill_tokens_per_second",
                    "decode_tokens_per_second", "tokens_per_second"):
            self.assertIsInstance(out[key], float, key)
            self.assertGreater(out[key], 0, key)
        for key in ("prompt_tokens", "cached_tokens", "new_tokens", "drafted", "accepted"):
            self.assertIsInstance(out[key], int, key)
        self.assertIsInstance(out["accelerator"], str)
        self.assertEqual((out["prompt_tokens"], out["cached_tokens"], out["new_tokens"]), (6, 0, 20))
        self.assertEqual(out["new_tokens"], len(out["ids"]))
        self.assertLessEqual(out["prefill_seconds"], out["first_token_seconds"])
        self.assertLessEqual(out["first_token_seconds"], out["prefill_seconds"] + out["decode_seconds"])
        self.assertAlmostEqual(out["prefill_tokens_per_second"] * out["prefill_seconds"], 6, places=3)
        self.assertAlmostEqual(out["decode_tokens_per_second"] * out["decode_seconds"], 19, places=3)
        none, = self.objects("-p 'line 7' -n 0")
        self.assertEqual((none["new_tokens"], none["decode_tokens_per_second"], none["prefill_seconds"]), (0, 0, 0))


if __name__ == "__main__":
    unittest.main()
