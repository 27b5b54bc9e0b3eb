"""Measures the device's peaks with torch alone: copy bandwidth and matrix products.

usage: python3 -m anyaccel_prove.checks.peaks [--out FILE] [--anyaccel]

Prints one JSON object with the rows for the report, and writes the numbers for speed.py to FILE.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import time

import torch


def device_and_synchronize(with_anyaccel):
    """Return the torch device that DS_ACCELERATOR names, and a function that waits for it."""
    name = os.environ.get("DS_ACCELERATOR") or "cpu"
    if with_anyaccel:
        import anyaccel
        accelerator = anyaccel.get_accelerator()
        return torch.device(accelerator.current_device_name()), accelerator.synchronize
    try:
        device = torch.device(name)
    except RuntimeError:  # a backend whose name is not a device type of torch's
        device = torch.accelerator.current_accelerator()
    if device.type == "cpu":
        return device, lambda: None
    if not torch.accelerator.is_available() or torch.accelerator.current_accelerator().type != device.type:
        sys.exit(
            f"peaks: torch {torch.__version__} finds no device of type {device.type}. "
            "Install a torch build for it, or check the driver."
        )
    return device, torch.accelerator.synchronize


def best_seconds(call, synchronize, *, rounds=5, least=0.02):
    """Return the time per call in seconds, from the fastest round of back-to-back calls."""
    call()
    synchronize()
    repeats, best = 1, math.inf
    while True:
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        synchronize()
        seconds = time.perf_counter() - begin
        if seconds >= least or repeats >= 4096:
            break
        repeats = min(4096, max(repeats * 2, int(repeats * least / max(seconds, 1e-6))))
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        synchronize()
        best = min(best, (time.perf_counter() - begin) / repeats)
    return best


def matmul(device, synchronize, dtype):
    """Return the highest FLOP per second of square products with sizes up to 8192 or 50 ms."""
    best, size = 0.0, 512
    while size <= 8192:
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        seconds = best_seconds(lambda: left @ right, synchronize, rounds=3)
        best = max(best, 2 * size**3 / seconds)
        if seconds > 0.05:
            break
        size *= 2
    return best


def main():
    parser = argparse.ArgumentParser(prog="python3 -m anyaccel_prove.checks.peaks", description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FILE", type=pathlib.Path, help="file for the numbers")
    parser.add_argument("--anyaccel",
                        action="store_true",
                        help="get the device from AnyAccel, for devices that torch alone does not support")
    options = parser.parse_args()
    device, synchronize = device_and_synchronize(options.anyaccel)
    here = device.type == "cpu" or options.anyaccel
    count = (32 if here else 512) << 20
    source, target = (torch.zeros(count, dtype=torch.uint8, device=device) for _ in range(2))
    numbers = {"copy": 2 * count / best_seconds(lambda: target.copy_(source), synchronize), "matmul": {}}
    rows = [{"name": "copy, read and write", "value": numbers["copy"] / 1e9, "unit": "GB/s"}]
    if device.type != "cpu":
        host = torch.empty(count // 4, dtype=torch.uint8)
        try:
            host = host.pin_memory()
        except RuntimeError:
            pass  # the backend has no pinned memory
        part = target[:count // 4]
        for name, call in (("host to device", lambda: part.copy_(host, non_blocking=True)),
                           ("device to host", lambda: host.copy_(part, non_blocking=True))):
            rows.append({
                "name": f"{name}, {'pinned' if host.is_pinned() else 'pageable'}",
                "value": count / 4 / best_seconds(call, synchronize) / 1e9, "unit": "GB/s"
            })
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        try:
            numbers["matmul"][name] = matmul(device, synchronize, dtype)
        except RuntimeError:
            continue  # the device lacks this dtype
        rows.append({"name": f"matrix product, {name}", "value": numbers["matmul"][name] / 1e12, "unit": "TFLOP/s"})
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(numbers))
    summary = ", ".join(f"{row['name']} {row['value']:.3g} {row['unit']}" for row in rows if "host" not in row["name"])
    print(json.dumps({"peaks": rows, "summary": summary}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
