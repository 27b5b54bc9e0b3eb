"""Helpers for the tests of `anyaccel embed`: run the command, and compute reference vectors with
transformers.
"""
import json
import os
import tempfile
import unittest

import numpy as np
import tokenizer_kinds as kinds
import torch
import transformers

from shell import shell

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Texts in many scripts, from empty to longer than a model accepts, not sorted by length.
TEXTS = ["", "a", *kinds.PROSE[:12], " ".join(kinds.PROSE[:9]), "x " * 7, "[SEP] [MASK] a", "\t ", "Hello, World!", "word " * 500]


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def reference(folder, texts, poolings=("mean",), normalize=False, max_length=72):
    """Compute embedding vectors with transformers and the pooling formulas of
    sentence-transformers, one text at a time, so that no padding is needed.
    """
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"))
    rows = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=max_length)["input_ids"]
        with torch.no_grad():
            tokens = model(torch.tensor([ids])).last_hidden_state[0]
        one = {"cls": tokens[0], "max": tokens.max(0).values, "mean": tokens.mean(0), "root": tokens.sum(0) / len(ids) ** 0.5}
        row = torch.cat([one[name] for name in poolings])
        rows.append(torch.nn.functional.normalize(row, dim=0) if normalize else row)
    return torch.stack(rows).numpy()


class EmbedCase(unittest.TestCase):
    """Base class of tests that run `anyaccel embed` in a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = os.path.join(self.folder, "model")

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def embed(self, model, texts, options="", **environment):
        out = os.path.join(self.folder, "vectors.npy")
        texts = self.write("texts", "".join(text + "\n" for text in texts))
        done = shell(f"anyaccel embed --model {model} --file {texts} --npy {out} {options}", **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        return np.load(out)
