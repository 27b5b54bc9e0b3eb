#!python
"""The wheel's script `anyaccel`: runs the program in the package, without importing the package
or torch."""

import importlib.util
import os
import sys

package = importlib.util.find_spec("anyaccel")
if package is None:
    sys.exit(f"anyaccel: error: [anyaccel] cannot find the package anyaccel for {sys.executable}; reinstall AnyAccel")
program = os.path.join(package.submodule_search_locations[0], "bin", "anyaccel")
os.execv(program, [program, *sys.argv[1:]])
