"""An op of the card's own, from a source in this package."""

from anyaccel.op_builder import OpBuilder

pycard_kernel_path = "csrc"  # where the sources lie, below this folder


class AxpyBuilder(OpBuilder):
    NAME = "pycard_axpy"

    def sources(self):
        return ["axpy.cpp"]

    def cxx_args(self):
        return ["-O3"]
