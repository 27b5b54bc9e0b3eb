"""As DeepSpeed's module of this name."""

from ._by_name import class_of

KLXPU_Accelerator = class_of("klxpu", "KLXPU_Accelerator")
