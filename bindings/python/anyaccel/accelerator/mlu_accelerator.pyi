from .accelerator import Accelerator

class MLU_Accelerator(Accelerator):
    """The accelerator "mlu".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
