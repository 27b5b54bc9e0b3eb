"""Runs programs on each kind of `torch.<device type>` module that AnyAccel registers: new modules,
torch's own modules with AnyAccel's functions, and the module of a Python backend.
"""

import os
import subprocess
import sys

import child

PYTHON_BACKEND = """
import anyaccel
class Card(anyaccel.Backend):
    def current_device(self):
        return super().current_device()
    def default_generator(self, index):
        return super().default_generator(index)
anyaccel.register_backend("card", Card, base="sim")
"""
# Backends whose device type is a renamed PrivateUse1 or torch's CUDA type.
MORE_KINDS = ("npu", "mlu", "sdaa", "supa", "klxpu")
KINDS = {"sim": "", "npu": "", "hpu": "", "xpu": "", "mtia": "", "mps": "", "cuda": "", "card": PYTHON_BACKEND}


def run(code, kind="sim", **variables):
    """Run a program on an accelerator of this kind, with two devices."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DS_", "SIM_"))}
    environment |= {"DS_ACCELERATOR": kind, "SIM_DEVICES": "2", **variables}
    if kind in ("sim", "card"):
        return child.run(KINDS[kind] + code, environment, timeout=300)
    environment["SIM_STANDS_IN_FOR"] = kind
    if kind == "mtia":  # a torch device type without an AnyAccel backend
        environment["DS_ACCELERATOR"] = "card"
        code = 'import anyaccel\nanyaccel.register_backend("card", anyaccel.Backend, device_type="mtia")\n' + code
    # The simulator replaces another type when AnyAccel's library is loaded.
    return subprocess.run([sys.executable, "-B", "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False)
