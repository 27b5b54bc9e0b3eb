"""Builds and loads one op and compares its kernels with the CPU's.

usage: python3 -m anyaccel_prove.checks.ops BUILDER [--only PATTERN] [--quick] [--list]

Prints one JSON object per line: {"begin": CHECK} before each check, its result after it, and a
summary at the end. A check is named CASE/SIZE/DTYPE/MODE; PATTERN is a shell pattern of such names.
--quick omits the modes and sizes that are slow in compute-sanitizer.
"""

import argparse
import fnmatch
import sys
import time

import torch

import anyaccel

from .cases import CASES, NO_KERNELS
from .compare import MODES, Checker
from .protocol import SKIPPED, Results, say


def checks_of(builder, quick):
    """Return (name, case, size, dtype, mode) of all checks of an op."""
    out = []
    for case in CASES.get(builder, ()):
        for size in case.sizes[:1] + case.sizes[-1:] if quick else case.sizes:
            for dtype in case.dtypes[:1] if quick else case.dtypes:
                for mode in ("forward", ) if quick else MODES:
                    if mode != "reference" or case.plain:
                        out.append((f"{case.name}/{size}/{dtype}/{mode}", case, size, dtype, mode))
    return out


def still_works(accelerator):
    """Return whether the device works. After an invalid access, every call fails."""
    try:
        accelerator.synchronize()
        return True
    except Exception:
        return False


def main():
    parser = argparse.ArgumentParser(prog="python3 -m anyaccel_prove.checks.ops", description=__doc__.splitlines()[0])
    parser.add_argument("builder", help="class name of the op's builder, for example FusedAdamBuilder")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="run only matching checks (default: all)")
    parser.add_argument("--quick", action="store_true", help="run only the checks for compute-sanitizer")
    parser.add_argument("--list", action="store_true", help="list the checks and exit")
    options = parser.parse_args()
    checks = [each for each in checks_of(options.builder, options.quick) if fnmatch.fnmatchcase(each[0], options.only)]
    if options.list:
        print("\n".join(each[0] for each in checks))
        return 0
    if not checks and options.only != "*":
        sys.exit(f"{parser.prog}: no check of {options.builder} matches {options.only!r}. --list lists them.")
    torch.set_num_threads(min(4, torch.get_num_threads()))
    accelerator = anyaccel.get_accelerator()
    builder = accelerator.create_op_builder(options.builder)
    compatible = builder.compatibility()
    if not compatible.compatible:
        say(summary=f"skipped: {compatible.reason}")
        return SKIPPED
    begin = time.monotonic()
    module = builder.load()
    loaded = f"loaded in {time.monotonic() - begin:.1f} s"
    checker, out = Checker(accelerator, module), Results(alive=lambda: still_works(accelerator))
    for name, *where in checks:
        out.run(name, checker.check, *where)
    return out.end(
        loaded if checks else f"{loaded}; nothing to compare: {NO_KERNELS.get(options.builder, 'the table has no case')}")


if __name__ == "__main__":
    sys.exit(main())
