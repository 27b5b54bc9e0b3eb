"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

MLU_Accelerator = class_of("mlu", "MLU_Accelerator")
