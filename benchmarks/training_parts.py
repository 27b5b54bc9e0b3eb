"""Times the parts of a fine-tuning step, forward and backward: AnyAccel's op `decoder_training` and
transformers' computation with torch's ops. Both alternate in one process. Prints
microseconds per call.

usage: training_parts.py fp32|bf16

The sizes are those of 4 sequences of 512 tokens in the shape of SmolLM2-135M.
"""
import json
import os
import sys

import torch
from torch.nn import functional

import anyaccel
from by_turns import by_turns

DTYPE = {"fp32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
BATCH, TIME, HIDDEN, INNER, HEADS, KV_HEADS, DIM, VOCAB = 4, 512, 576, 1536, 9, 3, 64, 49152
# On CPUs without AVX-512, torch multiplies bfloat16 element by element, which is slow.
SLOW_PRODUCTS = DTYPE == torch.bfloat16 and "avx512bw" not in open("/proc/cpuinfo", encoding="ascii").read()


def made(*shape):
    return torch.randn(shape).to(DTYPE).requires_grad_()


def rms_norm(x, weight):
    """LlamaRMSNorm.forward()"""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return weight * wide.to(x.dtype)


def rotate(x, cos, sin):
    """rotate_half() and apply_rotary_pos_emb()"""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def rotary(q, k, cos, sin):
    return rotate(q.view(BATCH, TIME, HEADS, DIM).transpose(1, 2), cos, sin), rotate(k.view(BATCH, TIME, KV_HEADS, DIM).transpose(1, 2), cos, sin)


def sdpa(q, k, v):
    """sdpa_attention_forward() with repeat_kv()"""
    k, v = (x[:, :, None].expand(BATCH, KV_HEADS, HEADS // KV_HEADS, TIME, DIM).reshape(BATCH, HEADS, TIME, DIM) for x in (k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def cross_entropy(hidden, weight, labels):
    """ForCausalLMLoss()"""
    return functional.cross_entropy(functional.linear(hidden, weight).float(), labels)


def with_backward(function, *arguments):
    results = function(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    gradients = [torch.ones_like(result) for result in results]
    leaves = [argument for argument in arguments if argument.requires_grad]

    def call():
        out = function(*arguments)
        torch.autograd.grad(out, leaves, gradients)
    return call


def parts(ops):
    tokens = BATCH * TIME
    x, residual, weight = made(BATCH, TIME, HIDDEN), made(BATCH, TIME, HIDDEN), made(HIDDEN)
    yield "rms_norm", {"anyaccel": (lambda x, w: ops.training_rms_norm(x, w, 1e-5), x, weight), "torch": (rms_norm, x, weight)}
    yield "add_rms_norm", {
        "anyaccel": (lambda x, r, w: ops.training_add_rms_norm(x, r, w, 1e-5), x, residual, weight),
        "torch": (lambda x, r, w: (rms_norm(x + r, w), x + r), x, residual, weight)}
    gate, up, both = made(BATCH, TIME, INNER), made(BATCH, TIME, INNER), made(BATCH, TIME, 2 * INNER)
    yield "swiglu", {"anyaccel": (ops.training_gated_activation, both), "torch": (lambda g, u: functional.silu(g) * u, gate, up)}
    angles = torch.outer(torch.arange(TIME).float(), 1e5 ** (-torch.arange(0, DIM, 2) / DIM))
    cos, sin = angles.cos(), angles.sin()
    wide = [torch.cat([table, table], -1).to(DTYPE) for table in (cos, sin)]
    qkv, q, k = made(BATCH, TIME, (HEADS + 2 * KV_HEADS) * DIM), made(BATCH, TIME, HEADS * DIM), made(BATCH, TIME, KV_HEADS * DIM)
    yield "rotary", {"anyaccel": (lambda x: ops.training_rotary_split(x, cos, sin, HEADS, KV_HEADS), qkv),
                     "torch": (lambda q, k: rotary(q, k, *wide), q, k)}
    heads = [torch.randn(BATCH, TIME, count, DIM).to(DTYPE).transpose(1, 2).requires_grad_() for count in (HEADS, KV_HEADS, KV_HEADS)]
    yield "attention", {"anyaccel": (lambda *given: ops.training_attention(*given, DIM ** -0.5), *heads), "torch": (sdpa, *heads)}
    if SLOW_PRODUCTS:
        return
    hidden, head, labels = made(tokens, HIDDEN), made(VOCAB, HIDDEN), torch.randint(0, VOCAB, (tokens,))
    yield "cross_entropy", {"anyaccel": (lambda h, w: ops.training_linear_cross_entropy(h, w, labels), hidden, head),
                            "torch": (lambda h, w: cross_entropy(h, w, labels), hidden, head)}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    ops = anyaccel.get_accelerator().create_op_builder("DecoderTrainingBuilder").load()
    out = {}
    for name, sides in parts(ops):
        times = by_turns({side: with_backward(*call) for side, call in sides.items()})
        out |= {f"{side}_{name}_us": value for side, value in times.items()}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
