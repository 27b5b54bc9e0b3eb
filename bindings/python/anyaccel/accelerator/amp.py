"""Mixed precision with the interface of `get_accelerator().amp()` in older DeepSpeed releases."""

from typing import Any

import torch

from .. import _native


class Amp:
    """`autocast` and `GradScaler` for one accelerator."""

    def __init__(self, accelerator: "_native.Accelerator") -> None:
        self._accelerator = accelerator

    def autocast(self, dtype: torch.dtype, enabled: bool = True, cache_enabled: bool = True) -> "_native.Scope":
        """Return a context manager that runs ops in `dtype` if that is numerically safe."""
        return self._accelerator.autocast(dtype, enabled=enabled, cache_enabled=cache_enabled)

    def GradScaler(self, **options: Any) -> torch.amp.GradScaler:
        """Return a torch.amp.GradScaler for this accelerator's devices."""
        return torch.amp.GradScaler(device=self._accelerator.device_type(), **options)

    grad_scaler = GradScaler
