"""Seconds of the first build of an op, without a compiler cache and with nothing built before: ours or DeepSpeed's.

usage: op_build.py ours PROGRAM OP | op_build.py deepspeed BUILDER | op_build.py can BUILDER
"""
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["CCACHE_DISABLE"] = "1"


def ours(program, op):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANYACCEL_OP_CACHE"] = folder
        begin = time.perf_counter()
        # --force: the prebuilt one is not taken. The program's own start is counted.
        subprocess.run([program, "ops", "build", "--force", op], check=True, stdout=sys.stderr)
        return time.perf_counter() - begin


def builder_of(name):
    """DeepSpeed's; a class of a module of its own is named with it."""
    module, _, name = ("deepspeed.ops.op_builder." + name if "." not in name else name).rpartition(".")
    return getattr(importlib.import_module(module), name)()


def can(builder):
    with contextlib.redirect_stdout(sys.stderr):
        return 0.0 if builder_of(builder).is_compatible(verbose=False) else sys.exit(1)


def deepspeed(builder):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        os.environ["TORCH_EXTENSIONS_DIR"] = folder
        # Its ninja may lie beside this Python alone.
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        op = builder_of(builder)
        begin = time.perf_counter()
        op.load(verbose=False)
        return time.perf_counter() - begin


sides = {"ours": ours, "deepspeed": deepspeed, "can": can}
print(json.dumps({"build_s": sides[sys.argv[1]](*sys.argv[2:])}))
