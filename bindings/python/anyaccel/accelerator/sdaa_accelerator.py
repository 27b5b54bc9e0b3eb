"""As DeepSpeed's module of this name."""

from ._by_name import class_of

SDAA_Accelerator = class_of("sdaa", "SDAA_Accelerator")
