"""Counterpart of DeepSpeed's package `deepspeed.ops.lamb`."""

from .fused_lamb import FusedLamb

__all__ = ["FusedLamb"]
