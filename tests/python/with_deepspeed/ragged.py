"""Program that ragged_test.py runs: `ragged.py DTYPE MODEL... [--six-bits]`. Runs each model in
DeepSpeed's inference v2 on batches in which sequences start, continue with one or several tokens,
and end. Compares the logits with the model in float64, and reports the model's own error in this
dtype. With --six-bits, the engine rounds the layers' weights to six bits, and the reference model
has the rounded weights.
"""

import json
import logging
import sys
import tempfile

import anyaccel.deepspeed  # noqa: F401
import torch
import transformers

import deepspeed
from deepspeed.inference.v2.config_v2 import RaggedInferenceEngineConfig
from deepspeed.inference.v2.engine_factory import build_hf_engine

import small_models
import six_bits

# DeepSpeed's kernels require heads of at least 64.
SIZES = {"hidden_size": 256, "intermediate_size": 320}
SHARED = {**SIZES, "num_key_value_heads": 2}
OPTIONS = {"llama": SHARED, "mistral": {**SHARED, "sliding_window": None}, "qwen2": SHARED,
           "opt": {"hidden_size": 256, "ffn_dim": 320, "word_embed_proj_dim": 256, "max_position_embeddings": 512}}
# Six-bit matrices require a multiple of 256 outputs.
SIX_BITS = {"intermediate_size": 384, "ffn_dim": 512}


class Beside:
    """Runs the engine on tokens, and compares its logits to those of the reference model."""

    def __init__(self, name, dtype, rounded=False):
        options = {key: SIX_BITS.get(key, value) if rounded else value for key, value in OPTIONS[name].items()}
        model = small_models.make(name, **options)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(std=0.06)
        self.plain = model.to(dtype)
        folder = tempfile.mkdtemp()
        self.plain.save_pretrained(folder)
        self.exact, self.before = (small_models.make(name, **options).double() for _ in range(2))
        self.before.load_state_dict(self.plain.state_dict())
        self.exact.load_state_dict(six_bits.state(self.plain) if rounded else self.plain.state_dict())
        self.plain.load_state_dict(self.exact.state_dict())
        memory = {"mode": "allocate", "size": 12}
        state = {"max_tracked_sequences": 8, "max_ragged_batch_size": 256, "max_ragged_sequence_count": 4, "max_context": 512, "memory_config": memory}
        more = {"quantization": {"quantization_mode": "wf6af16"}} if rounded else {}
        self.engine = build_hf_engine(folder, RaggedInferenceEngineConfig(state_manager=state, **more), debug_level=logging.ERROR)
        self.words, self.errors, self.plain_errors, self.moved, self.seen = {}, [], [], [], 0

    def put(self, **new):
        """Append tokens to sequences, which are selected by name. DeepSpeed's own check for free
        space fails, because it compares a number with a list.
        """
        numbers = [ord(name) for name in new]
        got = self.engine.put(numbers, [torch.as_tensor(words) for words in new.values()], do_checks=False)
        assert got.shape[0] == len(new)
        for row, (name, words) in zip(got, new.items()):
            self.words[name] = self.words.get(name, []) + list(map(int, words))
            ids = torch.tensor([self.words[name]])
            with torch.no_grad():
                before = self.before(ids).logits[0, -1]
                want, plain = self.exact(ids).logits[0, -1], self.plain(ids).logits[0, -1]
            self.errors.append(error(row, want))
            self.plain_errors.append(error(plain, want))
            self.moved.append(error(before, want))
            self.next = want.argmax().item()
            self.seen += 1

    def flush(self, name):
        self.engine.flush(ord(name))
        del self.words[name]


def error(got, want):
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def compare(name, dtype, rounded):
    both = Beside(name, dtype, rounded)
    draw = small_models.words(rows=1, length=300)[0].tolist()
    free = both.engine.free_blocks
    both.put(a=draw[:9], b=draw[9:100])
    # One batch with a single token, a continuation of several tokens, and a prompt of one token.
    both.put(a=draw[100:101], b=draw[101:140], c=draw[140:141])
    both.put(c=draw[141:142], a=draw[142:143], b=draw[143:144])
    both.flush("b")
    both.put(d=draw[150:215], a=draw[215:216])  # reuses b's blocks
    both.put(d=draw[216:217], a=draw[217:290])
    for each in "acd":
        both.flush(each)
    return {"error": max(both.errors), "plain error": max(both.plain_errors), "moved": min(both.moved), "rows": both.seen, "all is free": both.engine.free_blocks == free,
            "device": str(deepspeed.get_accelerator().current_device_name())}


def main(dtype, *names):
    transformers.logging.set_verbosity_error()
    rounded = "--six-bits" in names
    print("RESULT " + json.dumps({name: compare(name, getattr(torch, dtype), rounded) for name in names if name[0] != "-"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
