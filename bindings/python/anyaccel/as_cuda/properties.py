"""Properties of the accelerator's devices, under the names of torch.cuda."""

from __future__ import annotations

import typing

from ..errors import Error
from .pretend import Pretended


def capability_of(accelerator: typing.Any, index: int | None, pretended: Pretended) -> tuple[int, int]:
    """The compute capability of a device; (0, 0), which no CUDA device has, if it has none."""
    if pretended.capability is not None:
        return pretended.capability
    try:
        return tuple(accelerator.compute_capability(index))
    except Error:
        return (0, 0)


class Properties:
    """The result of torch.cuda.get_device_properties(). Numbers that only CUDA devices have raise
    AttributeError."""

    def __init__(self, accelerator: typing.Any, index: int | None, pretended: Pretended) -> None:
        self._true = accelerator.device_properties(index)
        self.name = pretended.name or self._true.name
        self.major, self.minor = capability_of(accelerator, index, pretended)
        self.total_memory = pretended.memory or self._true.total_memory
        self.multi_processor_count = pretended.processors or max(self._true.multi_processor_count, 1)
        self.is_integrated = self.is_multi_gpu_board = 0
        self.warp_size = 32

    def __getattr__(self, name: str) -> typing.Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._true, name)

    def __repr__(self) -> str:
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})")
