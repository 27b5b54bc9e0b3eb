"""Tests that a program exits cleanly if its gloo threads may still hold tensors."""

import os
import subprocess
import sys
import time

import pytest

from anyaccel import _gloo_exit

# One gloo thread is late: it has completed the last collective, but runs only when the main thread
# sleeps. The handler `resume` runs after anyaccel's handler. It lets the late thread run while the
# main thread holds the GIL, so that the late thread waits for the GIL until the interpreter shuts
# down.
LATE_THREAD = """
import atexit, ctypes, os, sys, time

def gloo_threads():
    return [int(t) for t in os.listdir("/proc/self/task") if open(f"/proc/self/task/{t}/comm").read() == "pt_gloo_runloop\\n"]

def set_policy(policy, cores):
    for thread in gloo_threads():
        os.sched_setaffinity(thread, cores)
        os.sched_setscheduler(thread, policy, os.sched_param(0))

def state(thread):
    return open(f"/proc/self/task/{thread}/stat").read().rpartition(")")[2].split()[0]

def resume():
    set_policy(os.SCHED_OTHER, cores)
    ctypes.PyDLL(None).usleep(100_000)  # does not release the GIL

class Sleeper:
    def __init__(self):
        self.sleep = time.sleep
    def __del__(self):
        self.sleep(0.2)

cores = os.sched_getaffinity(0)
atexit.register(resume)
sys.sleeper = Sleeper()  # releases the GIL during the shutdown
import anyaccel
import torch
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group = dist.distributed_c10d._get_default_group()  # destroy_process_group() cannot end its threads
os.sched_setaffinity(0, {min(cores)})
set_policy(os.SCHED_IDLE, {min(cores)})
sys.setswitchinterval(1000)
for _ in range(1000):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    if "R" in map(state, gloo_threads()):
        break
else:
    sys.exit("no thread was late")
dist.destroy_process_group()
"""


def can_raise_priorities():
    """Return whether a thread of this user may leave SCHED_IDLE."""
    code = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


# Fails if the process aborts because a gloo thread still holds a tensor when the interpreter shuts
# down. Without the handler, most of the processes abort.
@pytest.mark.skipif(not can_raise_priorities(), reason="this user may not raise the priority of a thread (CAP_SYS_NICE)")
def test_a_late_thread_does_not_abort_the_process():
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", LATE_THREAD], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
                              text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stderr, done.stderr  # an error in an exit handler does not change the exit code


# Fails if a single poll in which all threads sleep is enough: a thread that waits for the GIL
# sleeps too.
def test_threads_sleep_in_two_polls(monkeypatch):
    states = iter([["R", "S"], ["S", "S"], ["S", "D"], ["S", "S"], ["S", "S"]])
    monkeypatch.setattr(_gloo_exit, "_thread_states", lambda: next(states))
    _gloo_exit.wait_for_idle_threads()
    assert list(states) == []


# Fails if a thread that never sleeps delays the exit for longer than the limit.
def test_the_wait_has_a_limit(monkeypatch):
    monkeypatch.setattr(_gloo_exit, "_thread_states", lambda: ["R"])
    start = time.monotonic()
    _gloo_exit.wait_for_idle_threads(limit=0.05)
    assert 0.05 <= time.monotonic() - start < 1


# Fails if a program without gloo threads waits.
def test_no_wait_without_gloo():
    assert _gloo_exit._thread_states() == []
