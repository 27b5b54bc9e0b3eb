from .accelerator import Accelerator

class XPU_Accelerator(Accelerator):
    """The accelerator "xpu".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
