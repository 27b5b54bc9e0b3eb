"""Estimates the difference between this host's clock and that of rank 0.

Ranks exchange their clocks through the store of torch.distributed, after init_process_group(). Rank
0 answers on a separate thread, so the program does not wait for it.
"""

import datetime
import functools
import os
import socket
import threading
import time
from typing import Any, Callable, List, Tuple

import torch

_ROUNDS = 8
_PREFIX = "anyaccel/profile/clock"


def best_offset(rounds: List[Tuple[int, int, int]]) -> int:
    """Return the nanoseconds to add to this clock to get rank 0's.

    rounds: (sent, answered, received) for each exchange. `answered` is the time on rank 0's clock;
    the others are times on this clock. The exchange with the shortest round trip is the most
    accurate, because rank 0 answered about halfway through it.
    """
    sent, answered, received = min(rounds, key=lambda times: times[2] - times[0])
    return answered - (sent + received) // 2


def exchange(store: Any, rank: int, clock: Callable[[], int] = time.time_ns, rounds: int = _ROUNDS) -> int:
    """Return the offset of this rank's clock, for a rank other than 0."""
    times = []
    for number in range(rounds):
        key = f"{_PREFIX}/{rank}/{number}"
        sent = clock()
        store.set(key, b"?")
        answered = int(store.get(key + "/answer"))
        times.append((sent, answered, clock()))
    return best_offset(times)


def answer(store: Any, rank: int, clock: Callable[[], int] = time.time_ns, rounds: int = _ROUNDS) -> None:
    """Answer the clock requests of another rank. Called on rank 0."""
    for number in range(rounds):
        key = f"{_PREFIX}/{rank}/{number}"
        store.get(key)
        store.set(key + "/answer", str(clock()))


def _hosts(store: Any, rank: int, size: int) -> List[str]:
    store.set(f"{_PREFIX}/host/{rank}", socket.gethostname())
    return [store.get(f"{_PREFIX}/host/{other}").decode() for other in range(size)]


def align(process: Any, store: Any, rank: int, size: int) -> None:
    """Set clock_offset_ns of this process. Runs on its own thread, and does nothing on one host."""
    try:
        hosts = _hosts(store, rank, size)
        if rank == 0:
            for other in range(1, size):
                if hosts[other] != hosts[0]:
                    answer(store, other)
        elif hosts[rank] != hosts[0]:
            process.data["clock_offset_ns"] = exchange(store, rank)
            process.update()
    except Exception as error:  # the store may be closed by now
        process.data["clock_error"] = f"{type(error).__name__}: {str(error)[:200]}"


def install(process: Any) -> None:
    """Align the clocks after torch.distributed.init_process_group()."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    module = distributed.distributed_c10d
    original = module.init_process_group

    @functools.wraps(original)
    def init_process_group(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        try:
            rank, size = distributed.get_rank(), distributed.get_world_size()
            process.data["rank"], process.data["world_size"] = rank, size
            process.update()
            if size == int(os.environ.get("LOCAL_WORLD_SIZE", "0")):
                return result  # all ranks are on this host
            store = module._get_default_store().clone()
            store.set_timeout(datetime.timedelta(seconds=60))  # other ranks may not be recorded
            threading.Thread(target=align, args=(process, store, rank, size), name="anyaccel-profile-clock", daemon=True).start()
        except Exception as error:
            process.data["clock_error"] = f"{type(error).__name__}: {str(error)[:200]}"
        return result

    distributed.init_process_group = module.init_process_group = init_process_group
