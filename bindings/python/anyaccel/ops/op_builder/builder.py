"""Counterpart of the DeepSpeed module with the same name: base classes for an extension's op
builders.
"""

import torch

from ...op_builder import OpBuilder

TORCH_MAJOR, TORCH_MINOR = (int(part) for part in torch.__version__.split(".")[:2])


class CPUOpBuilder(OpBuilder):
    """Base class for builders of C++ sources."""

    def cxx_args(self):
        return ["-O3", "-g", "-Wno-reorder", self.cpu_arch(), "-fopenmp", self.simd_width()]


class CUDAOpBuilder(OpBuilder):
    """Base class for builders of C++ and CUDA sources.

    The build service chooses the compiler and the GPU architectures.
    """

    def compute_capability_args(self, cross_compile_archs=None):
        return []

    def version_dependent_macros(self):
        """Return DeepSpeed's macros for minimum torch versions. Every torch version that AnyAccel
        supports satisfies these.
        """
        return ["-DVERSION_GE_1_1", "-DVERSION_GE_1_3", "-DVERSION_GE_1_5"]

    def cxx_args(self):
        return ["-O3", "-g", "-Wno-reorder"]

    def nvcc_args(self):
        return ["-O3"]


__all__ = ["CPUOpBuilder", "CUDAOpBuilder", "OpBuilder", "TORCH_MAJOR", "TORCH_MINOR"]
