"""Helpers for tests of `anyaccel train --model`: small models with tokenizers and chat templates, data
files, the order in which a run visits its data, and the same training with transformers.
"""
import hashlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import random_models  # skips the test if transformers is not installed
import tokenizer_kinds
from shell import shell

import torch
import transformers
from transformers import PreTrainedTokenizerFast

BUILD = pathlib.Path(os.environ["ANYACCEL_BUILD_DIR"])
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, initializer_range=0.1, pad_token_id=None, attention_dropout=0.0)
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>"
          "{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
WORDS = "the model writes short answers about ships rivers and old maps while rain falls on stone roofs".split(" ")
MASK = (1 << 64) - 1
SCHEDULES = {"cosine": transformers.get_cosine_schedule_with_warmup, "linear": transformers.get_linear_schedule_with_warmup,
             "constant": lambda optimizer, warmup, _: transformers.get_constant_schedule_with_warmup(optimizer, warmup)}


def without_marks(template):
    return template.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def sentence(i, length):
    return " ".join(WORDS[(i * 7 + k * k) % len(WORDS)] for k in range(length))


def conversations(count):
    out = []
    for i in range(count):
        turns = [{"role": "system", "content": "Be brief."}] if i % 3 == 0 else []
        for turn in range(1 + i % 2):
            turns += [{"role": "user", "content": sentence(i + turn, 2 + i % 5)},
                      {"role": "assistant", "content": sentence(i * 3 + turn, 1 + i % 7)}]
        out.append(turns)
    return out


def save_tokenizer(folder, kind=tokenizer_kinds.llama3, template=CHATML, bos="<s>", eos="</s>"):
    """Train a tokenizer, save it with a chat template, and return it as transformers loads it."""
    tokenizer = kind(tokenizer_kinds.training_text())
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos,
                                   additional_special_tokens=["<|im_start|>", "<|im_end|>"])
    fast.chat_template = template
    fast.save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def make_model(folder, family="Llama", template=CHATML, **changes):
    """Create a small random model with a tokenizer, and return both."""
    tokenizer = save_tokenizer(folder, template=template)
    sizes = dict(SIZES, vocab_size=len(tokenizer), bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, **changes)
    return random_models.make(family, folder, sizes), tokenizer


def shuffled(count, seed, stream):
    """Return the order in which a run visits its rows, as the C++ function of the same name does."""
    def draw():
        nonlocal state
        state = (state + 0x9e3779b97f4a7c15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
        return z ^ (z >> 31)

    state = seed
    state = draw() ^ stream
    order = list(range(count))
    for i in range(count, 1, -1):
        k = ((draw() >> 32) * i) >> 32
        order[i - 1], order[k] = order[k], order[i - 1]
    return order


class FineTuneCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.model_folder = self.folder / "model"

    def write(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    def chats(self, count=24, name="chats.jsonl"):
        return self.write(name, [{"messages": turns} for turns in conversations(count)])

    def probe(self, *files, context=128, packing=False, seed=0, model=None):
        """Return the examples and rows that are read from files, and the reasons for skipped lines."""
        done = subprocess.run([BUILD / "bin/training_data_probe", model or self.model_folder, str(context), str(int(packing)), str(seed), *files],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return ([line for line in lines if "ids" in line], [line["parts"] for line in lines if "parts" in line],
                [line["bad"] for line in lines if "bad" in line])

    def tune(self, out, options="", before="", **variables):
        return shell(f"{before}anyaccel train --model {self.model_folder} --out {self.folder / out} --json {options}",
                     OMP_NUM_THREADS="1", **variables)

    def result(self, done):
        """Return the parsed JSON lines that a run printed. The last one is the result."""
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def losses(self, done):
        return self.result(done)[-1]["losses"]

    def last(self, done):
        """Return the result of a job, whose communication library may print other lines."""
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def digests(self, out):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.folder / out).iterdir() if path.is_file()}

    def reference(self, model, examples, rows, seed, steps, batch, accumulation, lr, schedule, warmup, decay=0.0):
        """Return the losses of transformers' model and torch's AdamW over the same data in the same order."""
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW([dict(params=[p for p in trained if p.dim() > 1], weight_decay=decay),
                                       dict(params=[p for p in trained if p.dim() <= 1], weight_decay=0.0)], lr=lr)
        scheduler = SCHEDULES[schedule](optimizer, math.ceil(steps * warmup), steps)
        per_step, order, losses = batch * accumulation, [], []
        for epoch in range(-(-steps * per_step // len(rows))):
            order += shuffled(len(rows), seed, epoch + 1)
        for step in range(steps):
            parts = [part for row in order[step * per_step:(step + 1) * per_step] for part in rows[row]]
            inputs = []
            for example, begin, length in parts:
                ids = torch.tensor([examples[example]["ids"][begin:begin + length]])
                labels = torch.tensor([examples[example]["labels"][begin:begin + length]])
                inputs.append((ids, labels))
            count = sum((labels[:, 1:] != -100).sum().item() for _, labels in inputs)
            optimizer.zero_grad()
            total = 0.0
            for ids, labels in inputs:
                logits = model(input_ids=ids, use_cache=False).logits
                loss = torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], ignore_index=-100, reduction="sum") / count
                loss.backward()
                total += loss.item()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(total)
        return losses

    def close(self, got, want, limit=1e-3):
        self.assertEqual(len(got), len(want))
        for step, (ours, theirs) in enumerate(zip(got, want)):
            self.assertLess(abs(ours - theirs) / theirs, limit, f"step {step + 1}: {ours}, not {theirs}")
