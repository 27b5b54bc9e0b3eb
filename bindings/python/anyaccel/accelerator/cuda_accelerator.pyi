from .accelerator import Accelerator

class CUDA_Accelerator(Accelerator):
    """The accelerator "cuda".

    The constructor raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self) -> None: ...
