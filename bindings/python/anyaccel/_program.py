"""Implements `python -m anyaccel` by running the `anyaccel` program in this package."""

import os
import sys

from . import _build_info
from .errors import make_error


def path():
    """Return the program's path. Raise `unavailable` if it is missing."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), _build_info.PROGRAMS)
    program = os.path.normpath(os.path.join(folder, "anyaccel"))
    if not os.access(program, os.X_OK):
        raise make_error("unavailable", "python -m anyaccel", f"cannot find the program {program}",
                         hint="reinstall AnyAccel, or keep its folders next to each other; ANYACCEL_MINIMAL builds have no program")
    return program


def run(arguments):
    """Replace this process with the program. Does not return."""
    program = path()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *arguments])


def is_asked_for(module="anyaccel"):
    """Return whether Python is importing the package for `python -m MODULE`. Until the module is
    found, sys.argv[0] is "-m".
    """
    words = getattr(sys, "orig_argv", [])
    return sys.argv[:1] == ["-m"] and (f"-m{module}" in words or ("-m", module) in zip(words, words[1:]))


def run_profile_report() -> None:
    """Run `python -m anyaccel.profiler` and exit."""
    from .profiler.report.main import main
    sys.exit(main(sys.argv[1:]))
