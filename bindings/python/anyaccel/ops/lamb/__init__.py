"""As DeepSpeed's package of this name."""

from .fused_lamb import FusedLamb

__all__ = ["FusedLamb"]
