"""Measures the peak performance of the devices in a recording, after the program has ended.

    python PACKAGE/profiler/peak.py DIR

Adds `peak` to each process.json in DIR that was recorded on this host: the FLOP/s of a matrix
product for each dtype, and the memory bandwidth of a copy in bytes per second, counting reads and
writes. Run the file by its path: `python -m` imports torch before the number of CPU threads is set.
"""

import json
import os
import pathlib
import socket
import sys
import time
from typing import Any, Callable, Dict, List

SECONDS = 0.15  # seconds per measurement
DTYPES = ("float32", "bfloat16", "float16")


def best_time(call: Callable[[], Any], synchronize: Callable[[], Any], seconds: float = SECONDS) -> float:
    """Return the shortest duration of a call, in seconds."""
    call()
    synchronize()
    best, until = float("inf"), time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        call()
        synchronize()
        now = time.perf_counter()
        best = min(best, now - began)
        if now >= until:
            return best


def measure(device: Any, synchronize: Callable[[], Any], seconds: float = SECONDS) -> Dict[str, Any]:
    """Return {"flops": {dtype: FLOP/s}, "bytes_per_second": B/s}. Dtypes that fail are omitted."""
    import torch
    flops = {}
    for name in DTYPES:
        try:
            size = 256
            while True:
                a = torch.randn(size, size, device=device).to(getattr(torch, name))
                taken = best_time(lambda: a @ a, synchronize, seconds / 8)  # noqa: B023
                if taken > seconds / 30 or size >= 8192:
                    break
                size *= 2
            flops[name] = 2 * size**3 / min(taken, best_time(lambda: a @ a, synchronize, seconds))  # noqa: B023
        except RuntimeError:
            continue
    source = torch.zeros(1 << 26, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    copy = best_time(lambda: target.copy_(source), synchronize, seconds)
    return {"flops": flops, "bytes_per_second": 2 * source.numel() / copy}


def _device(data: Dict[str, Any]) -> Any:
    """Return (device, synchronize) for a recorded process."""
    import torch
    if data.get("device_type") in (None, "cpu"):
        return torch.device("cpu"), lambda: None
    from anyaccel import get_accelerator
    accelerator = get_accelerator()
    return torch.device(accelerator.current_device_name()), accelerator.synchronize


def add_peaks(folder: pathlib.Path) -> bool:
    """Measure the first accelerator among the recorded processes and record its peak in all
    processes that used it. Return whether that succeeded.
    """
    found: List[Any] = []
    for path in sorted(folder.glob("raw/*/process.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict) and data.get("host") == socket.gethostname() and data.get("peak") is None:
            found.append((path, data))
    if not found:
        return False
    # Processes may use different devices. The accelerator matters more than the CPU.
    first = next((data for _, data in found if data.get("device_type") != "cpu"), found[0][1])
    # Set before torch is imported, which reads OMP_NUM_THREADS only then.
    os.environ.update({name: str(value) for name, value in first.get("environment", {}).items()})
    if first.get("accelerator") and first["accelerator"] != "cpu":
        os.environ.setdefault("DS_ACCELERATOR", str(first["accelerator"]))
    peak = measure(*_device(first))
    for path, data in found:
        if (data.get("accelerator"), data.get("device_type")) == (first.get("accelerator"), first.get("device_type")):
            data["peak"] = peak
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(data), encoding="utf-8")
            temporary.replace(path)
    return True


if __name__ == "__main__":
    try:
        add_peaks(pathlib.Path(sys.argv[1]))
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        print(f"anyaccel profile: the device's peak performance is unknown: {reason}", file=sys.stderr)
        sys.exit(1)
