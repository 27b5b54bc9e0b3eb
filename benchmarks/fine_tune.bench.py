from runner.declare import Benchmark, Side, Target

ENV = {"OMP_NUM_THREADS": "2", "DS_ACCELERATOR": "cpu"}
PEER = ["{python}", "{here}/fine_tune.py"]
SMALL, LARGE = "{build}/benchmarks/models/SmolLM2-135M", "{build}/benchmarks/models/TinyLlama-1.1B"
# Parameters of the layers' matrices and of the head, each of which takes 2 operations per token.
PRODUCTS = {"135M": 30 * (576 * 960 + 576 * 576 + 3 * 576 * 1536) + 49152 * 576,
            "1.1B": 22 * (2048 * 2560 + 2048 * 2048 + 3 * 2048 * 5632) + 32000 * 2048}


def ours(name, folder, dtype, kind, batch, steps):
    return Side(f"anyaccel {name}", ["{build}/bin/bench_fine_tune", folder, dtype, kind, str(batch), str(steps)], env=ENV)


def theirs(name, folder, dtype, kind, batch, steps):
    needs = ["{python}", "-c", "import transformers" + (", peft" if kind == "lora" else "")]
    return Side(f"transformers {name}", [*PEER, folder, dtype, kind, str(batch), str(steps)], env=ENV, needs=needs, ours=())


def speedup(name):
    return lambda n: n[f"anyaccel {name}"]["tokens_per_second"] / n[f"transformers {name}"]["tokens_per_second"]


def memory(name):
    return lambda n: n[f"anyaccel {name}"]["peak_mib"] / n[f"transformers {name}"]["peak_mib"]


def loss(name):
    return lambda n: abs(n[f"anyaccel {name}"]["loss"] / n[f"transformers {name}"]["loss"] - 1)


def of_products(name, model):
    """Return the time of a step divided by that of its matrix products at the measured peak. The
    backward pass of frozen weights needs one product, not two.
    """
    def value(n):
        seconds = 2 * 2 * PRODUCTS[model] / (n["peaks"]["products_gflops"] * 1e9)
        return 1 / n[f"anyaccel {name}"]["tokens_per_second"] / seconds
    return value


def lora_target(name, model):
    """Return a number that is at least 1 if either target is met."""
    return lambda n: max(speedup(name)(n) / 1.3, 1.1 / of_products(name, model)(n))


def pair(*given):
    return [theirs(*given), ours(*given)]


peaks = Side("peaks", [*PEER, "peaks"], env=ENV, ours=())
# On CPUs without AVX-512, torch multiplies bfloat16 element by element, which is too slow to
# measure a step of transformers.
BF16 = "avx512bw" in open("/proc/cpuinfo", encoding="ascii").read()

full = Benchmark(
    title="Fine-tuning SmolLM2-135M",
    about="""Full fine-tuning of a model with random weights in the shape of SmolLM2-135M, 4 sequences
        of 512 tokens per step, 2 threads. transformers: SDPA and torch's fused AdamW. Both sides
        keep the moments in the parameters' dtype. "bf16_master" also keeps the weights and the
        moments in float32. The targets also compare the losses of both programs. "peaks" is
        the fastest float32 matrix product and the bandwidth of an addition in torch.""",
    prepare=[*PEER, "prepare", SMALL],
    sides=[peaks, *pair("fp32", SMALL, "fp32", "full", 4, 2),
           *(pair("bf16", SMALL, "bf16", "full", 4, 2) if BF16 else [ours("bf16", SMALL, "bf16", "full", 4, 2)]),
           ours("bf16_master", SMALL, "bf16_master", "full", 4, 2)],
    targets=[Target(f"{name}: {text}", value(name), **limit) for name in ("fp32", *(("bf16",) if BF16 else ())) for text, value, limit in (
        ("speedup over transformers", speedup, {"at_least": 1.3, "unit": "times"}),
        ("memory relative to transformers", memory, {"at_most": 0.8, "unit": "x"}),
        ("relative difference of the losses", loss, {"at_most": 1e-3 if name == "fp32" else 1e-2}))],
    rounds=3, few_rounds="a round takes several minutes.", warm_up=False)

lora = Benchmark(
    title="LoRA fine-tuning",
    about="""Tokens per second of LoRA with rank 16 on all linear layers, in float32, with random
        weights in the shapes of SmolLM2-135M (4 sequences of 512 tokens) and TinyLlama-1.1B (1
        sequence), 2 threads. transformers: peft, SDPA and torch's fused AdamW.""",
    prepare=[*PEER, "prepare", SMALL, LARGE],
    sides=[peaks, *pair("135M", SMALL, "fp32", "lora", 4, 2), *pair("1.1B", LARGE, "fp32", "lora", 1, 2)],
    targets=[Target(f"{name}: speedup over transformers / 1.3, or 1.1 x the time of the products / time", lora_target(name, name),
                    at_least=1.0) for name in ("135M", "1.1B")],
    rounds=3, few_rounds="a round takes several minutes.", warm_up=False)

benchmarks = {"fine_tune_135m": full, "fine_tune_lora": lora}
