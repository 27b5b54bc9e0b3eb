"""Tests that the same checkpoint gives the same results in AnyAccel and in transformers, whichever
of them wrote it.
"""
import json
import os
import sys
import tempfile
import unittest

from shell import shell

try:
    import numpy as np
    import torch
    from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

IDS = [5, 1, 40, 7, 7, 63, 0, 22, 31, 9, 58, 2]


def reference(folder, ids):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


class Parity(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def ours(self, folder, ids):
        out = os.path.join(self.folder, "logits.npy")
        done = shell(f"anyaccel generate --model {folder} --prompt-ids '{' '.join(map(str, ids))}' --logits-out {out}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(out)

    def check(self, folder, ids):
        want = reference(folder, ids)
        got = self.ours(folder, ids)
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual(np.abs(got - want).max(), 1e-4 * max(1.0, np.abs(want).max()))

    def write(self, dtype=torch.float32, shard="1GB", **changes):
        torch.manual_seed(1)
        sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=4, max_position_embeddings=64, initializer_range=0.3, bos_token_id=0,
                     eos_token_id=1)
        model = LlamaForCausalLM(LlamaConfig(**{**sizes, **changes})).to(dtype)
        folder = os.path.join(self.folder, "model")
        model.save_pretrained(folder, max_shard_size=shard)
        return folder

    def edit(self, folder, change):
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        change(config)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)

    # Fails if transformers reads a checkpoint from `anyaccel train` differently than AnyAccel.
    def test_trained_checkpoint(self):
        data = os.path.join(self.folder, "text.txt")
        with open(data, "w", encoding="utf-8") as file:
            file.write("Grüße, world! int main() { return 0; }\n" * 200)
        out = os.path.join(self.folder, "trained")
        done = shell(f"anyaccel train --data {data} --out {out} --steps 5 --context 48 --hidden 32 --intermediate 64 "
                     "--layers 2 --heads 4 --kv-heads 2 --head-dim 8 --lr 1e-2")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = "Größe <|endoftext|> \t{}\n"
        tokenizer = AutoTokenizer.from_pretrained(out)
        ids = tokenizer(text)["input_ids"]
        self.assertEqual(ids, list("Größe ".encode()) + [256] + list(" \t{}\n".encode()))
        self.assertEqual(tokenizer.decode(ids), text)
        self.check(out, ids)

    # Fails if a default of config.json, the rotary embedding or the norm differs from transformers.
    def test_plain(self):
        self.check(self.write(), IDS)

    # Fails if grouped-query attention, tied embeddings, biases or head_dim are handled wrongly.
    def test_variants(self):
        for changes in (dict(num_key_value_heads=2), dict(num_key_value_heads=1, tie_word_embeddings=True),
                        dict(attention_bias=True, mlp_bias=True), dict(head_dim=12)):
            with self.subTest(**changes):
                self.check(self.write(**changes), IDS)

    # Fails if a tensor is read from the wrong shard, or if bf16 is converted wrongly.
    def test_sharded_bf16(self):
        folder = self.write(dtype=torch.bfloat16, shard="10KB")
        self.assertTrue(os.path.exists(os.path.join(folder, "model.safetensors.index.json")))
        self.check(folder, IDS)

    # Fails if a RoPE scaling method differs from transformers. Dynamic scaling starts above
    # max_position_embeddings.
    def test_rope_types(self):
        llama3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=16, rope_theta=10000.0)
        for rope, ids in ((dict(rope_type="default", rope_theta=500.0), IDS),
                          (dict(rope_type="linear", factor=2.0, rope_theta=10000.0), IDS),
                          (dict(rope_type="dynamic", factor=4.0, rope_theta=10000.0), IDS * 8), (llama3, IDS * 3)):
            with self.subTest(**rope):
                self.check(self.write(rope_parameters=rope), ids)

    # Fails if a config.json from before transformers 5 (rope_theta, rope_scaling, torch_dtype) is
    # misread.
    def test_old_config(self):
        folder = self.write(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=777.0))
        want = reference(folder, IDS)

        def old(config):
            rope = config.pop("rope_parameters")
            config["rope_theta"] = rope["rope_theta"]
            config["rope_scaling"] = {"type": "linear", "factor": 2.0}
            config["torch_dtype"] = config.pop("dtype")
        self.edit(folder, old)
        self.assertLessEqual(np.abs(self.ours(folder, IDS) - want).max(), 1e-4 * max(1.0, np.abs(want).max()))

    # Fails if the KV cache, greedy decoding or the end-of-sequence token differs from transformers'
    # generate().
    def test_greedy_generation(self):
        folder = self.write(num_key_value_heads=2)
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        want = model.generate(torch.tensor([IDS]), max_new_tokens=20, do_sample=False)[0].tolist()[len(IDS):]
        want = want[:want.index(1)] if 1 in want else want
        done = shell(f"anyaccel generate --model {folder} --prompt-ids '{' '.join(map(str, IDS))}' -n 20 --greedy --json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ids"], want)

    # Fails if generation_config.json is misread, or if it overrides the command line.
    def test_generation_config(self):
        folder = self.write(eos_token_id=None)
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        greedy = None
        for values in (dict(), dict(repetition_penalty=1.5), dict(do_sample=True, top_k=1, temperature=0.7, repetition_penalty=1.5)):
            with self.subTest(**values):
                with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
                    json.dump(values, file)
                model.generation_config = GenerationConfig.from_pretrained(folder)
                want = model.generate(torch.tensor([IDS]), max_new_tokens=20)[0].tolist()[len(IDS):]
                command = f"anyaccel generate --model {folder} --prompt-ids '{' '.join(map(str, IDS))}' -n 20 --json"
                self.assertEqual(json.loads(shell(command).stdout)["ids"], want)
                greedy = greedy or want
                plain = json.loads(shell(command + " --repetition-penalty 1 --greedy").stdout)["ids"]
                self.assertEqual(plain, greedy)
                hot = [json.loads(shell(f"{command} --temperature 50 --top-k 0 --seed {seed}").stdout)["ids"] for seed in (1, 2)]
                self.assertNotEqual(*hot)

    # Fails if an unsupported model family or RoPE scaling method is accepted.
    def test_unsupported_models(self):
        folder = self.write()
        self.edit(folder, lambda config: config.update(model_type="gpt_oss"))
        done = shell(f"anyaccel generate --model {folder} --prompt-ids 1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("gpt_oss", done.stderr)
        self.edit(folder, lambda config: config.update(model_type="llama",
                                                       rope_parameters=dict(rope_type="spiral", factor=2.0)))
        self.assertIn("spiral", shell(f"anyaccel generate --model {folder} --prompt-ids 1").stderr)


if __name__ == "__main__":
    unittest.main()
