"""`python -m anyaccel` where the package was imported before: by `runpy`, or by a hook of this Python."""

import sys

from . import _program

_program.run(sys.argv[1:])
