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
from family_cases import CASES, SIZES
from shell import shell

import numpy as np
import torch

IDS = [5, 1, 40, 7, 7, 63, 0, 22, 31, 9, 58, 2]
# The bf16 comparison uses the largest error, which would depend on chance if there were only a few
# values.
LONG = [(i * i + 7 * i) * 29 % 61 for i in range(96)]
NEW = 64


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
