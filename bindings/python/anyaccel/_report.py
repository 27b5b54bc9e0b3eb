"""Implements anyaccel.report(), the report about this process."""

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
    """Return the versions of Python and of PACKAGES, without importing them."""
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
        raise make_error("unavailable", "report", f"cannot load the library that creates reports: {error}",
                         hint="reinstall AnyAccel; ANYACCEL_MINIMAL builds do not contain this library") from error


def report(show):
    """Implement anyaccel.report()."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 140)
    answers = []
    taker = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    # ctypes releases the GIL, so other threads run while the library waits for devices or tests
    # oneCCL.
    status = _library().anyaccel_report(json.dumps(_versions()).encode(), ctypes.c_size_t(width), taker(answers.append))
    if status != 0:
        raise make_error("internal", "report", "cannot create the report", got=answers[-1].decode(errors="replace") if answers else "")
    document, text = (answer.decode(errors="replace") for answer in answers)
    if show:
        print(text)
    return json.loads(document)
