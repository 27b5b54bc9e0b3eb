"""As DeepSpeed's module of this name."""

from ._by_name import class_of

SUPA_Accelerator = class_of("supa", "SUPA_Accelerator")
