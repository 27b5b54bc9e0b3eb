"""Counterpart of DeepSpeed's module of the same name."""

from ._by_name import class_of

HPU_Accelerator = class_of("hpu", "HPU_Accelerator")
