"""Counterpart of DeepSpeed's package `deepspeed.ops.adagrad`."""

from .cpu_adagrad import DeepSpeedCPUAdagrad

__all__ = ["DeepSpeedCPUAdagrad"]
