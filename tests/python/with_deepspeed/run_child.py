"""Runs a test program in its own process, because DeepSpeed keeps its accelerator for the lifetime
of a process.
"""

import json
import os
import socket
import subprocess
import sys


def child(*arguments, **variables):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", **variables)
    done = subprocess.run([sys.executable, "-B", *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def result(*arguments, **variables):
    text = child(*arguments, **variables)
    lines = [line for line in text.splitlines() if line.startswith("RESULT ")]
    assert lines, text[-2000:]
    return json.loads(lines[-1][len("RESULT "):])
