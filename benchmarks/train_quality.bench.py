import os

from runner.declare import Benchmark, Side, Target

THREADS = str(len(os.sched_getaffinity(0)))
# Byte tokens, random initial weights, a longer context and a lower learning rate than the defaults.
BYTES = ["--vocab-size", "257", "--random-start", "--context", "256", "--lr", "6e-4"]


def train(name, text, *options):
    return Side(name, ["{python}", "{here}/train_quality.py", "--anyaccel", "{build}/bin/anyaccel", "--folder", "{build}/benchmarks/train_quality",
                       "--text", text, "--", *options],
                env={"OMP_NUM_THREADS": THREADS}, keep=("bits_per_byte", "total_s", "steps"), needs=["{python}", "-c", "import transformers"])


def less(n, ours, theirs):
    return 100 * (1 - n[ours]["bits_per_byte"] / n[theirs]["bits_per_byte"])


benchmark = Benchmark(
    title="Model quality after a minute of training",
    about="""Bits per byte on held-out, hand-written C++ headers of LibTorch after one minute of
        `anyaccel train`, computed with transformers. No program trains on these headers. "all
        headers" also trains on generated headers. `total s` includes reading the data, learning the
        vocabulary and the program's own evaluation.""",
    sides=[
        train("defaults", "written"),
        train("defaults, random start", "written", "--random-start"),
        train("bytes", "written", *BYTES),
        train("bytes, all headers", "all", *BYTES),
    ],
    targets=[
        Target("bits per byte, reduction from bytes", lambda n: less(n, "defaults", "bytes"), at_least=10.0, unit="%"),
        Target("bits per byte, reduction from bytes, all headers", lambda n: less(n, "defaults", "bytes, all headers"), at_least=10.0, unit="%"),
    ],
    rounds=3, few_rounds="a round takes five minutes.")
