from .accelerator import Accelerator

class SUPA_Accelerator(Accelerator):
    """The accelerator "supa".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
