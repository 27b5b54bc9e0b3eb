from .accelerator import Accelerator

class XPU_Accelerator(Accelerator):
    """The accelerator "xpu"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
