from .accelerator import Accelerator

class HPU_Accelerator(Accelerator):
    """The accelerator "hpu"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
