"""Programs that measure an accelerator and compare its results with the CPU's. They need torch and
the package anyaccel, and each runs in its own process.
"""

import importlib
import os

# The simulator can replace a device type only before torch is imported.
if os.environ.get("SIM_STANDS_IN_FOR"):
    importlib.import_module("anyaccel")
