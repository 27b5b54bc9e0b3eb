"""Times the transformer layer. All implementations alternate in one process. Prints milliseconds
per call.

usage: transformer.py SECONDS [fp32|bf16] [SHAPES]

SHAPES are batch x length, for example 8x128,4x512 (default: all). `products` is only the layer's
matrix products (three times as many with the backward pass), which every layer must compute.
"""
import json
import sys
import time

import torch
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

import anyaccel
from by_turns import wanted

SECONDS = float(sys.argv[1])
DTYPE = {"fp32": torch.float32, "bf16": torch.bfloat16}[sys.argv[2] if len(sys.argv) > 2 else "fp32"]
MODELS = {"minilm": (384, 12, 1536), "base": (768, 12, 3072)}
SHAPES = [tuple(map(int, shape.split("x"))) for shape in
          (sys.argv[3] if len(sys.argv) > 3 else "1x32,1x128,8x128,1x512,32x32,4x512").split(",")]


def layers(hidden, heads, intermediate, training):
    config = BertConfig(hidden_size=hidden, num_attention_heads=heads, intermediate_size=intermediate,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "sdpa"
    bert = BertLayer(config).to(DTYPE).train(training)
    encoder = torch.nn.TransformerEncoderLayer(hidden, heads, intermediate, dropout=0.0, activation="gelu", batch_first=True,
                                               layer_norm_eps=1e-12).to(DTYPE).train(training)
    transformer = anyaccel.get_accelerator().create_op_builder("TransformerBuilder").load()
    return {"anyaccel": transformer.DeepSpeedTransformerLayer.from_hugging_face(bert, config), "bert": bert, "encoder": encoder}


def products(batch, length, hidden, heads, intermediate, training):
    """Return a function that computes the layer's matrix products into preallocated memory."""
    rows, size = batch * length, hidden // heads
    pairs = []
    for inner, outer in ((hidden, 3 * hidden), (hidden, hidden), (hidden, intermediate), (intermediate, hidden)):
        x, w, y = torch.randn(rows, inner, dtype=DTYPE), torch.randn(inner, outer, dtype=DTYPE), torch.randn(rows, outer, dtype=DTYPE)
        pairs += [(x, w, y)] + [(y, w.t(), torch.empty_like(x)), (x.t(), y, torch.empty_like(w))] * training
    q, s = torch.randn(batch * heads, length, size, dtype=DTYPE), torch.randn(batch * heads, length, length, dtype=DTYPE)
    pairs += [(q, q.transpose(1, 2), s), (s, q, torch.empty_like(q))] * (3 if training else 1)
    return lambda: [torch.bmm(a, b, out=c) if a.dim() == 3 else torch.mm(a, b, out=c) for a, b, c in pairs]


def compare(sides, hidden):
    """Give all implementations the same weights, and raise AssertionError if their results differ.
    """
    bert, encoder = sides["bert"].state_dict(), sides["encoder"]
    with torch.no_grad():
        for kind in ("weight", "bias"):
            getattr(encoder.self_attn, f"in_proj_{kind}").copy_(
                torch.cat([bert[f"attention.self.{part}.{kind}"] for part in ("query", "key", "value")]))
            for mine, name in ((encoder.self_attn.out_proj, "attention.output.dense"), (encoder.linear1, "intermediate.dense"),
                               (encoder.linear2, "output.dense"), (encoder.norm1, "attention.output.LayerNorm"),
                               (encoder.norm2, "output.LayerNorm")):
                getattr(mine, kind).copy_(bert[f"{name}.{kind}"])
        x = torch.randn(2, 70, hidden, dtype=DTYPE)
        results = [out[0] if isinstance(out, tuple) else out for out in (layer(x) for layer in sides.values())]
    error = 1e-4 if DTYPE == torch.float32 else 0.1
    for result in results[1:]:
        torch.testing.assert_close(results[0], result, rtol=error, atol=error)


def of_layer(layer, x, gradient, training):
    def call():
        if not training:
            with torch.no_grad():
                layer(x)
            return
        out = layer(x)
        (out[0] if isinstance(out, tuple) else out).backward(gradient)
    return call


def main():
    torch.manual_seed(0)
    out = {}
    for model, (hidden, heads, intermediate) in MODELS.items():
        for training in (False, True):
            sides = layers(hidden, heads, intermediate, training)
            compare(sides, hidden)
            for batch, length in SHAPES:
                x = torch.randn(batch, length, hidden, dtype=DTYPE, requires_grad=training)
                gradient = torch.randn(batch, length, hidden, dtype=DTYPE)
                calls = {name: of_layer(layer, x, gradient, training) for name, layer in sides.items()}
                calls["products"] = products(batch, length, hidden, heads, intermediate, training)
                calls = wanted(calls)
                best = dict.fromkeys(calls, float("inf"))
                for call in calls.values():
                    call()
                end, turns = time.perf_counter() + SECONDS, 0
                while turns < 3 or time.perf_counter() < end:
                    turns += 1
                    for name, call in calls.items():
                        begin = time.perf_counter()
                        call()
                        best[name] = min(best[name], time.perf_counter() - begin)
                key = f"{model}_{'both' if training else 'forward'}_{batch}x{length}"
                out |= {f"{name}_{key}_ms": 1e3 * value for name, value in best.items()}
                print(key, {name: round(1e3 * value, 3) for name, value in best.items()}, turns, file=sys.stderr)
    print(json.dumps(out))


main()
