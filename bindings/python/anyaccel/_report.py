"""`anyaccel report` of this process."""

import ctypes
import importlib.metadata
import json
import os
import platform
import shutil

from . import _build_info
from .errors import make_error

PACKAGES = ("torch", "deepspeed", "transformers")


def _versions():
    """Of Python and of packages that matter here, without importing any."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[f"{name} (Python)"] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[f"{name} (Python)"] = None
    return found


def _library():
    path = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), _build_info.LIBRARIES, "libanyaccel_cli.so"))
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise make_error("unavailable", "report", f"the library that writes it cannot be loaded: {error}",
                         hint="install AnyAccel again; ANYACCEL_MINIMAL builds do not have it") from error


def report(show):
    """What anyaccel.report() does."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 140)
    answers = []
    taker = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    # Waits (for devices, for oneCCL's trial) let other threads run: ctypes gives the GIL up.
    status = _library().anyaccel_report(json.dumps(_versions()).encode(), ctypes.c_size_t(width), taker(answers.append))
    if status != 0:
        raise make_error("internal", "report", "the report could not be written", got=answers[-1].decode(errors="replace") if answers else "")
    document, text = (answer.decode(errors="replace") for answer in answers)
    if show:
        print(text)
    return json.loads(document)
