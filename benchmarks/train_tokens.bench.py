import os

from runner.declare import Benchmark, Side, Target

THREADS = str(len(os.sched_getaffinity(0)))
# The widths of the demo's model (src/llm/train/options.cpp) with byte tokens, which both programs
# support.
SIZES = ["--batch-size", "1", "--context", "256", "--hidden", "320", "--layers", "2", "--heads", "5", "--kv-heads", "5",
         "--head-dim", "64", "--intermediate", "864"]
OUT = ["--held-out-tokens", "0", "--out", "{build}/benchmarks/train_tokens"]


def anyaccel(name, *options):
    return Side(name, ["{build}/bin/anyaccel", "train", "--json", "--steps", "60", "--data", "{repo}/src", "--vocab-size", "257", *SIZES, *OUT, *options],
                env={"OMP_NUM_THREADS": THREADS}, keep=("tokens_per_second",))


def transformers(name, *options):
    return Side(name, ["{python}", "{here}/train_tokens_transformers.py", "--steps", "60", "--threads", THREADS, *SIZES, *options],
                env={"OMP_NUM_THREADS": THREADS}, needs=["{python}", "-c", "import transformers"], ours=())


def over(n, ours, theirs):
    return n[ours]["tokens_per_second"] / n[theirs]["tokens_per_second"]


benchmark = Benchmark(
    title="Training tokens",
    about="""Tokens per second over 60 training steps of a model with the demo's widths on byte
        tokens. Both programs use the same sizes, the same number of threads, and AdamW with
        gradient clipping; transformers uses torch's fused AdamW.""",
    sides=[
        anyaccel("anyaccel train"),
        anyaccel("anyaccel train --graph", "--graph"),
        transformers("transformers"),
        anyaccel("anyaccel train --dtype bf16", "--dtype", "bf16"),
        transformers("transformers, bf16 autocast", "--dtype", "bf16"),
    ],
    targets=[
        Target("speedup over transformers", lambda n: over(n, "anyaccel train", "transformers"), at_least=1.0, unit="times"),
        Target("speedup over transformers, bf16", lambda n: over(n, "anyaccel train --dtype bf16", "transformers, bf16 autocast"),
               at_least=1.0, unit="times"),
    ])
