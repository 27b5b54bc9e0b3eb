"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

SDAA_Accelerator = class_of("sdaa", "SDAA_Accelerator")
