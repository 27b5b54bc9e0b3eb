"""Tests that `anyaccel generate --tensor-parallel` with 2, 3 and 4 ranks gives the same logits and
greedy continuation as transformers and as one rank.

The test creates small random checkpoints with fixed seeds. Some have fused weights, biases or
experts. In some, the number of key-value heads or another size is not divisible by the number of
ranks.
"""
import json
import os
import shutil
import tempfile
import unittest

import random_models  # skips the test if transformers is not installed
from shell import shell

import numpy as np
import torch

SIZES = dict(vocab_size=65, hidden_size=32, intermediate_size=50, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=96, initializer_range=0.12, bos_token_id=0, eos_token_id=None, pad_token_id=None)
IDS = [5, 1, 40, 7, 7, 63, 0, 22, 31, 9, 58, 64]
NEW = 64
CASES = {
    "llama_biases": ("Llama", dict(attention_bias=True, mlp_bias=True)),
    "mistral_tied": ("Mistral", dict(tie_word_embeddings=True, sliding_window=6)),
    "qwen2": ("Qwen2", dict(num_attention_heads=8, num_key_value_heads=4)),
    "qwen3": ("Qwen3", dict(head_dim=16)),
    "phi3": ("Phi3", dict()),
    "gemma2": ("Gemma2", dict(head_dim=8, sliding_window=6, query_pre_attn_scalar=20)),
    "gemma3": ("Gemma3Text", dict(head_dim=8, sliding_window=6, layer_types=["sliding_attention", "full_attention"])),
    "mixtral": ("Mixtral", dict(intermediate_size=52, num_local_experts=5, num_experts_per_tok=2)),
    "qwen3_moe": ("Qwen3Moe", dict(head_dim=8, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=28, mlp_only_layers=[1])),
    "gpt2": ("GPT2", dict(n_inner=42)),
    "opt": ("OPT", dict(ffn_dim=50, init_std=0.12)),
    "llama_gelu": ("Llama", dict(hidden_act="gelu")),
    "llama_squared_relu": ("Llama", dict(hidden_act="relu2", mlp_bias=True)),
}
QUIET = dict(ANYACCEL_CCL="off")  # oneCCL, if installed, would print to the output
ON_SIM = {"llama_biases", "phi3"}


