"""Counterpart of DeepSpeed's module of the same name."""

from ._by_name import class_of

KLXPU_Accelerator = class_of("klxpu", "KLXPU_Accelerator")
