"""Tests of models with more embedding rows than their tokenizer has tokens. As in transformers, ids
without a token decode to an empty string.
"""
import json
import os
import tempfile
import unittest

import random_models  # skips the test if transformers is not installed
from shell import shell

import tokenizers
import transformers

ROWS, TOKENS, GAP = 160, 96, 40  # the model has ROWS rows; the tokens have the ids 0 to TOKENS except GAP
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=160,
             initializer_range=0.12, bos_token_id=None, eos_token_id=None, pad_token_id=None)
PROMPTS = ["abc", "The quick brown fox", "x y z"]
NEW = 48


class PaddedVocabulary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.model = cls.make("model", ROWS, 2)
        cls.make("draft", ROWS - 16, 1)
        cls.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(cls.folder, "model", "tokenizer.json"))

    @classmethod
    def make(cls, name, rows, layers):
        folder = os.path.join(cls.folder, name)
        random_models.make("Qwen2", folder, {**SIZES, "vocab_size": rows, "num_hidden_layers": layers})
        ids = [i for i in range(TOKENS + 1) if i != GAP]
        letters = ["Ġ"] + [chr(c) for c in range(0x21, 0x7f)] + ["zz"]
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(dict(zip(letters, ids)), []))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        tokenizer.save(os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{{ messages[0].content }}")
        return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")

    def run_program(self, command):
        done = shell(f"anyaccel {command}", ANYACCEL_CCL="off")
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def want(self, prompt):
        """Return the ids that transformers generates, including ids without a token, and their
        text.
        """
        ids, _ = random_models.greedy(self.model, self.tokenizer.encode(prompt), NEW)
        self.assertTrue([i for i in ids if i > TOKENS] and [i for i in ids if i < TOKENS], ids)
        return ids, self.tokenizer.decode(ids)

    def test_generate(self):
        # Fails if an id without a token ends generation or adds text, in any mode of generation.
        options = f"--model {self.folder}/model --raw --greedy -n {NEW}"
        for prompt in PROMPTS:
            ids, text = self.want(prompt)
            for way in ("", " --speculate prompt-lookup:4", f" --draft-model {self.folder}/draft"):
                with self.subTest(prompt=prompt, way=way):
                    got = json.loads(self.run_program(f"generate {options}{way} -p '{prompt}' --json"))
                    self.assertEqual((got["ids"], got["text"], got["finish_reason"]), (ids, text, "length"))
                    self.assertEqual(self.run_program(f"generate {options}{way} -p '{prompt}'"), text + "\n")

    def test_prompts(self):
        # Fails if an id without a token changes the results of prompts from a file.
        path = os.path.join(self.folder, "prompts")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(prompt + "\n" for prompt in PROMPTS))
        out = self.run_program(f"generate --model {self.folder}/model --raw --greedy -n {NEW} --prompts {path} --json")
        self.assertEqual([(one["ids"], one["text"]) for one in map(json.loads, out.splitlines())], [self.want(prompt) for prompt in PROMPTS])

    def test_chat(self):
        # Fails if an id without a token ends an answer or adds text to it.
        out = self.run_program(f"chat --model {self.folder}/model --greedy -n {NEW} <<< '{PROMPTS[0]}'")
        self.assertEqual(out, self.want(PROMPTS[0])[1] + "\n")

    def test_prompt_ids(self):
        # Fails if an id without a token is rejected in --prompt-ids, or if an id beyond the model's
        # rows is accepted.
        ids = [5, ROWS - 1, GAP]
        got = json.loads(self.run_program(f"generate --model {self.folder}/model --prompt-ids '{' '.join(map(str, ids))}' --greedy -n {NEW} --json"))
        self.assertEqual(got["ids"], random_models.greedy(self.model, ids, NEW)[0])
        bad = shell(f"anyaccel generate --model {self.folder}/model --prompt-ids '5 {ROWS}'")
        self.assertIn(str(ROWS), bad.stderr)
        self.assertNotEqual(bad.returncode, 0)

    def test_stop(self):
        # Fails if a stop string is missed because an id that maps to no token falls between its
        # tokens.
        ids, text = self.want(PROMPTS[2])
        place = next(i for i in range(1, NEW - 1) if ids[i] > TOKENS and ids[i - 1] < TOKENS and ids[i + 1] < TOKENS)
        stop = self.tokenizer.decode(ids[place - 1:place + 2])
        self.assertEqual(len(stop), 2)
        path = os.path.join(self.folder, "stop")
        with open(path, "w", encoding="utf-8") as file:
            file.write(stop)
        got = json.loads(self.run_program(f"generate --model {self.folder}/model --raw --greedy -n {NEW} -p '{PROMPTS[2]}' --json --stop \"$(cat {path})\""))
        self.assertEqual((got["text"], got["finish_reason"]), (text[:text.index(stop)], "stop"))


if __name__ == "__main__":
    unittest.main()
