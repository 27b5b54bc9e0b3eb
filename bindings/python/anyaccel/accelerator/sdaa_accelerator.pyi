from .accelerator import Accelerator

class SDAA_Accelerator(Accelerator):
    """The accelerator "sdaa".

    The constructor raises `unavailable`, with the reason, if it cannot run.
    """

    def __init__(self) -> None: ...
