"""Compares generation by a cross-compiled program with transformers on this machine, in fp32, bf16,
int8 and int4. tools/cross runs this test; ANYACCEL_PROGRAM is the program.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import random_models  # noqa: E402  (skips the test if transformers is not installed)
from shell import shell  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402

# The sizes of the matrices are multiples of the kernels' widest vectors, and the head and the MLP
# have rows that are not a multiple of the number of rows that a kernel computes together.
SIZES = dict(vocab_size=301, hidden_size=128, intermediate_size=320, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=160, initializer_range=0.1, bos_token_id=0, eos_token_id=None, pad_token_id=None)
GROUP = 64
PROMPT = [(i * i + 7 * i) * 29 % 301 for i in range(70)]
NEW = 24


def integers(weight, bits):
    """Return a matrix as `--quantize` stores it, converted back to float (src/llm/quantize)."""
    groups = weight.float().view(weight.shape[0], -1, GROUP)
    if bits == 8:
        scale = groups.abs().amax(-1, keepdim=True) / 127
        return ((groups / scale).round().clamp(-127, 127) * scale).view(weight.shape)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    farthest = torch.where(-low >= high, low, high)
    best, best_error = None, None
    for share in (1.0, 0.96, 0.92, 0.88, 0.84):
        scale = farthest * (share / -8)
        values = ((groups / scale).round().add(8).clamp(0, 15) - 8) * scale
        error = (values - groups).square().sum(-1, keepdim=True)
        better = error < best_error if best is not None else torch.ones_like(error, dtype=torch.bool)
        best = values if best is None else torch.where(better, values, best)
        best_error = error if best_error is None else torch.where(better, error, best_error)
    return best.view(weight.shape)


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.model = random_models.make("Llama", os.path.join(cls.folder, "model"), SIZES)

    def run_program(self, options, ids=PROMPT):
        done = shell(f"anyaccel generate --model {self.folder}/model --prompt-ids '{' '.join(map(str, ids))}' {options}",
                     DS_ACCELERATOR="cpu", ANYACCEL_MODEL_CACHE=os.path.join(self.folder, "cache"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def logits(self, options, ids=PROMPT):
        out = os.path.join(self.folder, "logits.npy")
        self.run_program(f"--logits-out {out} {options}", ids)
        return np.load(out)

    def quantized(self, bits):
        model = random_models.make("Llama", os.path.join(self.folder, "reference"), SIZES)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() == 2 and "embed" not in name:
                    parameter.copy_(integers(parameter, bits))
        return model

    def check(self, model, options, near):
        """`near`: largest difference, as a fraction of the largest logit. Compares a long prompt, a
        single token, and greedy tokens up to the first one that the difference could change."""
        for ids in (PROMPT, PROMPT[:1]):
            want = random_models.logits(model, ids)
            got = self.logits(options, ids)
            self.assertEqual(got.shape, want.shape)
            self.assertLessEqual(np.abs(got - want).max(), near * np.abs(want).max(), f"{len(ids)} tokens")
        ids, margins = random_models.greedy(model, PROMPT, NEW)
        allowed = 2 * near * np.abs(random_models.logits(model, PROMPT)).max()
        sure = next((place for place, margin in enumerate(margins) if margin < allowed), NEW)
        self.assertGreater(sure, 0)
        got = json.loads(self.run_program(f"-n {NEW} --greedy --json {options}"))["ids"]
        self.assertEqual(got[:sure], ids[:sure])

    # Fails if a product, a norm, the rotary embedding, attention or the KV cache is wrong on this
    # architecture.
    def test_fp32(self):
        self.check(self.model, "", 1e-4)

    def test_bf16(self):
        want = random_models.logits(self.model, PROMPT)
        half = random_models.logits(self.model.to(torch.bfloat16), PROMPT)
        self.model.to(torch.float32)
        got = self.logits("--dtype bf16")
        self.assertLessEqual(np.abs(got - want).max(), 1.25 * np.abs(half - want).max())

    # These two fail if weights are rounded, packed or unpacked differently than on x86-64, or a
    # product with integers is wrong. Activations may be rounded to 8 bits.
    def test_int8(self):
        self.check(self.quantized(8), f"--quantize int8 --group-size {GROUP}", 0.02)

    def test_int4(self):
        self.check(self.quantized(4), f"--quantize int4 --group-size {GROUP}", 0.02)


if __name__ == "__main__":
    unittest.main()
