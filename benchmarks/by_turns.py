"""Times several implementations on the same arrays in one process, alternating between them."""
import os
import statistics
import time

BATCH_S = 0.006
LONG_S = 0.05


def wanted(sides):
    """Return the implementations to measure: all, or those whose result names start with a prefix
    in BENCHMARK_ONLY.

    `benchmarks/run --compare` sets that variable to leave out the peers.
    """
    only = tuple(filter(None, os.environ.get("BENCHMARK_ONLY", "").split(",")))
    return {name: call for name, call in sides.items() if not only or f"{name}_".startswith(only)}


def by_turns(sides, turns=9):
    """Return {implementation: microseconds per call}: medians over batches that alternate between
    the implementations.

    Slow calls get fewer batches, because the benchmark repeats everything in each round anyway.
    """
    sides = wanted(sides)
    times = {name: [] for name in sides}
    calls = {}
    longest = 0.0
    for name, call in sides.items():
        call()
        start = time.perf_counter()
        call()
        taken = time.perf_counter() - start
        longest = max(longest, taken)
        calls[name] = max(1, int(BATCH_S / taken))
    for turn in range(turns if longest < LONG_S else min(turns, 3)):
        for name in list(sides) if turn % 2 else reversed(sides):
            call, count = sides[name], calls[name]
            if longest < LONG_S:
                call()  # refills the caches; the data of slow calls does not fit into them
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}
