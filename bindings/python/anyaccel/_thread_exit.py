"""Lets torch's own threads release their last Python objects before the interpreter shuts down.

Two kinds of threads may release an object after the call that used it has returned, and must acquire
the GIL to do so:

- A thread of the gloo backend releases the tensors of a collective after the caller's `wait()` has
  returned (pytorch/pytorch#190489). `destroy_process_group()` does not help if the program still
  holds a reference to the group, as DeepSpeed's engine does.
- An autograd thread of an accelerator releases a copy of the caller's context variables after
  `backward()` has returned (pytorch/pytorch#180700).

If the interpreter has started to shut down, Python terminates the thread instead, and the process
aborts with "terminate called without an active exception" (pytorch/pytorch#117762).
"""

import atexit
import os
import time

# Names that torch gives to the threads of ProcessGroupGloo and of the autograd engine.
_THREAD_NAMES = ("pt_gloo_runloop", "pt_autograd_")
_SWITCHES = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
_POLL_SECONDS = 0.001
_LIMIT_SECONDS = 1.0


def _threads():
    """Return the state ("S": sleeping, "R": running, ...) and the number of context switches of each
    of these threads, by thread ID. Without /proc, return an empty dictionary.
    """
    try:
        ids = os.listdir("/proc/self/task")
    except OSError:
        return {}
    found = {}
    for thread in ids:
        try:
            with open(f"/proc/self/task/{thread}/status") as file:
                fields = dict(line.partition(":\t")[::2] for line in file)
        except OSError:  # the thread has exited
            continue
        if fields["Name"].startswith(_THREAD_NAMES):
            found[thread] = fields["State"][:1], sum(int(fields.get(name, 0)) for name in _SWITCHES)
    return found


def wait_for_idle_threads(limit=_LIMIT_SECONDS):
    """Wait up to `limit` seconds until these threads are idle.

    A thread that waits for the GIL is asleep, too. It wakes up when this function releases the GIL
    between two polls. An idle thread is therefore asleep in two successive polls, without a context
    switch between them. A gloo thread whose collective cannot complete because a peer has exited is
    also asleep, so it does not delay the exit.
    """
    end = time.monotonic() + limit
    before = None
    while time.monotonic() < end:
        now = _threads()
        if all(state == "S" for state, _ in now.values()) and (now == before or not now):
            return
        before = now
        time.sleep(_POLL_SECONDS)


# Handlers run in reverse order of registration. Importing anyaccel registers this one early, so
# that it runs after the handlers that may still start collectives or use a device.
atexit.register(wait_for_idle_threads)
