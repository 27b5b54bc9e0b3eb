"""Imports torch.

Raises an error if torch's version differs from the one that this package was built with, because
the package's library requires symbols from that version.
"""

import ctypes
import importlib.util
import os
import sys

from . import _build_info
from .errors import make_error

# Whether torch was imported before AnyAccel. torch detects CUDA during its import and caches the
# result.
imported_before = "torch" in sys.modules

# Device types that torch.manual_seed() seeds by name. It also seeds PrivateUse1.
SEEDED_BY_NAME = ("cuda", "mps", "xpu", "mtia")
# The device types in SEEDED_BY_NAME for which torch.manual_seed() calls the module's manual_seed()
# instead of manual_seed_all().
SEEDED_BY_MANUAL_SEED = ("mps",)
# Device types for which `import torch` caches whether a device is available.
DETECTED_BY_IMPORT = ("cuda",)
# Device type whose functions are missing from torch._C if torch was built without it.
CUDA = "cuda"
# Device type on whose module DTensor calls set_rng_ctx() to select a kind of generator.
HPU = "hpu"
# torch functions that are kept, because they work on the simulator and do more than AnyAccel's
# versions.
KEPT_FUNCTIONS = {"cuda": ("graph", "memory_stats_as_nested_dict", "memory_summary"), "xpu": ("get_device_capability",)}
# The simulator's device type, unless the simulator stands in for a different type.
SIMULATED = "sim"
# Device types that torch.save() stores without a device index.
SAVED_WITHOUT_INDEX = ("mps",)


def require():
    """Import torch. This must happen before AnyAccel's library is loaded, because that library
    links against torch's libraries.
    """
    if os.environ.get("SIM_STANDS_IN_FOR") and not imported_before:
        _load_simulator()
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise make_error("unavailable", "import anyaccel", "torch is not installed", want=f"torch {_build_info.TORCH_VERSION}",
                         hint=f"pip install torch=={_build_info.TORCH_VERSION}") from error
    check(torch.__version__, torch.__file__)


def _load_simulator():
    """Load the simulator into LibTorch before torch's Python code detects the device type that the
    simulator stands in for.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return
    folder = spec.submodule_search_locations[0]
    found = {}
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        exec(file.read(), found)
    check(found["__version__"], folder)
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so"):
        ctypes.CDLL(os.path.join(folder, "lib", name), ctypes.RTLD_GLOBAL)
    library = os.path.join(os.path.dirname(__file__), _build_info.LIBRARIES, "libanyaccel_sim.so")
    if os.path.exists(library):
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)


def check(version, place):
    """Raise `version_mismatch` if torch's minor version is not the one that AnyAccel was built
    with, because LibTorch's C++ API changes between minor versions.
    """
    wanted = _build_info.TORCH_VERSION
    if str(version).split(".")[:2] != wanted.split(".")[:2]:
        raise make_error("version_mismatch", "import anyaccel", "AnyAccel was built with a different version of torch",
                         got=f"torch {version} in {place}", want=f"torch {wanted}",
                         hint=f"pip install torch=={wanted}, or build AnyAccel with this torch (pip install --force-reinstall .)")
