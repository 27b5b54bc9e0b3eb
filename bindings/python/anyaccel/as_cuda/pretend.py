"""The NVIDIA devices that `--pretend` knows."""

from __future__ import annotations

import dataclasses

from ..errors import make_error


@dataclasses.dataclass(frozen=True)
class Pretended:
    """Values that torch.cuda reports instead of the real ones. None or 0 means the real value."""
    name: str = ""
    capability: tuple[int, int] | None = None
    processors: int = 0
    memory: int = 0


def _device(name: str, capability: tuple[int, int], processors: int, gibibytes: int) -> Pretended:
    return Pretended(name, capability, processors, gibibytes << 30)


DEVICES = {
    "NVIDIA V100": _device("Tesla V100-SXM2-32GB", (7, 0), 80, 32),
    "NVIDIA T4": _device("Tesla T4", (7, 5), 40, 15),
    "NVIDIA A100": _device("NVIDIA A100-SXM4-80GB", (8, 0), 108, 80),
    "NVIDIA A10": _device("NVIDIA A10", (8, 6), 72, 22),
    "NVIDIA GeForce RTX 3090": _device("NVIDIA GeForce RTX 3090", (8, 6), 82, 24),
    "NVIDIA GeForce RTX 4090": _device("NVIDIA GeForce RTX 4090", (8, 9), 128, 24),
    "NVIDIA L4": _device("NVIDIA L4", (8, 9), 58, 22),
    "NVIDIA L40S": _device("NVIDIA L40S", (8, 9), 142, 44),
    "NVIDIA H100": _device("NVIDIA H100 80GB HBM3", (9, 0), 132, 80),
    "NVIDIA H200": _device("NVIDIA H200", (9, 0), 132, 140),
    "NVIDIA B200": _device("NVIDIA B200", (10, 0), 148, 180),
}


def pretended(name: str) -> Pretended:
    """The device with this name. Raises `invalid_argument` for an unknown name; "" means the real device."""
    if not name:
        return Pretended()
    for known, device in DEVICES.items():
        if name.lower() in (known.lower(), device.name.lower()):
            return device
    raise make_error("invalid_argument", "as_cuda", "unknown device name for --pretend", got=repr(name), want=", ".join(DEVICES))
