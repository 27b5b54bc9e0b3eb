"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

SUPA_Accelerator = class_of("supa", "SUPA_Accelerator")
