"""Tests that every model family gives the same logits and greedy continuation as transformers with
eager attention.

The test creates small random checkpoints with fixed seeds. transformers runs in the test's process.
AnyAccel runs as a program, on the selected accelerator and, for one model per family, also on sim.
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

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=160, initializer_range=0.12, bos_token_id=0, eos_token_id=None, pad_token_id=None)
IDS = [5, 1, 40, 7, 7, 63, 0, 22, 31, 9, 58, 2]
# The bf16 comparison uses the largest error, which would depend on chance if there were only a few
# values.
LONG = [(i * i + 7 * i) * 29 % 61 for i in range(96)]
NEW = 64


def yarn(**more):
    return dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=10000.0, **more)


def longrope(pairs, **more):
    return dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0 + 0.1 * i for i in range(pairs)],
                long_factor=[2.0 + i for i in range(pairs)], **more)


OPT = dict(ffn_dim=48, init_std=0.12)
# Family, variant, and changes to its config. The first variant of each family runs on sim too.
CASES = [
    ("Llama", "plain", dict()),
    ("Llama", "tied, biases, shards", dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, shard="10KB")),
    ("Llama", "yarn", dict(rope_parameters=yarn())),
    ("Llama", "yarn with options", dict(rope_parameters=yarn(mscale=0.7, mscale_all_dim=0.4, beta_fast=8.0, beta_slow=2.0, truncate=False))),
    ("Llama", "exact gelu", dict(hidden_act="gelu")),
    ("Llama", "tanh gelu", dict(hidden_act="gelu_pytorch_tanh", mlp_bias=True)),
    ("Llama", "relu", dict(hidden_act="relu")),
    ("Llama", "squared relu", dict(hidden_act="relu2")),
    ("Mistral", "sliding window", dict(sliding_window=6)),
    ("Mistral", "no window, custom head_dim", dict(sliding_window=None, head_dim=12)),
    ("Qwen2", "plain", dict()),
    ("Qwen2", "sliding window in upper layers", dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    ("Qwen2", "yarn, tied", dict(rope_parameters=yarn(), tie_word_embeddings=True)),
    ("Qwen3", "plain", dict(head_dim=16)),
    ("Qwen3", "sliding window per layer, biases", dict(head_dim=8, attention_bias=True, use_sliding_window=True, sliding_window=4,
                                                       layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    ("Phi3", "plain", dict()),
    ("Phi3", "partial rotary embedding, sliding window", dict(partial_rotary_factor=0.5, sliding_window=7)),
    ("Phi3", "longrope, past the original context", dict(rope_parameters=longrope(4), original_max_position_embeddings=40)),
    ("Gemma2", "soft caps", dict(head_dim=8, sliding_window=6, query_pre_attn_scalar=20, attn_logit_softcapping=3.0, final_logit_softcapping=5.0)),
    ("Gemma2", "no soft caps", dict(head_dim=8, sliding_window=6, attn_logit_softcapping=None, final_logit_softcapping=None)),
    ("Gemma2", "squared relu", dict(head_dim=8, sliding_window=6, hidden_activation="relu2")),
    ("Gemma3Text", "two rotary embeddings", dict(head_dim=8, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    ("Mixtral", "plain", dict(num_local_experts=5, num_experts_per_tok=2)),
    ("Mixtral", "squared relu", dict(num_local_experts=5, num_experts_per_tok=2, hidden_act="relu2")),
    ("Phi3", "gelu", dict(hidden_act="gelu_new")),
    ("Qwen3Moe", "gelu", dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, hidden_act="gelu")),
    ("Qwen3Moe", "dense and expert layers", dict(head_dim=8, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, mlp_only_layers=[1])),
    ("Qwen3Moe", "normalized expert weights", dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)),
    ("GPT2", "plain", dict()),
    ("GPT2", "custom n_inner, scores scaled by layer, untied, shards", dict(n_inner=40, activation_function="relu", tie_word_embeddings=False,
                                                                            scale_attn_by_inverse_layer_idx=True, shard="10KB")),
    ("GPT2", "exact gelu, unscaled scores, names without prefix", dict(activation_function="gelu", scale_attn_weights=False, bare=True)),
    ("OPT", "plain", OPT),
    ("OPT", "post norm, narrow embeddings", dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=20)),
    ("OPT", "no biases, norms without weights", dict(OPT, enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu")),
]


class Families(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.model_folder = os.path.join(self.folder, "model")

    def ours(self, options="", **environment):
        out = os.path.join(self.folder, "logits.npy")
        done = shell(f"anyaccel generate --model {self.model_folder} --prompt-ids '{' '.join(map(str, LONG))}' --logits-out {out} {options}",
                     **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(out)

    def close(self, got, want):
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual(np.abs(got - want).max(), 1e-4 * max(1.0, np.abs(want).max()))

    def check(self, family, changes, on_sim):
        model = random_models.make(family, self.model_folder, {**SIZES, **changes})
        want = random_models.logits(model, LONG)
        self.close(self.ours(), want)
        if on_sim:
            self.close(self.ours(DS_ACCELERATOR="sim"), want)
        ids, margins = random_models.greedy(model, IDS, NEW)
        sure = next((place for place, margin in enumerate(margins) if margin < 1e-3), NEW)
        self.assertGreater(sure, 0)
        # Decode token by token, and with speculation: rejected tokens must leave nothing in the KV
        # cache.
        for way in ("", "--speculate prompt-lookup:4"):
            done = shell(f"anyaccel generate --model {self.model_folder} --prompt-ids '{' '.join(map(str, IDS))}' -n {NEW} --greedy --json {way}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["ids"][:sure], ids[:sure], way)
        graphs = {"ANYACCEL_DECODE": "graph", "DS_ACCELERATOR": "sim"} if on_sim else {"ANYACCEL_DECODE": "graph"}
        done = shell(f"anyaccel generate --model {self.model_folder} --prompt-ids '{' '.join(map(str, IDS))}' -n {NEW} --greedy --json", **graphs)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["ids"][:sure], ids[:sure], graphs)
        half = random_models.logits(model.to(torch.bfloat16), LONG)
        theirs = np.abs(half - want).max()
        self.assertLessEqual(np.abs(self.ours("--dtype bf16") - want).max(), 1.25 * theirs)


def add(family, name, changes, on_sim):
    def test(self):
        self.check(family, changes, on_sim)
    setattr(Families, f"test_{family}_{name}".replace(" ", "_").replace(",", "").replace("'", ""), test)


# Each test fails if the family's logits or greedy tokens differ from transformers, with or without
# the KV cache, in fp32 or bf16.
seen = set()
for case in CASES:
    add(*case, on_sim=case[0] not in seen)
    seen.add(case[0])


if __name__ == "__main__":
    unittest.main()
