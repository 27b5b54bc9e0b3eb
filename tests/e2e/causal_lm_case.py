"""Helpers for tests that compare CausalLM with transformers and PEFT. The C++ side is the program
causal_lm_probe, which runs commands from a file.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import random_models  # skips the test if transformers is not installed
import torch

BUILD = pathlib.Path(os.environ["ANYACCEL_BUILD_DIR"])
# Dropouts and padding ids would be compared by chance.
DETERMINISTIC = dict(attention_dropout=0.0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, dropout=0.0)


def batch(rows, time, seed=0, vocabulary=64):
    """Return random ids [rows, time] and labels, a tenth of which are -100."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocabulary, (rows, time), generator=generator)
    labels = ids.masked_fill(torch.rand(rows, time, generator=generator) < 0.1, -100)
    return dict(ids=ids, labels=labels)


def theirs(model, inputs, **more):
    """Return transformers' loss, logits and gradients for our input."""
    model.zero_grad()
    out = model(input_ids=inputs["ids"], labels=inputs.get("labels"), attention_mask=inputs.get("attention_mask"),
                position_ids=inputs.get("position_ids"), use_cache=False, **more)
    out.loss.backward()
    return out.loss.detach(), out.logits.detach(), gradients(model)


def gradients(model):
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.model_folder = self.folder / "model"

    def probe(self, *commands, fails=None, **environment):
        """Run commands. `fails`: expected part of the error."""
        script = self.folder / "commands"
        script.write_text("\n".join(commands))
        done = subprocess.run([BUILD / "bin/causal_lm_probe", script], capture_output=True, text=True, env={**os.environ, **environment})
        if fails:
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(fails, done.stderr)
            return done.stderr
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("sim check", done.stderr)
        return done.stdout

    def inputs(self, name, tensors):
        path = self.folder / f"{name}.in"
        torch.save(tensors, path)
        return path

    def result(self, name):
        return torch.load(self.folder / f"{name}.out", weights_only=False)

    def step(self, name, tensors, options=""):
        """Return the command for a step, whose result is result(name)."""
        return f"step {self.inputs(name, tensors)} {self.folder / name}.out {options}"

    def close(self, got, want, name, limit=1e-4, floor=0.0):
        """Check the largest difference relative to the largest value, or to `floor`."""
        self.assertEqual(got.shape, want.shape, name)
        error = (got.float() - want.float()).abs().max().item() / max(want.abs().max().item(), floor, 1e-30)
        self.assertLessEqual(error, limit, name)

    def same_gradients(self, got, want, limit=1e-4):
        """Compare gradients of all parameters. Some are 0 except for rounding, for example those of
        key biases, so errors are relative to at least a thousandth of the largest gradient."""
        got = {name.removeprefix("gradient "): value for name, value in got.items() if name.startswith("gradient ")}
        self.assertEqual(sorted(got), sorted(want))
        floor = max(value.abs().max().item() for value in want.values()) * 1e-3
        for name, value in want.items():
            self.close(got[name], value, name, limit, floor)
