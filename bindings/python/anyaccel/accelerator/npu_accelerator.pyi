from .accelerator import Accelerator

class NPU_Accelerator(Accelerator):
    """The accelerator "npu"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
