"""`python -m anyaccel`: the command line `anyaccel`, by the program that this package carries."""

import os
import sys

from . import _build_info
from .errors import make_error


def path():
    """The program's path."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), _build_info.PROGRAMS)
    program = os.path.normpath(os.path.join(folder, "anyaccel"))
    if not os.access(program, os.X_OK):
        raise make_error("unavailable", "python -m anyaccel", "the program anyaccel is not there", got=f"no {program}",
                         hint="install AnyAccel again, or keep its folders side by side; ANYACCEL_MINIMAL builds have no program")
    return program


def run(arguments):
    """Becomes that program; does not return."""
    program = path()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *arguments])


def is_asked_for():
    """True while Python imports the package for `python -m anyaccel`: sys.argv[0] is "-m" until the module was found."""
    words = getattr(sys, "orig_argv", [])
    return sys.argv[:1] == ["-m"] and ("-manyaccel" in words or ("-m", "anyaccel") in zip(words, words[1:]))
