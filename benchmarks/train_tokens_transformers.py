"""Trains the demo's model with transformers and torch's AdamW, and prints tokens per second like
`anyaccel train --json`.
"""
import argparse
import json
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("steps", "threads", "batch-size", "context", "hidden", "layers", "heads", "kv-heads", "head-dim",
                 "intermediate"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=257, hidden_size=args.hidden, intermediate_size=args.intermediate, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, num_key_value_heads=args.kv_heads, head_dim=args.head_dim,
        max_position_embeddings=args.context, rms_norm_eps=1e-5, tie_word_embeddings=False, use_cache=False))
    model.train()
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    text = torch.randint(0, 256, (1_000_000,))

    def step():
        starts = torch.randint(0, len(text) - args.context - 1, (args.batch_size,)).tolist()
        tokens = torch.stack([text[s:s + args.context + 1] for s in starts])
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            logits = model(input_ids=tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, 257), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    begin = time.perf_counter()
    for _ in range(args.steps):
        step()
    seconds = time.perf_counter() - begin
    print(json.dumps({"tokens_per_second": args.steps * args.batch_size * args.context / seconds}))


if __name__ == "__main__":
    main()
