"""Times AnyAccel's kernels and torch's, and relates them to the device's measured peaks.

usage: python3 -m anyaccel_prove.checks.speed --peaks FILE [--small] [--only PATTERN]

Prints one JSON object. --small uses sizes that suit a CPU.
"""

import argparse
import fnmatch
import json
import pathlib
import sys

import torch

import anyaccel

from .peaks import best_seconds
from .speed_table import KERNELS


def measure(kernel, accelerator, peaks, small):
    """Return the row of a kernel, or None if its op is unsupported here."""
    builder = accelerator.create_op_builder(kernel.builder)
    if not builder.compatibility().compatible:
        return None
    made = kernel.make(builder.load(), torch.device(accelerator.current_device_name()), small)
    row = {"name": kernel.name, "ours_us": best_seconds(made.ours, accelerator.synchronize) * 1e6 / made.calls}
    if made.torch is not None:
        try:
            row["torch_us"] = best_seconds(made.torch, accelerator.synchronize) * 1e6 / made.calls
        except (RuntimeError, NotImplementedError) as error:
            row["torch_failed"] = f"{type(error).__name__}: {error}"[:200]
    rate = (made.bytes or made.flops) / (row["ours_us"] * 1e-6)
    peak = peaks["copy"] if made.bytes else peaks["matmul"].get(made.dtype)
    if peak:
        row.update(share=rate / peak, peak="copy bandwidth" if made.bytes else f"{made.dtype} matrix products")
    return row


def main():
    parser = argparse.ArgumentParser(prog="python3 -m anyaccel_prove.checks.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--peaks", metavar="FILE", type=pathlib.Path, required=True, help="output file of peaks.py")
    parser.add_argument("--small", action="store_true", help="use sizes that suit a CPU")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="time only matching kernels")
    options = parser.parse_args()
    peaks = json.loads(options.peaks.read_text())
    torch.manual_seed(0)
    accelerator = anyaccel.get_accelerator()
    rows, failed = [], []
    with torch.no_grad():
        for kernel in KERNELS:
            if not fnmatch.fnmatchcase(kernel.name, options.only):
                continue
            try:
                row = measure(kernel, accelerator, peaks, options.small)
            except Exception as error:  # the other kernels are still of interest
                print(f"{kernel.name}: {type(error).__name__}: {error}", file=sys.stderr)
                failed.append(kernel.name)
                continue
            if row:
                rows.append(row)
            if hasattr(accelerator, "empty_cache"):
                accelerator.empty_cache()
    ahead = [row["torch_us"] / row["ours_us"] for row in rows if "torch_us" in row]
    summary = f"{len(rows)} kernels"
    if ahead:
        summary += f", faster than torch in {sum(each >= 1 for each in ahead)} of {len(ahead)}"
    if failed:
        summary += f"; failed: {', '.join(failed)}"
    print(json.dumps({"kernels": rows, "summary": summary}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
