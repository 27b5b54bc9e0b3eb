"""Runs a test program as the ranks of one job under `anyaccel launch`. Each rank passes its results
to the test in a file.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

COUNT = 2


def results(program, *arguments, count=COUNT, launcher=None, **variables):
    """Return the object that each rank passed to `hand_over`, in rank order. `launcher` is a
    command line to use instead of `anyaccel launch`.
    """
    if launcher is None:
        launcher = [os.environ["ANYACCEL_PROGRAM"], "launch", "--num_accelerators", str(count), "--oversubscribe", "--no_python", sys.executable, "-B"]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, ANYACCEL_TEST_RESULTS=folder, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", **variables)
        done = subprocess.run([*launcher, str(program), *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=550)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        files = [pathlib.Path(folder) / f"{rank}.json" for rank in range(count)]
        return [json.loads(file.read_text()) for file in files]


def hand_over(result):
    """Pass a rank's result to the test, and destroy its process groups. Each rank calls it once,
    just before it exits. Otherwise, gloo's threads might still hold a tensor at interpreter exit,
    when no thread can acquire the GIL, and abort the rank (pytorch/pytorch#190489).
    """
    file = pathlib.Path(os.environ["ANYACCEL_TEST_RESULTS"]) / f"{os.environ['RANK']}.json"
    file.write_text(json.dumps(result))
    import torch  # imported here, because the test process does not need it
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def rank():
    return int(os.environ["RANK"])
