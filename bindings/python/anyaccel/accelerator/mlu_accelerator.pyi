from .accelerator import Accelerator

class MLU_Accelerator(Accelerator):
    """The accelerator "mlu"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
