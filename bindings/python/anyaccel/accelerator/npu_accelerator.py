"""As DeepSpeed's module of this name."""

from ._by_name import class_of

NPU_Accelerator = class_of("npu", "NPU_Accelerator")