class Parallel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.model_folder = os.path.join(self.folder, "model")
        self.prompt = f"anyaccel generate --model {self.model_folder} --prompt-ids '{' '.join(map(str, IDS))}' "

    def make(self, family, changes):
        return random_models.make(family, self.model_folder, {**SIZES, **changes})

    def together(self, ranks, options, launch="--oversubscribe ", **environment):
        done = shell(f"anyaccel launch -q {launch}--num_accelerators {ranks} {self.prompt} --tensor-parallel auto {options}",
                     **QUIET, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def check(self, family, changes, ranks, on_sim):
        model = self.make(family, changes)
        want = random_models.logits(model, IDS)
        ids, margins = random_models.greedy(model, IDS, NEW)
        sure = next((place for place, margin in enumerate(margins) if margin < 1e-3), NEW)
        for environment in [{}, dict(DS_ACCELERATOR="sim", SIM_DEVICES=str(ranks))][:1 + on_sim]:
            path = os.path.join(self.folder, "logits.npy")
            self.together(ranks, f"--logits-out {path}", **environment)
            got = np.load(path)
            self.assertEqual(got.shape, want.shape)
            self.assertLessEqual(np.abs(got - want).max(), 1e-4 * max(1.0, np.abs(want).max()))
            said = self.together(ranks, f"-n {NEW} --greedy --json", **environment).stdout
            # Parsing a single object also checks that only rank 0 prints.
            self.assertEqual(json.loads(said)["ids"][:sure], ids[:sure])

    def test_bf16_with_cores(self):
        """Fails if tensor parallelism in bfloat16 is less accurate than bfloat16 in transformers.
        Also fails if ranks that are bound to their own cores do not start.
        """
        model = self.make(*CASES["llama_biases"])
        long = [(i * i + 7 * i) * 29 % 61 for i in range(80)]
        want = random_models.logits(model, long)
        theirs = np.abs(random_models.logits(model.to(torch.bfloat16), long) - want).max()
        path = os.path.join(self.folder, "logits.npy")
        self.prompt = self.prompt.replace(" ".join(map(str, IDS)), " ".join(map(str, long)))
        cores = "--bind_cores_to_rank " if len(os.sched_getaffinity(0)) > 1 else ""
        self.together(2, f"--dtype bf16 --logits-out {path}", launch=cores)
        self.assertLessEqual(np.abs(np.load(path) - want).max(), 1.25 * theirs)
        self.together(2, "--dtype bf16 -n 8 --greedy --self-check", launch=cores)

    def test_plan_of_the_checkpoint(self):
        """Fails if the plan in config.json is ignored, or if it changes the results."""
        self.make(*CASES["llama_biases"])
        path = os.path.join(self.model_folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["base_model_tp_plan"] = {"layers.*.mlp.gate_proj": "colwise", "layers.*.mlp.up_proj": "colwise", "layers.*.mlp.down_proj": "rowwise",
                                        "layers.*.self_attn.*": "replicated"}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        plan = {tensor["name"]: tensor["style"] for tensor in json.loads(shell(self.prompt + "--tensor-parallel 2 --plan --json").stdout)}
        self.assertEqual(plan["model.layers.0.self_attn.q_proj.weight"], "replicated")
        self.assertEqual(plan["model.layers.0.mlp.up_proj.weight"], "column")
        self.together(2, "-n 4 --greedy --self-check")

    def test_without_shared_memory(self):
        """Fails if ranks get different results when shared memory is unavailable. In that case,
        they cannot all-reduce within the op.
        """
        self.make(*CASES["qwen2"])
        greedy = "-n 12 --greedy --json"
        alone = json.loads(shell(self.prompt + greedy).stdout)["ids"]
        self.assertEqual(json.loads(self.together(3, greedy, ANYACCEL_SHM_DIR="/no/such/folder").stdout)["ids"], alone)

    def test_draws_and_self_check(self):
        """Fails if ranks draw different random numbers, or if the self-check does not run."""
        self.make(*CASES["qwen2"])
        sample = "-n 12 --temperature 1 --seed 3 --json"
        alone = json.loads(shell(self.prompt + sample).stdout)["ids"]
        done = self.together(3, sample + " --self-check")
        self.assertEqual(json.loads(done.stdout)["ids"], alone)
        self.assertIn("logits of 3 ranks differ from those of a single rank by at most", done.stderr)

    def test_speculation_and_batches(self):
        """Fails if speculation or batches give different results on several ranks. Also fails if a
        draft model is accepted.
        """
        self.make(*CASES["qwen2"])
        greedy = "-n 12 --greedy --json"
        alone = json.loads(shell(self.prompt + greedy).stdout)["ids"]
        guessed = json.loads(self.together(2, greedy + " --speculate prompt-lookup:3").stdout)
        self.assertEqual(guessed["ids"], alone)
        self.assertGreater(guessed["drafted"], 0)
        path = os.path.join(self.folder, "prompts")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"prompt_ids": ids}) + "\n" for ids in (IDS, IDS[:3], [1]))
        many = f"anyaccel generate --model {self.model_folder} --prompts {path} {greedy}"
        lines = shell(f"anyaccel launch -q --oversubscribe --num_accelerators 2 {many} --tensor-parallel auto", **QUIET).stdout.splitlines()
        self.assertEqual([json.loads(line)["ids"] for line in lines], [json.loads(line)["ids"] for line in shell(many).stdout.splitlines()])
        self.assertEqual(json.loads(lines[0])["ids"], alone)
        refused = shell(f"anyaccel launch -q --oversubscribe --num_accelerators 2 {self.prompt} --tensor-parallel auto --draft-model {self.model_folder}")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("use prompt lookup", refused.stderr)

    def quantized(self, ranks, options, near, **environment):
        """Compare the logits from several ranks with those from one rank. Return the greedy ids
        from several ranks, those from one rank, and the output of the self-check.
        """
        path = os.path.join(self.folder, "logits.npy")
        cache = dict(environment, ANYACCEL_MODEL_CACHE=os.path.join(self.folder, "cache"))
        self.assertEqual(shell(self.prompt + f"{options} --logits-out {path}", **cache).returncode, 0)
        want = np.load(path)
        for _ in range(2):  # the second run reads from the cache
            self.together(ranks, f"{options} --logits-out {path}", **cache)
            self.assertLessEqual(np.abs(np.load(path) - want).max(), near * max(1.0, np.abs(want).max()))
        self.assertEqual(len(os.listdir(cache["ANYACCEL_MODEL_CACHE"])), 1 + ranks)
        alone = json.loads(shell(self.prompt + f"{options} -n 24 --greedy --json", **cache).stdout)["ids"]
        done = self.together(ranks, f"{options} -n 24 --greedy --json --self-check", **cache)
        return json.loads(done.stdout)["ids"], alone, done.stderr

    def test_quantized(self):
        """Fails if ranks quantize their shards to different integers than one rank does, or if a
        rank reads another rank's shards from the cache.
        """
        self.make("Llama", dict(hidden_size=64, head_dim=32, intermediate_size=192, attention_bias=True))
        # The three ranks have 1, 1 and 2 of the 4 heads, and each rank has 2 of the 6 groups.
        for ranks, kind, environment in ((2, "int8", {}), (3, "int4", {}), (2, "int4", dict(DS_ACCELERATOR="sim", SIM_DEVICES="2"))):
            shutil.rmtree(os.path.join(self.folder, "cache"), ignore_errors=True)
            got, alone, said = self.quantized(ranks, f"--quantize {kind} --group-size 32", 1e-3, **environment)
            self.assertEqual(got, alone)
            self.assertNotIn("quantization groups", said)

    def test_quantized_activations(self):
        """Fails if the activation differs from transformers when weights are quantized."""
        for name in ("gelu", "gelu_pytorch_tanh", "relu", "relu2"):
            shutil.rmtree(os.path.join(self.folder, "cache"), ignore_errors=True)
            model = self.make("Llama", dict(hidden_size=64, head_dim=32, intermediate_size=192, hidden_act=name))
            got, alone, _ = self.quantized(2, "--quantize int8 --group-size 32", 1e-3)
            self.assertEqual(got, alone)
            want = random_models.logits(model, IDS)
            path = os.path.join(self.folder, "logits.npy")
            for way in ("auto", "plain"):
                done = shell(self.prompt + f"--quantize int8 --group-size 32 --logits-out {path}", ANYACCEL_DECODE=way)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLessEqual(np.abs(np.load(path) - want).max(), 0.03 * max(1.0, np.abs(want).max()), f"{name} {way}")

    def test_quantized_tied_vocabulary(self):
        """Fails if a tied output matrix is sharded wrongly, or if the embedding is quantized with
        it.
        """
        self.make("Qwen2", dict(hidden_size=128, intermediate_size=256, num_attention_heads=4, tie_word_embeddings=True))
        got, alone, _ = self.quantized(2, "--quantize int8 --group-size 64 --dtype bf16", 5e-2)
        self.assertEqual(got[:4], alone[:4])

    def test_smaller_groups(self):
        """Fails if groups that do not fit a rank's shard cause an error, or if the plan and the
        self-check do not report the smaller groups.
        """
        self.make("Llama", dict(hidden_size=64, head_dim=32, intermediate_size=192))
        _, _, said = self.quantized(3, "--quantize int8", 5e-2)
        # The two weights are the output projections of the two layers.
        self.assertIn("2 weights have different quantization groups", said)
        plan = {tensor["name"]: tensor for tensor in json.loads(shell(self.prompt + "--tensor-parallel 3 --plan --json --quantize int8").stdout)}
        self.assertEqual(plan["model.layers.0.self_attn.o_proj.weight"]["groups"], [32, 32, 64])
        self.assertEqual(plan["model.layers.0.mlp.down_proj.weight"]["groups"], [64, 64, 64])
        self.assertEqual(plan["model.embed_tokens.weight"]["bits"], [0, 0, 0])
        words = shell(self.prompt + "--tensor-parallel 3 --plan --quantize int4 --group-size 64").stdout
        self.assertRegex(words, r"o_proj.weight +row +64x128  ->  64x32  64x32  64x64 int4/64")
        refused = shell(self.prompt + "--tensor-parallel 3 --plan --quantize int4 --group-size 48")
        self.assertIn("a multiple of 32", refused.stderr)

    def test_plan(self):
        """Fails if --plan needs ranks to be started, or if it ignores a rule. Also fails if the
        error about an invalid rule does not name the weight.
        """
        self.make(*CASES["llama_biases"])
        plan = {tensor["name"]: tensor for tensor in json.loads(shell(self.prompt + "--tensor-parallel 4 --plan --json").stdout)}
        self.assertEqual(plan["model.layers.0.self_attn.k_proj.weight"]["parts"], [[8, 32]] * 4)
        self.assertEqual(plan["model.layers.1.mlp.down_proj.weight"]["parts"], [[32, 13], [32, 13], [32, 12], [32, 12]])
        self.assertEqual(plan["model.layers.1.mlp.down_proj.bias"]["parts"], [[32], [], [], []])
        self.assertIn("lm_head.weight", shell(self.prompt + "--tensor-parallel 2 --plan").stdout)
        rules = os.path.join(self.folder, "rules.json")
        with open(rules, "w", encoding="utf-8") as file:
            json.dump({"*.mlp.*": "replicated"}, file)
        self.together(2, f"-n 2 --self-check --tp-plan {rules}")
        with open(rules, "w", encoding="utf-8") as file:
            json.dump({"*q_proj*": "row"}, file)
        bad = shell(self.prompt + f"--tensor-parallel 2 --plan --tp-plan {rules}")
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn("weight model.layers.0.self_attn.q_proj.weight does not support this style", bad.stderr)
        many = shell(self.prompt + "--tensor-parallel 5 --plan")
        self.assertIn("q_proj.weight is too small for this number of ranks", many.stderr)


def add(name, ranks):
    def test(self):
        self.check(*CASES[name], ranks, name in ON_SIM)
    setattr(Parallel, f"test_{name}_{ranks}", test)


# Each test fails if the logits or greedy tokens of several ranks differ from transformers, or if a
# rank other than 0 prints.
for number, case in enumerate(CASES):
    for count in [2, 3, 4] if case in ON_SIM else [2 + number % 3]:
        add(case, count)


if __name__ == "__main__":
    unittest.main()
