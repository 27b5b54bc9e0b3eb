"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

NPU_Accelerator = class_of("npu", "NPU_Accelerator")
