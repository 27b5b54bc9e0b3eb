from .accelerator import Accelerator

class SUPA_Accelerator(Accelerator):
    """The accelerator "supa"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
