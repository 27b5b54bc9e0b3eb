"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

XPU_Accelerator = class_of("xpu", "XPU_Accelerator")
