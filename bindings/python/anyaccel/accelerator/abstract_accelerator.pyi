# What an accelerator written in Python has beside the methods of all: those it leaves out are AnyAccel's. Its objects are
# instances of Accelerator for isinstance(), too, although no class stands between.
from .accelerator import Accelerator

class DeepSpeedAccelerator(Accelerator):
    """Base of accelerators that are written in Python with DeepSpeed's methods. A class sets `_name` after `super().__init__()`, and
    `_communication_backend_name` and `_compile_backend` where they differ; it overrides what it knows better."""

    _name: str | None
    _communication_backend_name: str | None
    _compile_backend: str | None
    def __init__(self) -> None: ...
