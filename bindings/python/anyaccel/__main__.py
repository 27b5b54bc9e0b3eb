"""Runs `python -m anyaccel` if the package was imported before, by `runpy` or by an import hook."""

import sys

from . import _program

_program.run(sys.argv[1:])
