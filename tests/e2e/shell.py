"""Runs command lines through a real shell, as a user does."""
import functools
import json
import os
import subprocess
import time

BIN = os.path.dirname(os.environ["ANYACCEL_PROGRAM"])


def shell(line, cwd=None, **variables):
    """Runs `line` in bash with the programs of the build first in PATH; what it gives back has returncode, stdout, stderr.
    Variables that would change the answers are taken away; `variables` are set."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANYACCEL_", "DS_", "SIM_"))}
    environment["PATH"] = BIN + os.pathsep + environment.get("PATH", "")
    environment.update(variables)
    return subprocess.run(["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, text=True, timeout=150,
                          check=False)


def wait_for(condition, seconds=100):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.005)


@functools.lru_cache
def libtorch_accelerator():
    """What the LibTorch of this build is built for; None for a CPU build. Others' places are not given away by one that has its own."""
    return json.loads(shell("anyaccel report --json", DS_ACCELERATOR="cpu").stdout)["versions"]["libtorch_accelerator"]
