"""Counterpart of DeepSpeed's module of the same name."""

from ._by_name import class_of

CPU_Accelerator = class_of("cpu", "CPU_Accelerator")
