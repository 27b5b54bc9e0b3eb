from .accelerator import Accelerator

class MPS_Accelerator(Accelerator):
    """The accelerator "mps".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
