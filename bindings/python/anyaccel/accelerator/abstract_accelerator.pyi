# Members of accelerators written in Python, in addition to those of Accelerator. Methods that a
# class does not define come from AnyAccel. At run time the class does not derive from Accelerator,
# but isinstance() treats its objects as instances.
from .accelerator import Accelerator

class DeepSpeedAccelerator(Accelerator):
    """Base class for accelerators written in Python, with DeepSpeed's methods.

    A derived class sets `_name` after `super().__init__()`. It also sets
    `_communication_backend_name` and `_compile_backend` if they differ from the device's defaults.
    It overrides methods as needed.
    """

    _name: str | None
    _communication_backend_name: str | None
    _compile_backend: str | None
    def __init__(self) -> None: ...
