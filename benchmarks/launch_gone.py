"""Times how long the launcher takes to terminate all processes of all ranks after one rank has
failed.

Prints milliseconds as JSON.

usage: launch_gone.py ANYACCEL
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

POLITE = "exec sleep 1000"
IGNORING = "trap '' TERM; (setsid sh -c 'sleep 1000' &); touch daemon; sleep 1000"


def left(folder):
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == folder:
                return True
        except OSError:
            pass
    return False


def measure(anyaccel, other):
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        wait = "until [ -e daemon ]; do sleep 0.01; done;" if "daemon" in other else "sleep 0.1;"
        script = f"if [ $RANK = 0 ]; then {other}; fi; {wait} date +%s%N > ended; exit 1"
        code = subprocess.run([anyaccel, "launch", "-q", "--num_accelerators", "2", "--oversubscribe", "sh", "-c", script], cwd=folder,
                              stderr=subprocess.DEVNULL, check=False).returncode
        gone = time.time_ns()
        if code != 1 or left(folder):
            raise SystemExit(f"launch_gone: launcher failed (got exit code {code} and leftover processes: {left(folder)}, expected 1 and False)")
        return (gone - int(pathlib.Path(folder, "ended").read_text())) / 1e6


print(json.dumps({"gone_ms": measure(sys.argv[1], POLITE), "gone_ignoring_ms": measure(sys.argv[1], IGNORING)}))
