"""As DeepSpeed's module of this name."""

from ._by_name import class_of

HPU_Accelerator = class_of("hpu", "HPU_Accelerator")
