"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

CPU_Accelerator = class_of("cpu", "CPU_Accelerator")
