"""Counterpart of the DeepSpeed module with the same name."""

from ._by_name import class_of

CUDA_Accelerator = class_of("cuda", "CUDA_Accelerator")
