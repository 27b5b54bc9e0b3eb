"""Run a program that was written for CUDA on this process's accelerator.

    import anyaccel.as_cuda  # before the first use of torch.cuda

redirects CUDA devices, torch.cuda, "nccl" and the rest to get_accelerator(). `anyaccel run --as-cuda`
and `python -m anyaccel.as_cuda` do the same for programs that cannot be edited, and for their child
processes. Nothing changes if the accelerator is cuda.
"""

from __future__ import annotations

import atexit
import os

from .. import _program, _torch  # noqa: F401  (imports torch)
from ..accelerator import get_accelerator
from . import visible
from .cuda_module import CudaModule
from .devices import CUDA, Devices
from .distributed import Distributed
from .mode import Redirect
from .modules import count_calls
from .patches import Patches
from .pretend import pretended
from .script_compiler import ScriptCompiler
from .scripts import redirect_factories
from .settings import Settings
from .threads import enter_everywhere
from .torch_parts import TorchParts
from .usage import Usage

_patches: Patches | None = None
_usage = Usage()


def enable(settings: Settings | None = None) -> bool:
    """Redirect CUDA to the accelerator. Return False if there is nothing to redirect: the accelerator is
    cuda itself, or CUDA_VISIBLE_DEVICES hides all devices. Idempotent."""
    global _patches
    settings = settings or Settings.from_environment()
    device = pretended(settings.pretend)
    settings.export()
    visible.export_hook()
    if _patches is not None:
        return True
    if visible.hides_all():
        return False
    visible.translate()
    accelerator = get_accelerator()
    if accelerator.device_type() == CUDA:
        return False
    _patches = patches = Patches()
    devices = Devices(accelerator.device_type())
    CudaModule(accelerator, devices, _usage, patches, device).install()
    parts = TorchParts(accelerator, devices, _usage, patches)
    parts.install()
    Distributed(parts, accelerator).install()
    redirect_factories(devices, _usage, patches)
    ScriptCompiler(devices, _usage, patches).install()
    count_calls(_usage, patches)
    enter_everywhere(Redirect(accelerator, devices, _usage), patches)
    if not _is_worker():
        atexit.register(_report_at_exit, settings, os.getpid())
    return True


def disable() -> None:
    """Restore torch in this process. Running threads keep redirecting devices."""
    global _patches
    if _patches is not None:
        _patches.restore()
        _patches = None


def enabled() -> bool:
    """Return whether this process redirects CUDA."""
    return _patches is not None


def report() -> "dict[str, object]":
    """Return what this process has redirected so far, and what it used that has no equivalent."""
    accelerator = get_accelerator()
    return _usage.as_json(accelerator.name(), accelerator.device_type())


def _is_worker() -> bool:
    """Whether this is a multiprocessing child or a rank other than 0. Such processes do not report."""
    import multiprocessing
    return multiprocessing.parent_process() is not None or os.environ.get("RANK", "0") != "0"


def _report_at_exit(settings: Settings, process: int) -> None:
    if os.getpid() != process or _patches is None:
        return
    accelerator = get_accelerator()
    _usage.write(accelerator.name(), accelerator.device_type(), os.environ.get("ANYACCEL_AS_CUDA_REPORT", settings.report), settings.quiet)


if not _program.is_asked_for("anyaccel.as_cuda"):
    enable()
