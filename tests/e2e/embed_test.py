"""Tests that `anyaccel embed` computes the same vectors as transformers' BERT with
sentence-transformers' modules, and that `anyaccel search` finds texts with them.
"""
import json
import os
import sys
import unittest

from shell import shell

try:
    import numpy as np
    import tokenizer_kinds as kinds
    import torch
    import transformers
    from embed_case import TEXTS, EmbedCase, cosines, reference
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
            "pooling_mode_mean_sqrt_len_tokens": "root"}
SIZES = dict(hidden_size=24, intermediate_size=44, num_hidden_layers=3, num_attention_heads=3, max_position_embeddings=72, initializer_range=0.3)


class SmallModels(EmbedCase):
    def make(self, kind=transformers.BertModel, shard="1GB", dtype=torch.float32, tokenizer=kinds.word_piece, **changes):
        torch.manual_seed(1)
        words = tokenizer(kinds.training_text())
        model = kind(transformers.BertConfig(vocab_size=words.get_vocab_size(), **{**SIZES, **changes}))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:  # weights of 1 and biases of 0 would hide errors
                    parameter.add_(torch.randn_like(parameter) * 0.2)
        model.to(dtype).save_pretrained(self.model, max_shard_size=shard)
        words.save(os.path.join(self.model, "tokenizer.json"))

    def sentence(self, poolings, normalize):
        modules = ["Transformer", "Pooling"] + ["Normalize"] * normalize
        self.write("model/modules.json", [dict(idx=i, name=str(i), path=f"{i}_{name}" if i else "", type=f"sentence_transformers.models.{name}")
                                          for i, name in enumerate(modules)])
        self.write("model/1_Pooling/config.json", {key: name in poolings for key, name in POOLINGS.items()})

    def close(self, got, want):
        self.assertEqual(got.shape, want.shape)
        self.assertEqual(got.dtype, np.float32)
        self.assertLessEqual(np.abs(got - want).max(), 1e-5)

    def check(self, *reference_options, batch_size=32, **environment):
        self.close(self.embed(self.model, TEXTS, f"--batch-size {batch_size}", **environment), reference(self.model, TEXTS, *reference_options))

    def test_plain_folder(self):
        # Fails if the vectors differ from those of transformers, for any batch size or device.
        self.make()
        want = reference(self.model, TEXTS)
        for environment in (dict(), dict(DS_ACCELERATOR="cpu"), dict(DS_ACCELERATOR="sim")):
            for batch_size in (1, 5, 32):
                if environment and batch_size == 1:
                    continue
                with self.subTest(batch_size=batch_size, **environment):
                    self.close(self.embed(self.model, TEXTS, f"--batch-size {batch_size}", **environment), want)

    def test_poolings(self):
        # Fails if a pooling mode or the normalization is wrong, or if several poolings are
        # concatenated in the wrong order.
        self.make(hidden_act="gelu_new", num_attention_heads=1)
        for poolings, normalize in ((("cls",), True), (("max",), False), (("mean",), True), (("cls", "max", "mean", "root"), False)):
            with self.subTest(poolings=poolings):
                self.sentence(poolings, normalize)
                self.check(poolings, normalize)
                self.check(poolings, normalize, batch_size=7, DS_ACCELERATOR="sim")

    def test_checkpoints(self):
        # Fails if a checkpoint variant is read incorrectly: shards, prefixed names, bf16 weights, a
        # different activation, a single token type, or a cased tokenizer.
        cases = [dict(shard="10KB", hidden_act="relu"), dict(kind=transformers.BertForMaskedLM), dict(dtype=torch.bfloat16),
                 dict(tokenizer=kinds.cased_word_piece, type_vocab_size=1, layer_norm_eps=1e-5)]
        for number, case in enumerate(cases):
            with self.subTest(**{key: str(value) for key, value in case.items()}):
                self.model = os.path.join(self.folder, f"model{number}")
                self.make(**case)
                self.check()

    def test_max_length(self):
        # Fails if max_seq_length or model_max_length is ignored.
        self.make()
        self.write("model/tokenizer_config.json", dict(model_max_length=17))
        self.check(("mean",), False, 17)
        self.write("model/sentence_bert_config.json", dict(max_seq_length=9, do_lower_case=False))
        self.check(("mean",), False, 9)

    def test_lower_precision(self):
        # Fails if --dtype is ignored, or if the result is less precise than the type allows.
        self.make()
        want = reference(self.model, TEXTS)
        got = self.embed(self.model, TEXTS, "--dtype bf16")
        self.assertGreater(np.abs(got - want).max(), 1e-5)
        self.assertGreater(cosines(got, want).min(), 0.995)

    def test_output(self):
        # Fails if --text, --json and --npy give different vectors.
        self.make()
        written = self.embed(self.model, ["b a"])
        line = shell(f"anyaccel embed --model {self.model} --text 'b a'").stdout
        np.testing.assert_array_equal(np.array(line.split(), np.float32), written[0])
        told = json.loads(shell(f"printf 'b a\\n' | anyaccel embed --model {self.model} --file - --json").stdout)
        np.testing.assert_array_equal(np.array(told["embeddings"], np.float32), written)
        self.assertEqual((told["texts"], told["dimension"], told["max_tokens"]), (1, 24, 72))
        told = json.loads(shell(f"anyaccel embed --model {self.model} --text x --npy {self.folder}/x.npy --json").stdout)
        self.assertNotIn("embeddings", told)
        self.assertEqual(np.load(os.path.join(self.folder, "x.npy")).shape, (1, 24))

    def fails(self, options, *parts, status=1):
        done = shell(f"anyaccel {options}")
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1 if status == 1 else len(done.stderr.splitlines()), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_errors(self):
        # Fails if invalid input is accepted, or if the error does not name the cause and the file
        # or option.
        self.fails("embed --model /nowhere --text x", "/nowhere is not a folder")
        self.fails("embed --text x", "--model", status=2)
        self.make()
        embed = f"embed --model {self.model}"
        self.fails(embed, "--file", status=2)
        self.fails(f"{embed} --text x --batch-size 0", "batch size", status=2)
        self.fails(f"{embed} --file {self.folder}/none", "cannot read", "none")
        self.fails(f"{embed} --text x --npy {self.folder}/none/x.npy", "none/x.npy")
        self.fails(f"search --model {self.model} --folder {self.folder}/none --query x", "cannot find the folder to search")
        os.mkdir(os.path.join(self.folder, "bare"))
        self.fails(f"search --model {self.model} --folder {self.folder}/bare --query x", "no text was found in the folder")
        self.sentence(("mean",), True)
        self.write("model/1_Pooling/config.json", dict(pooling_mode="attention"))
        self.fails(f"{embed} --text x", "1_Pooling/config.json", "pooling", "attention")
        os.remove(os.path.join(self.model, "1_Pooling/config.json"))
        self.fails(f"{embed} --text x", "1_Pooling/config.json")
        os.remove(os.path.join(self.model, "modules.json"))
        weights = os.path.join(self.model, "model.safetensors")
        with open(weights, "r+b") as file:
            file.truncate(os.path.getsize(weights) - 1)
        self.fails(f"{embed} --text x", "model.safetensors", "wrong length")
        os.remove(weights)
        self.fails(f"{embed} --text x", "has no weights")
        self.make()
        self.write("model/config.json", dict(model_type="llama"))
        self.fails(f"{embed} --text x", "model_type", "llama", "bert")
        os.remove(os.path.join(self.model, "tokenizer.json"))
        self.make(type_vocab_size=3)
        os.remove(os.path.join(self.model, "tokenizer.json"))
        self.fails(f"{embed} --text x", "tokenizer.json")

    def test_search(self):
        # Fails if the best hit is not the passage with the same text, or if its location is wrong.
        self.make()
        self.write("texts/one.txt", "int main() { return 0; }\n\nThe quick brown fox.\nIt jumps.\n")
        self.write("texts/two/deep.md", "\n" + kinds.PROSE[1] + "\n")
        search = f"anyaccel search --model {self.model} --folder {self.folder}/texts --query 'The quick brown fox. It jumps.'"
        told = json.loads(shell(f"{search} --json --top 2").stdout)
        self.assertEqual((told["passages"], len(told["hits"])), (3, 2))
        best = told["hits"][0]
        self.assertEqual((best["file"], best["line"]), (f"{self.folder}/texts/one.txt", 3))
        self.assertEqual(best["text"], "The quick brown fox.\nIt jumps.")
        self.assertAlmostEqual(best["score"], 1.0, places=5)
        self.assertLess(told["hits"][1]["score"], best["score"])
        self.assertIn("1.0000  " + f"{self.folder}/texts/one.txt:3\n", shell(search).stdout)


if __name__ == "__main__":
    unittest.main()
