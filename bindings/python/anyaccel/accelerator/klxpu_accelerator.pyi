from .accelerator import Accelerator

class KLXPU_Accelerator(Accelerator):
    """The accelerator "klxpu"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
