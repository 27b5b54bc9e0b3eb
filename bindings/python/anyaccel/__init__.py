"""One accelerator for every device that torch can reach: `get_accelerator()`, with DeepSpeed's method names.

    from anyaccel import get_accelerator

    accelerator = get_accelerator()
    x = torch.ones(4, device=accelerator.current_device_name())
    accelerator.synchronize()

Importing it chooses nothing and touches no device; `DS_ACCELERATOR=name` or `set_accelerator(name)` chooses.
"""

import torch as _torch  # noqa: F401  (before our library, which needs torch's)

from . import _native
from .accelerator import Accelerator, get_accelerator, is_current_accelerator_supported, set_accelerator
from .backend import Backend, register_backend
from .errors import Error
from .op_builder import OpBuilder
from .stream import Event, Stream

Graph = _native.Graph
communication_backend_reason = _native.communication_backend_reason
detect = _native.detect
detection = _native.detection
registered_backends = _native.registered_backends
__version__ = _native.__version__

__all__ = [
    "Accelerator", "Backend", "Error", "Event", "Graph", "OpBuilder", "Stream", "communication_backend_reason", "detect", "detection",
    "get_accelerator", "is_current_accelerator_supported", "register_backend", "registered_backends", "set_accelerator"
]
