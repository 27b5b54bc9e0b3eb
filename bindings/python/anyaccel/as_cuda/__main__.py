"""`python -m anyaccel.as_cuda [OPTION]... (SCRIPT | -m MODULE) [ARGUMENT]...`"""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from . import enable
from .settings import Settings


def main() -> None:
    """Run a script or a module with CUDA redirected."""
    parser = argparse.ArgumentParser(prog="python -m anyaccel.as_cuda", description="Run a Python program for CUDA on this process's accelerator.")
    parser.add_argument("--pretend", default="", metavar="NAME", help="NVIDIA device whose properties torch.cuda reports; default: the real properties")
    parser.add_argument("--report", default="", metavar="FILE", help="write the report to FILE as JSON; default: standard error")
    parser.add_argument("--quiet", action="store_true", help="print no report")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module instead of a script")
    parser.add_argument("program", help="script, or module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args()
    enable(Settings(options.pretend, options.report, options.quiet))
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(options.program))
        runpy.run_path(options.program, run_name="__main__")


main()
