"""Fine-tunes a model with transformers (and peft), and prints tokens per second, peak memory and the
loss. bench_fine_tune does the same with AnyAccel.

usage: fine_tune.py MODEL fp32|bf16 full|lora BATCH STEPS
       fine_tune.py prepare MODEL... create these folders if they do not exist (names: SHAPES in generate.py)
       fine_tune.py peaks            measure this machine's matrix products and memory

Sequences have 512 tokens. The first step warms up.
"""
import json
import os
import pathlib
import resource
import sys
import time

TIME, VOCABULARY = 512, 32000
THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))


def ids_of(batch, step):
    """Token ids that bench_fine_tune uses too."""
    return [[(step * 104729 + row * 7919 + i * i * 31 + i * 17) % VOCABULARY for i in range(TIME)] for row in range(batch)]


def fine_tune(folder, dtype, kind, batch, steps):
    import torch
    import transformers
    torch.set_num_threads(THREADS)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), attn_implementation="sdpa")
    if kind == "lora":
        import peft
        torch.manual_seed(0)
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01, fused=True)
    seconds = {"forward": 0.0, "backward": 0.0, "optimizer": 0.0}
    losses = []
    for step in range(steps + 1):
        ids = torch.tensor(ids_of(batch, step))
        marks = [time.perf_counter()]
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        marks.append(time.perf_counter())
        losses.append(loss.item())
        if step:
            for name, begin, end in zip(seconds, marks, marks[1:]):
                seconds[name] += end - begin
    out = {"tokens_per_second": steps * batch * TIME / sum(seconds.values()),
           "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "loss": losses[-1]}
    return out | {f"{name}_ms": 1e3 * value / steps for name, value in seconds.items()}


def peaks():
    """Return the fastest float32 product of torch in the shape of a feed-forward layer, and the
    bandwidth of an in-place addition.
    """
    import torch
    torch.set_num_threads(THREADS)

    def best(call):
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return min(times)

    out = {}
    for size in ((2048, 576, 3072), (2048, 2048, 11264), (3072, 2048, 576), (4096, 4096, 4096)):
        a, b, c = torch.randn(size[0], size[1]), torch.randn(size[1], size[2]), torch.empty(size[0], size[2])
        flops = 2 * size[0] * size[1] * size[2]
        out["products_gflops"] = max(out.get("products_gflops", 0), flops / best(lambda: torch.mm(a, b, out=c)) / 1e9)
    x = torch.zeros(1 << 26)
    out["memory_gb_s"] = 2 * x.numel() * 4 / best(lambda: x.add_(1)) / 1e9
    return out


def main():
    if sys.argv[1] == "prepare":
        from generate import make_model
        for folder in map(pathlib.Path, sys.argv[2:]):
            if not (folder / "model.safetensors").exists():
                make_model(folder)
        return
    if sys.argv[1] == "peaks":
        print(json.dumps(peaks()))
        return
    folder, kind, how, batch, steps = sys.argv[1:]
    print(json.dumps(fine_tune(folder, {"fp32": "float32", "bf16": "bfloat16"}[kind], how, int(batch), int(steps))))


if __name__ == "__main__":
    main()
