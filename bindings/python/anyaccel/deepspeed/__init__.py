"""DeepSpeed on AnyAccel's accelerator and ops. Imported before DeepSpeed, it is all that a program needs:

    import anyaccel.deepspeed
    import deepspeed

ANYACCEL_DEEPSPEED=1 does the same in every Python process that finds the installed package: launchers' children and workers, too.
An import hook of your own may import this module instead, right after `deepspeed.accelerator.real_accelerator` was executed.
"""

import sys
from typing import Any

import _anyaccel_deepspeed as _hook

from ..errors import make_error


def accelerator() -> Any:
    """The object for DeepSpeed's `set_accelerator`: one a process, of a class that derives from its DeepSpeedAccelerator. It stands for
    AnyAccel's accelerator at the first call. Imports DeepSpeed, which then has this object already where nobody chose another."""
    from . import adapter
    return adapter.accelerator()


def _install():
    # With the hook in place already, DeepSpeed is what imports this module.
    if _hook.installed():
        return
    real = sys.modules.get(_hook.MODULE)
    # DeepSpeed binds builders and methods of its accelerator while it is imported, all of them through this module, which keeps the object.
    if real is not None and (real.__dict__.get("ds_accelerator") is not None or not hasattr(real, "set_accelerator")):
        raise make_error("invalid_state", "anyaccel.deepspeed", "DeepSpeed has chosen its own accelerator already and bound its functions",
                         hint="do one of these: import anyaccel.deepspeed before deepspeed; set ANYACCEL_DEEPSPEED=1 for the whole program; import "
                         f"anyaccel.deepspeed in an import hook right after {_hook.MODULE} was executed")
    _hook.install()
    if real is not None:
        _hook.catch_up()


_install()

__all__ = ["accelerator"]
