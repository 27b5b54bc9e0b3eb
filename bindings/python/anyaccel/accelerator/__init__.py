"""This process's accelerator, with the same interface as `deepspeed.accelerator`."""

from .. import _native, backend
from ..errors import make_error
from .abstract_accelerator import DeepSpeedAccelerator
from .accelerator import Accelerator

get_accelerator = _native.get_accelerator
is_current_accelerator_supported = _native.is_current_accelerator_supported


def set_accelerator(accelerator: "str | Accelerator | DeepSpeedAccelerator") -> None:
    """Set the accelerator of this process.

    `accelerator` is a registered name, an object from get_accelerator(), or an instance of a class
    that derives from DeepSpeedAccelerator (abstract_accelerator.py). get_accelerator() returns such
    an instance unchanged.
    """
    if isinstance(accelerator, str):
        backend.load_entry_points(accelerator)
        _native.set_accelerator_name(accelerator)
    elif isinstance(accelerator, _native.Accelerator):
        _native.set_accelerator_object(accelerator)
    elif isinstance(accelerator, DeepSpeedAccelerator):
        _native.set_accelerator_object(accelerator._all(), accelerator)
    else:
        raise make_error("invalid_argument", "set_accelerator", "the argument is not an accelerator", got=repr(accelerator),
                         want="a registered name or an anyaccel.Accelerator")


__all__ = ["Accelerator", "DeepSpeedAccelerator", "get_accelerator", "is_current_accelerator_supported", "set_accelerator"]
