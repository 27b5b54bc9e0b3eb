"""Visible devices, and the environment of child processes."""

from __future__ import annotations

import os

from .. import _build_info

CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES"

# The variables of the other backends. `visible_devices_envs()` cannot be used, because an
# accelerator reads its variable when it is created.
VARIABLES = ("SIM_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "MLU_VISIBLE_DEVICES",
             "SDAA_VISIBLE_DEVICES", "SUPA_VISIBLE_DEVICES")


def hides_all() -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides all devices, so that a CUDA program uses the CPU."""
    value = os.environ.get(CUDA_VARIABLE)
    return value is not None and value.strip() in ("", "-1")


def translate() -> None:
    """Set the accelerators' variables to the devices that CUDA_VISIBLE_DEVICES selects, unless they are
    set."""
    value = os.environ.get(CUDA_VARIABLE)
    if value and all(part.strip().isdigit() for part in value.split(",")):
        for name in VARIABLES:
            os.environ.setdefault(name, value)


def export_hook() -> None:
    """Make child processes run the Python hook, so that they redirect CUDA too."""
    prefix = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), _build_info.PROGRAMS, os.pardir)
    hook = os.path.normpath(os.path.join(prefix, "share", "anyaccel", "python_hook"))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if os.path.exists(os.path.join(hook, "sitecustomize.py")) and hook not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([hook, *filter(None, paths)])
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        os.environ.setdefault("ANYACCEL_PYTHON_PACKAGE", package)
