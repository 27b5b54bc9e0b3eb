"""The accelerator of this process; as DeepSpeed's `deepspeed.accelerator`."""

from .. import _native
from ..errors import make_error
from .accelerator import Accelerator

get_accelerator = _native.get_accelerator
is_current_accelerator_supported = _native.is_current_accelerator_supported


def set_accelerator(accelerator):
    """Makes an accelerator the one of this process: by its registered name, or an object of get_accelerator()."""
    if isinstance(accelerator, str):
        _native.set_accelerator_name(accelerator)
    elif isinstance(accelerator, Accelerator):
        _native.set_accelerator_object(accelerator)
    else:
        raise make_error("invalid_argument", "set_accelerator", "this is no accelerator", got=repr(accelerator),
                         want="a registered name or an anyaccel.Accelerator")


__all__ = ["Accelerator", "get_accelerator", "is_current_accelerator_supported", "set_accelerator"]
