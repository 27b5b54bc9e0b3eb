"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

KLXPU_Accelerator = class_of("klxpu", "KLXPU_Accelerator")
