"""DeepSpeed on AnyAccel's accelerator and ops. Imported before DeepSpeed, it is all that a program needs:

    import anyaccel.deepspeed
    import deepspeed

ANYACCEL_DEEPSPEED=1 does the same in every Python process that finds the installed package: launchers' children and workers, too.
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
    if _hook.MODULE in sys.modules and not _hook.installed():
        raise make_error("invalid_state", "anyaccel.deepspeed", "DeepSpeed was imported before, and has bound what its own accelerator gave",
                         hint="import anyaccel.deepspeed first, or set ANYACCEL_DEEPSPEED=1 for the whole program")
    _hook.install()


_install()

__all__ = ["accelerator"]
