"""Mixed precision, as older DeepSpeed releases have it in `get_accelerator().amp()`."""

import torch


class Amp:
    """`autocast` and `GradScaler` for one accelerator."""

    def __init__(self, accelerator):
        self._accelerator = accelerator

    def autocast(self, dtype, enabled=True, cache_enabled=True):
        """Runs the ops of a `with` block in `dtype` where that is safe."""
        return self._accelerator.autocast(dtype, enabled=enabled, cache_enabled=cache_enabled)

    def GradScaler(self, **options):
        """torch.amp.GradScaler for this accelerator's devices."""
        return torch.amp.GradScaler(device=self._accelerator.device_type(), **options)

    grad_scaler = GradScaler
