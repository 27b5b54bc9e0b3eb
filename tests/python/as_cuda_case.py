"""Runs programs that were written for CUDA on other accelerators, for the tests as_cuda_*_test.py."""

import os
import subprocess
import sys

import child
import pytest

from anyaccel import _native

ACCELERATORS = ["cpu", *(["sim"] if hasattr(_native, "SimOptions") else [])]
everywhere = pytest.mark.parametrize("accelerator", ACCELERATORS)


def environment(accelerator, **variables):
    """The environment of a program. The checker makes programs on the simulator fail if they race."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SIM_", "ANYACCEL_AS_CUDA", "CUDA_"))}
    return {**ours, "DS_ACCELERATOR": accelerator, "SIM_CHECK": "abort", "OMP_NUM_THREADS": "1", **variables}


def run(program, accelerator, **variables):
    """Run a program with CUDA redirected, in a forked process. Return its standard output."""
    found = child.run("import anyaccel.as_cuda\n" + program, environment(accelerator, ANYACCEL_AS_CUDA_QUIET="1", **variables))
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


def run_file(file, accelerator, *arguments, options=(), module=False, **variables):
    """Run a file, which may start processes, with `python -m anyaccel.as_cuda`."""
    words = [sys.executable, "-B", "-m", "anyaccel.as_cuda", *options, *(["-m"] if module else []), str(file), *arguments]
    return subprocess.run(words, env=environment(accelerator, OMP_NUM_THREADS="1", **variables), capture_output=True, text=True, timeout=300)
