from .accelerator import Accelerator

class CPU_Accelerator(Accelerator):
    """The accelerator "cpu"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
