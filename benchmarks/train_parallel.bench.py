import os

from runner.declare import Benchmark, Side, Target

CORES = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
# DEMO has the widths of the demo's model (src/llm/train/options.cpp). LARGE is deeper and has eight
# times as many parameters. Both train on bytes.
DEMO = ["--context", "256", "--hidden", "320", "--layers", "2", "--heads", "5", "--kv-heads", "5", "--head-dim", "64",
        "--intermediate", "864"]
LARGE = ["--context", "256", "--hidden", "512", "--layers", "6", "--heads", "8", "--kv-heads", "8", "--head-dim", "64",
         "--intermediate", "1408"]


def train(name, ranks, sizes, batch, steps):
    """Train on `ranks` ranks.

    The launcher, cores and global batch are the same for any number of ranks.
    """
    return Side(name, ["{build}/bin/anyaccel", "launch", "-q", "--num_accelerators", str(ranks), "--bind_cores_to_rank", "--bind_core_list",
                       ",".join(CORES), "{build}/bin/anyaccel", "train", "--json", "--steps", str(steps), "--data", "{repo}/src", "--vocab-size", "257", *sizes,
                       "--batch-size", str(batch), "--held-out-tokens", "0", "--out", "{build}/benchmarks/train_parallel"],
                env={"DS_ACCELERATOR": "cpu"}, keep=("tokens_per_second",))


def benchmark_of(title, sizes, batch, steps):
    ranks, threads = f"2 ranks x 1 core, batch {batch}", f"1 rank x 2 threads, batch {batch}"
    return Benchmark(
        title=title,
        about=f"""Tokens per second of `anyaccel train` over {steps} steps with a global batch of {batch}
            sequences of 256 bytes, bound to the same two cores: as two ranks with one thread each that
            average their gradients through shared memory, and as one rank with two threads.""",
        sides=[train(ranks, 2, sizes, batch, steps), train(threads, 1, sizes, batch, steps)],
        targets=[Target("speed of two ranks relative to one", lambda n: n[ranks]["tokens_per_second"] / n[threads]["tokens_per_second"], at_least=0.95,
                        unit="times")])


benchmarks = {
    "train_parallel": benchmark_of("Data-parallel training, the demo's model", DEMO, 2, 60),
    "train_parallel_large": benchmark_of("Data-parallel training, a larger model", LARGE, 4, 8),
}
