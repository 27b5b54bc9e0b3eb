"""Times the first build of ops, AnyAccel's or DeepSpeed's, without a compiler cache.

usage: op_build.py ours PROGRAM OP...
       op_build.py deepspeed BUILDER
       op_build.py can BUILDER    exit with 0 if DeepSpeed can build it
       op_build.py warm           read the compiler and torch's headers

Prints seconds.
"""
import contextlib
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

os.environ["CCACHE_DISABLE"] = "1"


def ours(program, *ops):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANYACCEL_OP_CACHE"] = folder
        begin = time.perf_counter()
        # --force ignores the prebuilt op.
        subprocess.run([program, "ops", "build", "--force", *ops], check=True, stdout=sys.stderr)
        return time.perf_counter() - begin


def builder_of(name):
    """Return the DeepSpeed builder with this class name; a dotted name includes the module."""
    module, _, name = ("deepspeed.ops.op_builder." + name if "." not in name else name).rpartition(".")
    return getattr(importlib.import_module(module), name)()


def can(builder):
    with contextlib.redirect_stdout(sys.stderr):
        return 0.0 if builder_of(builder).is_compatible(verbose=False) else sys.exit(1)


def deepspeed(builder):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        os.environ["TORCH_EXTENSIONS_DIR"] = folder
        # DeepSpeed's ninja may be installed only next to this Python.
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        op = builder_of(builder)
        begin = time.perf_counter()
        op.load(verbose=False)
        return time.perf_counter() - begin


def warm():
    """Read the compiler and torch's headers into the page cache, so that disk access does not slow
    down the first build.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("deepspeed")
    torch = pathlib.Path(importlib.import_module("torch").__file__).parent / "include"
    python = importlib.import_module("sysconfig").get_paths()["include"]
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    begin = time.perf_counter()
    subprocess.run([compiler, "-std=c++20", "-M", "-MF", os.devnull, "-x", "c++", "-include", "torch/extension.h", "-isystem", torch, "-isystem",
                    torch / "torch/csrc/api/include", "-isystem", python, os.devnull], check=True)
    return time.perf_counter() - begin


sides = {"ours": ours, "deepspeed": deepspeed, "can": can, "warm": warm}
print(json.dumps({"build_s": sides[sys.argv[1]](*sys.argv[2:])}))
