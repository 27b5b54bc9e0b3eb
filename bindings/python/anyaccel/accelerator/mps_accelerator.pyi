from .accelerator import Accelerator

class MPS_Accelerator(Accelerator):
    """The accelerator "mps"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
