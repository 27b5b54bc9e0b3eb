"""Times training steps of a 135M-parameter transformer with and without the recorder of `anyaccel
profile`.

usage: profile_overhead.py [DEVICE] [--pairs N] [--small]

Recording and plain phases alternate in one process, so that changes in the machine's load affect
both. Prints {"plain_ms": median, "recorded_ms": median, "ratio": median of the pairs' ratios,
"low": ..., "high": bounds of the ratio's 95 % confidence interval from a bootstrap, "cpu_ratio":
the same for CPU time, which includes the recorder's thread, "pairs": ...}.
"""
import argparse
import json
import os
import random
import statistics
import tempfile
import time

import torch
from sim_models import Model


def interval(ratios, rounds=4000):
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="small matrices: time is spent on launching ops")
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    os.environ["ANYACCEL_PROFILE_DIR"] = folder.name
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    from anyaccel import get_accelerator
    from anyaccel.profiler import recorder
    get_accelerator()
    # 18 layers of width 768 and 9216 tokens: 134.8M parameters.
    torch.manual_seed(0)
    model = Model(*((12, 4, 64, 512) if options.small else (18, 12, 768, 9216)), context=128).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, 512, (1, 129)).to(options.device)

    def step():
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # waits for the step

    def phase(before=lambda: None, after=lambda: None, seconds=4.0):
        """Return the mean (wall time, CPU time) of a step, including `before` and `after` the steps.
        The CPU time includes the recorder's thread, and does not depend on other programs.
        """
        began, cpu, steps = time.perf_counter(), time.process_time(), 0
        before()
        while steps == 0 or time.perf_counter() - began < seconds:
            step()
            steps += 1
        after()
        return (time.perf_counter() - began) / steps, (time.process_time() - cpu) / steps

    recorder.start()
    active = recorder._recorder
    active.pause("warm-up")
    step()
    pairs = []
    for number in range(options.pairs):
        def recorded():
            # The pause writes the last window of the phase, which is part of the overhead.
            return phase(active.resume, lambda: active.pause("benchmark"))
        if number % 2:
            taken = recorded()
            plain = phase()
        else:
            plain = phase()
            taken = recorded()
        pairs.append((plain, taken))
    ratios = [taken[0] / plain[0] for plain, taken in pairs]
    low, high = interval(ratios)
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "pairs": len(pairs),
                      "plain_ms": 1e3 * statistics.median(plain[0] for plain, _ in pairs),
                      "recorded_ms": 1e3 * statistics.median(taken[0] for _, taken in pairs),
                      "cpu_ratio": statistics.median(taken[1] / plain[1] for plain, taken in pairs),
                      "ratio": statistics.median(ratios), "low": low, "high": high}), flush=True)
    active.finish()  # before the folder is deleted


main()
