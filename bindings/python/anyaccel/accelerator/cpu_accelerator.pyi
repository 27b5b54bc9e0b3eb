from .accelerator import Accelerator

class CPU_Accelerator(Accelerator):
    """The accelerator "cpu".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
