"""The command line."""

import argparse
import os
import pathlib

from . import facts

TEXT = "Test and measure AnyAccel on this machine's accelerator, in parts that can be resumed, and write a report."


def parse(arguments, root, program):
    """Return the options. `root` is the source tree, or None for an installation."""
    name = "tools/hardware_report" if root is not None else "anyaccel prove"
    parser = argparse.ArgumentParser(prog=name,
                                     description=TEXT,
                                     epilog="Exit code: 0 if all parts passed or were skipped, 1 if a part did not pass, 2 for a "
                                     "usage error, 3 if time ran out and the command must be run again, 130 if interrupted.")
    where = "docs/hardware/DATE-DEVICE, or build/hardware-report/BACKEND for cpu and sim" if root is not None else "anyaccel-report"
    parser.add_argument("-o",
                        "--out",
                        metavar="DIR",
                        type=pathlib.Path,
                        help=f"folder for report.json, report.md and report.html (default: {where})")
    parser.add_argument("--backend",
                        metavar="NAME",
                        default=os.environ.get("DS_ACCELERATOR") or "cuda",
                        help="backend to test (default: $DS_ACCELERATOR, or cuda if it is unset)")
    parser.add_argument("--stands-in-for",
                        dest="stands_in",
                        metavar="NAME",
                        default="",
                        help="test the backend NAME on the simulated accelerator; replaces --backend")
    parser.add_argument("--build",
                        metavar="DIR",
                        type=pathlib.Path,
                        help="folder for the build and for caches (default: " +
                        ("build/hardware" if root is not None else "the folder work in DIR") + ")")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        default="minimal",
        help=argparse.SUPPRESS if root is None else
        "CMake preset: minimal needs only LibTorch; release also builds the program anyaccel (default: %(default)s)")
    parser.add_argument("--python",
                        metavar="FILE",
                        default=facts.python_with_torch(root),
                        help="Python interpreter with torch (default: the one that runs this program" + 
                        (")" if root is None else " if it has torch, otherwise that of .venv)"))
    parser.add_argument("--program", metavar="FILE", default=program or "", help=argparse.SUPPRESS)
    parser.add_argument("--commit", metavar="NAME", help="commit to name in the report (default: git's HEAD, or unknown)")
    parser.add_argument("--minutes",
                        metavar="N",
                        type=float,
                        default=9.0,
                        help="stop after N minutes; run again to resume (default: %(default)s)")
    parser.add_argument("--only",
                        metavar="PATTERN",
                        default="*",
                        help="run only matching parts, for example 'op:*', and what they need")
    parser.add_argument("--again", action="store_true", help="repeat parts that passed")
    parser.add_argument("--list", action="store_true", help="list the parts and exit")
    options = parser.parse_args(arguments)
    if options.minutes <= 0:
        parser.error(f"--minutes is out of range (got {options.minutes:g}, expected a positive number)")
    if options.stands_in:
        options.backend = options.stands_in
    options.name = name
    return options
