"""Counterpart of `deepspeed.comm` (`import anyaccel.comm as dist`), and torch.distributed backends
for devices whose vendor does not provide one.

    torch.distributed.init_process_group(get_accelerator().communication_backend_name())

works on every accelerator: selecting an accelerator registers its backend name with torch, unless
torch or a vendor's package already has a backend of that name. "staged" is always registered.
`import anyaccel` registers "shm", which runs collectives over shared memory between the ranks on
one host. On the host, "ccl" is registered too; if oneCCL is unavailable, using it raises an error
with the reason. torch itself rejects "nccl" and "xccl" if it was built without them;
init_process_group() without a name then uses "staged". If the simulator stands in for CUDA or XPU,
these names also use "staged".
"""

import os
from typing import Any

from torch import distributed

STAGED = "staged"
CCL = "ccl"
SHM = "shm"


def register_shared_memory():
    """Register "shm" with torch for host tensors, unless the name is already taken.

    register() later adds the accelerator's device type.
    """
    if distributed.is_available() and not _is_taken(SHM):
        distributed.Backend.register_backend(SHM, _maker(SHM), devices=["cpu"])


def _is_taken(name):
    """Return whether another package has registered the name."""
    taken = distributed.Backend._plugins.get(name.upper())
    return taken is not None and not hasattr(taken.creator_fn, "anyaccel_name")


def register(accelerator, names=None):
    """Register "staged", "shm" and `names` (default: the accelerator's communication backend) with
    torch, except names that are already taken.
    """
    if not distributed.is_available():
        return
    devices = list(dict.fromkeys(["cpu", accelerator.device_type()]))
    for name in (STAGED, SHM, *(names or [accelerator.communication_backend_name()])):
        if _is_taken(name):
            continue
        if name in _built_in():
            # A name reserved by torch. If this torch lacks that backend, ours becomes the device's
            # default.
            if getattr(distributed, f"is_{name}_available", lambda: True)():
                continue
            if os.environ.get("SIM_STANDS_IN_FOR") and name in ("nccl", "xccl"):
                from . import _stand_in  # requires torch.distributed
                _stand_in.add(name, _maker(name))
            else:
                distributed.Backend.default_device_backend_map[accelerator.device_type()] = STAGED
            continue
        distributed.Backend.register_backend(name, _maker(name), devices=devices)
    if accelerator.device_type() != "cpu":
        _add_host_by_default(accelerator.device_type())


def _add_host_by_default(device_type):
    """Make init_process_group() also use gloo for host tensors if it is called without a backend.
    """
    config = distributed.distributed_c10d.BackendConfig
    if getattr(config, "_anyaccel_device_type", None) == device_type:
        return
    config._anyaccel_device_type = device_type
    initialize = config.__init__

    def with_host(self, backend):
        initialize(self, backend)
        undefined = str(backend) == distributed.Backend.UNDEFINED
        if undefined and list(self.device_backend_map) == [device_type] and distributed.is_gloo_available():
            self.device_backend_map = {"cpu": distributed.Backend("gloo"), **self.device_backend_map}

    config.__init__ = with_host


def _built_in():
    backend = distributed.Backend
    return {backend.GLOO, backend.NCCL, backend.UCC, backend.MPI, getattr(backend, "XCCL", "xccl")}


def _maker(name):

    def make(store, rank, size, timeout):
        from .. import _comm
        return _comm.make_backend(name, store, rank, size, timeout.total_seconds())

    make.anyaccel_name = name
    return make


def __getattr__(name: str) -> Any:
    # DeepSpeed's functions are imported on demand, because most programs do not use them.
    import importlib
    functions = importlib.import_module(f"{__name__}.comm")
    if name in functions.__all__:
        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
