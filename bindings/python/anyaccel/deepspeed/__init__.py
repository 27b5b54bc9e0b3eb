"""Makes DeepSpeed use AnyAccel's accelerator and ops.

Import this module before DeepSpeed; nothing else is needed:

    import anyaccel.deepspeed
    import deepspeed

ANYACCEL_DEEPSPEED=1 does the same in every Python process that finds the installed package,
including launchers' children and workers. Alternatively, an import hook of your own may import this
module right after `deepspeed.accelerator.real_accelerator` is executed.
"""

import sys
from typing import Any

import _anyaccel_deepspeed as _hook

from ..errors import make_error


def accelerator() -> Any:
    """Return this process's accelerator object for DeepSpeed's `set_accelerator`. Its class derives
    from DeepSpeedAccelerator.

    The object represents the accelerator that AnyAccel uses at the time of the first call. That
    call imports DeepSpeed, which then uses this object unless a different one was already set.
    """
    from . import adapter
    return adapter.accelerator()


def _install():
    # If the hook is already installed, it patches DeepSpeed during DeepSpeed's import.
    if _hook.installed():
        return
    real = sys.modules.get(_hook.MODULE)
    # During its import, DeepSpeed binds builders and methods of the accelerator stored in `real`.
    # Once an accelerator is stored there, it is too late to replace it.
    if real is not None and (real.__dict__.get("ds_accelerator") is not None or not hasattr(real, "set_accelerator")):
        raise make_error("invalid_state", "anyaccel.deepspeed", "DeepSpeed has already selected its own accelerator and bound that accelerator's functions",
                         hint="do one of these: import anyaccel.deepspeed before deepspeed; set ANYACCEL_DEEPSPEED=1 for the whole program; import "
                         f"anyaccel.deepspeed in an import hook right after {_hook.MODULE} is executed")
    _hook.install()
    if real is not None:
        _hook.catch_up()


_install()

__all__ = ["accelerator"]
