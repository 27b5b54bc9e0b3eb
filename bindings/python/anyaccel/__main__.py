"""Entry point of `python -m anyaccel` if `runpy` or an import hook has already imported the
package.
"""

import sys

from . import _program

_program.run(sys.argv[1:])
