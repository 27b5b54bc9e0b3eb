"""Tests that a program exits cleanly if threads of torch may still hold Python objects."""

import os
import subprocess
import sys
import time

import pytest

import anyaccel
from anyaccel import _thread_exit

# A thread of torch is late: it has completed its last work, but runs only when the main thread
# sleeps. The handler `resume` runs after anyaccel's handler. It lets the late thread run while the
# main thread holds the GIL, so that the late thread waits for the GIL until the interpreter shuts
# down.
PREPARE = """
import atexit, ctypes, os, sys, time

def threads():
    return [int(t) for t in os.listdir("/proc/self/task") if open(f"/proc/self/task/{t}/comm").read().startswith(NAME)]

def set_policy(policy, cores):
    for thread in threads():
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

def work_until_a_thread_is_late(work):
    os.sched_setaffinity(0, {min(cores)})
    set_policy(os.SCHED_IDLE, {min(cores)})
    sys.setswitchinterval(1000)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        work()
        if "R" in map(state, threads()):
            return
    sys.exit("no thread was late")

cores = os.sched_getaffinity(0)
atexit.register(resume)
sys.sleeper = Sleeper()  # releases the GIL during the shutdown
import anyaccel
import torch
"""

GLOO = """
import torch.distributed as dist
NAME = "pt_gloo_runloop"
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group = dist.distributed_c10d._get_default_group()  # destroy_process_group() cannot end its threads
work_until_a_thread_is_late(lambda: dist.all_reduce(torch.ones(3)))
dist.destroy_process_group()
"""

AUTOGRAD = """
NAME = "pt_autograd_"
anyaccel.get_accelerator()
x, gradient = torch.ones(3, device="sim", requires_grad=True), torch.ones(3, device="sim")
def work():
    x.grad = None
    x.backward(gradient)
work()  # starts the threads
work_until_a_thread_is_late(work)
"""


def can_raise_priorities():
    """Return whether a thread of this user may leave SCHED_IDLE."""
    code = """import os
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def check_late_thread(program, **environment):
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", PREPARE + program], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stderr, done.stderr  # an error in an exit handler does not change the exit code


needs_priorities = pytest.mark.skipif(not can_raise_priorities(),
                                      reason="this user may not raise the priority of a thread (CAP_SYS_NICE)")


# Fails if the process aborts because a gloo thread still holds a tensor when the interpreter shuts
# down. Without the handler, most of the processes abort.
@needs_priorities
def test_a_late_gloo_thread_does_not_abort_the_process():
    check_late_thread(GLOO)


# Fails if the process aborts because an autograd thread still holds the context variables of
# backward() when the interpreter shuts down. Without the handler, most of the processes abort.
@needs_priorities
@pytest.mark.skipif("sim" not in anyaccel.registered_backends(), reason="this build has no simulator")
def test_a_late_autograd_thread_does_not_abort_the_process():
    check_late_thread(AUTOGRAD, DS_ACCELERATOR="sim")


# Fails if a single poll in which all threads sleep is enough, or if a thread that woke up between
# two polls counts as idle: a thread that waits for the GIL sleeps too.
def test_idle_threads_do_not_wake_up_between_polls(monkeypatch):
    polls = iter([("R", 1), ("S", 2), ("S", 3), ("D", 3), ("S", 4), ("S", 4)])
    monkeypatch.setattr(_thread_exit, "_threads", lambda: {"1": ("S", 1), "2": next(polls)})
    _thread_exit.wait_for_idle_threads()
    assert list(polls) == []


# Fails if a thread that never sleeps delays the exit for longer than the limit.
def test_the_wait_has_a_limit(monkeypatch):
    monkeypatch.setattr(_thread_exit, "_threads", lambda: {"1": ("R", 1)})
    start = time.monotonic()
    _thread_exit.wait_for_idle_threads(limit=0.05)
    assert 0.05 <= time.monotonic() - start < 1


# Fails if the state or the number of context switches of a thread is not found.
def test_the_state_of_a_thread(monkeypatch):
    with open("/proc/self/comm") as file:
        monkeypatch.setattr(_thread_exit, "_THREAD_NAMES", (file.read().strip(),))
    state, switches = _thread_exit._threads()[str(os.getpid())]
    time.sleep(0.01)
    assert state == "R" and _thread_exit._threads()[str(os.getpid())][1] > switches


# Fails if a program without such threads waits.
def test_no_wait_without_threads():
    assert _thread_exit._threads() == {}
