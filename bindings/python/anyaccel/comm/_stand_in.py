"""Provides torch.distributed's "nccl" and "xccl" if the simulator stands in for CUDA or XPU.

A torch without CUDA has no class ProcessGroupNCCL and rejects the name "nccl". The class made here
creates the backend `staged` instead, so that programs that request "nccl" run unchanged.
"""

from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import constants, distributed_c10d

# Version that torch.cuda.nccl.version() returns. Programs read it to decide which dtypes and
# reductions they may use; `staged` supports those of this version.
NCCL_VERSION = (2, 21, 5)
# Default time limit for an operation, as in torch's NCCL backend.
NCCL_TIMEOUT = timedelta(minutes=10)


def add(name, make):
    """Register the backend `name`, nccl or xccl, with torch. `make(store, rank, size, timeout)`
    creates its instances.
    """
    class_name = f"ProcessGroup{name.upper()}"
    found = _make_class(class_name, name, make)
    for module in (torch._C._distributed_c10d, distributed_c10d, distributed):
        setattr(module, class_name, found)
    setattr(distributed_c10d, f"_{name.upper()}_AVAILABLE", True)
    if name == "nccl":
        constants.default_pg_nccl_timeout = distributed_c10d.default_pg_nccl_timeout = NCCL_TIMEOUT
        major, minor, patch = NCCL_VERSION
        torch._C._nccl_version = lambda: major << 32 | minor << 16 | patch
        torch._C._nccl_version_suffix = lambda: b""


def _make_class(class_name, name, make):
    backend = torch._C._distributed_c10d.Backend

    class StandIn(type):

        def __call__(cls, store, rank, size, options=None):
            timeout = options if isinstance(options, timedelta) else getattr(options, "_timeout", NCCL_TIMEOUT)
            return make(store, rank, size, timeout)

        def __instancecheck__(cls, instance):
            return isinstance(instance, backend) and instance.name() == "staged"

    class Options(backend.Options):
        """Options of the backend. The backend `staged` uses only the time limit."""

        def __init__(self, is_high_priority_stream=False):
            super().__init__(name, NCCL_TIMEOUT)
            self.is_high_priority_stream = is_high_priority_stream

    # Methods that torch calls on every instance of this class.
    for method, function in (("_set_default_timeout", backend.set_timeout), ("_group_start", _nothing_to_group),
                             ("_group_end", _nothing_to_group)):
        if not hasattr(backend, method):
            setattr(backend, method, function)
    if not hasattr(backend, "uid"):
        backend.uid = -1  # in torch's logs, -1 means that the group does not use NCCL
    return StandIn(class_name, (), {"Options": Options, "__module__": distributed_c10d.__name__})


def _nothing_to_group(self):
    """Do nothing: staged operations do not wait for each other when groups are aborted."""
