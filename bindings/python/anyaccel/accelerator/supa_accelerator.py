"""Counterpart of DeepSpeed's module of the same name."""

from ._by_name import class_of

SUPA_Accelerator = class_of("supa", "SUPA_Accelerator")
