"""One interface for every device that torch supports: `get_accelerator()`, with DeepSpeed's method
names.

    from anyaccel import get_accelerator

    accelerator = get_accelerator()
    x = torch.ones(4, device=accelerator.current_device_name())
    accelerator.synchronize()

Importing this package does not select an accelerator or use a device. Set `DS_ACCELERATOR=name` or
call `set_accelerator(name)` to select one.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _program, _torch

if _program.is_asked_for():
    import sys as _sys
    _program.run(_sys.argv[1:])  # before importing torch, which the launcher does not need
if _program.is_asked_for("anyaccel.profiler"):
    _program.run_profile_report()  # does not need torch either
_torch.require()

from . import _deepspeed_paths, _thread_exit, _native  # noqa: E402, F401
from .accelerator import Accelerator, get_accelerator, is_current_accelerator_supported, set_accelerator  # noqa: E402
from .backend import Backend, register_backend  # noqa: E402
from .comm import register_shared_memory as _register_shared_memory  # noqa: E402
from .errors import Error  # noqa: E402
from .op_builder import OpBuilder  # noqa: E402
from .stream import Event, Stream  # noqa: E402

Graph = _native.Graph
communication_backend_reason = _native.communication_backend_reason
detect = _native.detect
detection = _native.detection
registered_backends = _native.registered_backends
__version__ = _native.__version__


_deepspeed_paths.install()
_register_shared_memory()


if _TYPE_CHECKING:
    from .comm import init_distributed as init_distributed
    from .ops.transformer import DeepSpeedTransformerConfig as DeepSpeedTransformerConfig
    from .ops.transformer import DeepSpeedTransformerLayer as DeepSpeedTransformerLayer
else:

    def __getattr__(name):
        return _deepspeed_paths.attribute(name)


def report(*, show: bool = True) -> "dict[str, object]":
    """Print which accelerator this process uses and why, and what hardware the machine has, like
    `anyaccel report`.

    Return the report as a dict: the output of `anyaccel report --json`, plus the versions of
    Python, torch, DeepSpeed and transformers in "versions". `show=False` prints nothing.
    """
    from . import _report
    return _report.report(show)


__all__ = [
    "Accelerator", "Backend", "Error", "Event", "Graph", "OpBuilder", "Stream", "communication_backend_reason", "detect", "detection",
    "get_accelerator", "is_current_accelerator_supported", "register_backend", "registered_backends", "report", "set_accelerator"
]
