"""Maps CUDA devices to the accelerator's devices, and back when the program looks at them."""

from __future__ import annotations

import sys
import typing

import torch

from .. import _torch

CUDA = _torch.CUDA

# Packages whose code sees the true devices of tensors. All other code belongs to the program.
_INTERNAL = frozenset(("torch", "functorch", "anyaccel", "anyaccel_port"))


class Devices:
    """The accelerator's device type, and the mapping between its devices and CUDA's."""

    def __init__(self, device_type: str) -> None:
        self.type = device_type
        self.is_cpu = device_type == "cpu"
        self._known: dict[object, torch.device | None] = {}

    def of(self, device: object) -> torch.device | None:
        """The accelerator's device for a CUDA device given as a name, a torch.device or an index. None
        if it is not a CUDA device, or cannot be parsed."""
        if type(device) not in (str, torch.device, int):
            return None
        try:
            return self._known[device]
        except KeyError:
            return self._known.setdefault(device, self._map(device))

    def _map(self, device: str | torch.device | int) -> torch.device | None:
        if isinstance(device, int):
            return self.at(device)
        if isinstance(device, str):
            if not device.startswith(CUDA):
                return None
            device = torch.device(device)
        return self.at(device.index) if device.type == CUDA else None

    def at(self, index: int | None) -> torch.device:
        """The accelerator's device with this index. The CPU has one device, which stands for every index."""
        return torch.device(self.type) if index is None or index < 0 or self.is_cpu else torch.device(self.type, index)

    def index(self, device: object) -> int | None:
        """The index of a device, in any form that CUDA's functions accept. None means the current device."""
        if device is None:
            return None
        if isinstance(device, (str, torch.device)):
            given = torch.device(device)
            if given.type not in (CUDA, self.type):
                raise ValueError(f"Expected a cuda device, but got: {given}")
            return None if self.is_cpu else given.index
        number = int(typing.cast(int, device.__index__() if hasattr(device, "__index__") else device))
        return None if self.is_cpu else number

    def shown(self, device: torch.device) -> torch.device:
        """The CUDA device that stands for one of the accelerator's. The CPU is shown as it is,
        because host tensors are on the same device."""
        if self.is_cpu or device.type != self.type:
            return device
        return torch.device(CUDA, device.index or 0)


def is_program(depth: int) -> bool:
    """Whether the frame `depth` levels above the caller belongs to the program. Frames of other
    function modes are skipped."""
    frame = sys._getframe(depth + 1)
    while frame.f_code.co_name == "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    return is_programs(frame.f_globals.get("__name__"))


def is_programs(module: object) -> bool:
    """Whether a module with this name belongs to the program."""
    return not isinstance(module, str) or module.partition(".")[0] not in _INTERNAL
