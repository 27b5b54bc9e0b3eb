from .accelerator import Accelerator

class KLXPU_Accelerator(Accelerator):
    """The accelerator "klxpu".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
