from .accelerator import Accelerator

class KLXPU_Accelerator(Accelerator):
    """The accelerator "klxpu".

    The constructor raises `unavailable`, with the reason, if it cannot run.
    """

    def __init__(self) -> None: ...
