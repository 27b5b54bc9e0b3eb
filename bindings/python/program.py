#!python
"""The program `anyaccel` of a wheel: runs the one that the package carries, without importing the package or torch."""

import importlib.util
import os
import sys

package = importlib.util.find_spec("anyaccel")
if package is None:
    sys.exit(f"anyaccel: error: [anyaccel] {sys.executable} has no package anyaccel any more; install it again")
program = os.path.join(package.submodule_search_locations[0], "bin", "anyaccel")
os.execv(program, [program, *sys.argv[1:]])
