from .accelerator import Accelerator

class HPU_Accelerator(Accelerator):
    """The accelerator "hpu".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
