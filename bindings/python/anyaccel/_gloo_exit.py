"""Lets gloo's threads release their last tensors before the interpreter shuts down.

A thread of torch's gloo backend releases the tensors of a collective after the caller's `wait()`
has returned, and must acquire the GIL to do so. If the interpreter has started to shut down, Python
terminates the thread instead, and the process aborts with "terminate called without an active
exception" (pytorch/pytorch#190489). `destroy_process_group()` does not help if the program still
holds a reference to the group, as DeepSpeed's engine does.
"""

import atexit
import os
import time

_THREAD_NAME = "pt_gloo_runloop"  # set by torch's ProcessGroupGloo
_POLL_SECONDS = 0.001
_LIMIT_SECONDS = 1.0


def _thread_states():
    """Return the states ("S": sleeping, "R": running, ...) of this process's gloo threads. Without
    /proc, return an empty list.
    """
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return []
    states = []
    for thread in threads:
        try:
            with open(f"/proc/self/task/{thread}/stat") as file:
                name, _, fields = file.read().partition("(")[2].rpartition(")")
        except OSError:  # the thread has exited
            continue
        if name == _THREAD_NAME:
            states.append(fields.split()[0])
    return states


def wait_for_idle_threads(limit=_LIMIT_SECONDS):
    """Wait up to `limit` seconds until all gloo threads of this process are asleep.

    A thread that waits for the GIL is also asleep. The threads must therefore be asleep both before
    and after this function releases the GIL. A thread whose collective cannot complete because a
    peer has exited is also asleep, so it does not delay the exit.
    """
    end = time.monotonic() + limit
    idle_polls = 0
    while idle_polls < 2 and time.monotonic() < end:
        states = _thread_states()
        if not states:
            return
        idle_polls = idle_polls + 1 if set(states) == {"S"} else 0
        time.sleep(_POLL_SECONDS)


# Handlers run in reverse order of registration. Importing anyaccel registers this one early, so
# that it runs after the handlers that may still start collectives.
atexit.register(wait_for_idle_threads)
