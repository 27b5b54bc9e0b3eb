"""The exit of a program whose gloo threads may still hold tensors."""

import os
import subprocess
import sys
import time

from anyaccel import _gloo_exit

RANK = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import anyaccel
import torch
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 2), rank=int(sys.argv[2]), world_size=2)
group = dist.distributed_c10d._get_default_group()  # destroy_process_group() cannot end its threads
for _ in range(20):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
dist.destroy_process_group()
"""


# Fails if a rank aborts because a gloo thread still holds a tensor when the interpreter shuts down.
# All ranks share a core, so that gloo's threads are often late. Without the handler, about one rank
# in seven aborts.
def test_ranks_do_not_abort_at_exit(tmp_path):
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(tmp_path / f"store{job}"), str(rank)], env={**os.environ, "OMP_NUM_THREADS": "1"},
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for job in range(12) for rank in range(2)
    ]
    errors = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [(rank.returncode, error) for rank, error in zip(ranks, errors) if rank.returncode != 0] == []


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
