"""As DeepSpeed's module of this name."""

from ._by_name import class_of

MPS_Accelerator = class_of("mps", "MPS_Accelerator")
