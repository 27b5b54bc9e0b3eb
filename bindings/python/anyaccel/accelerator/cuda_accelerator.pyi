from .accelerator import Accelerator

class CUDA_Accelerator(Accelerator):
    """The accelerator "cuda"; making one is `unavailable`, with the reason, where it cannot run."""

    def __init__(self) -> None: ...
