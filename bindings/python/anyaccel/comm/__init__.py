"""DeepSpeed's `deepspeed.comm` (`import anyaccel.comm as dist`), and backends for torch.distributed where no vendor's own is loaded.

    torch.distributed.init_process_group(get_accelerator().communication_backend_name())

works on every accelerator: its name is offered to torch when the accelerator is chosen, unless torch or a vendor's
package has a backend of that name. "staged" is always offered, and on the host "ccl": oneCCL, or an error that says why
it is not to be had. torch itself refuses "nccl" and "xccl" where it was built without them; its
default for the device, init_process_group() without a name, is then "staged".
"""

from typing import Any

from torch import distributed

STAGED = "staged"
CCL = "ccl"


def register(accelerator, names=None):
    """Offers "staged" and these names, or the accelerator's own, where nobody else has them."""
    if not distributed.is_available():
        return
    devices = list(dict.fromkeys(["cpu", accelerator.device_type()]))
    for name in (STAGED, *(names or [accelerator.communication_backend_name()])):
        taken = distributed.Backend._plugins.get(name.upper())
        if taken is not None and not hasattr(taken.creator_fn, "anyaccel_name"):
            continue  # a vendor's
        if name in _built_in():
            # Not for others to offer; where this torch lacks it, the default for the device is ours.
            if not getattr(distributed, f"is_{name}_available", lambda: True)():
                distributed.Backend.default_device_backend_map[accelerator.device_type()] = STAGED
            continue
        distributed.Backend.register_backend(name, _maker(name), devices=devices)


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
    # DeepSpeed's functions; imported when they are asked for, because most programs do not.
    import importlib
    functions = importlib.import_module(f"{__name__}.comm")
    if name in functions.__all__:
        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
