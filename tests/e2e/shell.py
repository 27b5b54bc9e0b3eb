"""Helpers that run command lines in a real shell, as users do."""
import functools
import json
import os
import subprocess
import time

BIN = os.path.dirname(os.environ["ANYACCEL_PROGRAM"])


def shell(line, cwd=None, **variables):
    """Run `line` in bash with the build's programs first in PATH and return a CompletedProcess.

    Variables that would affect results are removed before `variables` are set.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANYACCEL_", "DS_", "SIM_"))}
    environment["PATH"] = BIN + os.pathsep + environment.get("PATH", "")
    environment.update(variables)
    return subprocess.run(["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, text=True, timeout=150,
                          check=False)


def wait_for(condition, seconds=100):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"the condition did not hold within {seconds} s")
        time.sleep(0.005)


@functools.lru_cache
def libtorch_accelerator():
    """Return the accelerator for which this LibTorch is built, or None for a CPU build. If LibTorch
    is built for an accelerator, the simulator cannot stand in for device types that LibTorch
    defines.
    """
    return json.loads(shell("anyaccel report --json", DS_ACCELERATOR="cpu").stdout)["versions"]["libtorch_accelerator"]
