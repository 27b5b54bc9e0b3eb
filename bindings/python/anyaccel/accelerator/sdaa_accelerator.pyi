from .accelerator import Accelerator

class SDAA_Accelerator(Accelerator):
    """The accelerator "sdaa".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
