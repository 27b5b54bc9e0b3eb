from .accelerator import Accelerator

class SDAA_Accelerator(Accelerator):
    """The accelerator "sdaa"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
