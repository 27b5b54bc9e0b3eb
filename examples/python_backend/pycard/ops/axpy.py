"""An op for the card, with its source in this package."""

from anyaccel.op_builder import OpBuilder

pycard_kernel_path = "csrc"  # folder of the sources, relative to the folder of this file


class AxpyBuilder(OpBuilder):
    NAME = "pycard_axpy"

    def sources(self):
        return ["axpy.cpp"]

    def cxx_args(self):
        return ["-O3"]
