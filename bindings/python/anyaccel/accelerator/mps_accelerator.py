"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

MPS_Accelerator = class_of("mps", "MPS_Accelerator")
