import os

from runner.declare import Benchmark, Side, Target

THREADS = str(len(os.sched_getaffinity(0)))
# The defaults of `anyaccel train` before it learned a vocabulary: bytes, random weights, a longer context and a lower learning rate.
BYTES = ["--vocab-size", "257", "--random-start", "--context", "256", "--lr", "6e-4"]


def train(name, text, *options):
    return Side(name, ["{python}", "{here}/train_quality.py", "--anyaccel", "{build}/bin/anyaccel", "--folder", "{build}/benchmarks/train_quality",
                       "--text", text, "--", *options],
                env={"OMP_NUM_THREADS": THREADS}, keep=("bits_per_byte", "total_s", "steps"), needs=["{python}", "-c", "import transformers"])


def less(n, ours, theirs):
    return 100 * (1 - n[ours]["bits_per_byte"] / n[theirs]["bits_per_byte"])


benchmark = Benchmark(
    title="What a minute of training gives",
    about="""Bits per byte of held-out hand-written C++ headers of LibTorch after one minute of `anyaccel train`, computed by transformers. No
        side trains on these headers. "all" trains on generated headers, too, as the defaults once did. `total s` includes reading, learning the vocabulary
        and the program's own evaluation.""",
    sides=[
        train("defaults", "written"),
        train("defaults, random start", "written", "--random-start"),
        train("bytes", "written", *BYTES),
        train("bytes, all headers", "all", *BYTES),
    ],
    targets=[
        Target("percent less than bytes", lambda n: less(n, "defaults", "bytes"), at_least=10.0, unit="%"),
        Target("percent less than bytes, all headers", lambda n: less(n, "defaults", "bytes, all headers"), at_least=10.0, unit="%"),
    ],
    rounds=3, few_rounds="a round takes five minutes")
