"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

HPU_Accelerator = class_of("hpu", "HPU_Accelerator")
