from .accelerator import Accelerator

class NPU_Accelerator(Accelerator):
    """The accelerator "npu".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
