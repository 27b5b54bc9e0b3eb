"""Measures how busy other programs keep the machine.

Figures measured on a busy machine are not reported.
"""
import os
import time

TICK = os.sysconf("SC_CLK_TCK")


class TooBusy(Exception):
    pass


def busy_seconds():
    """Return the CPU seconds that all processes of the machine have used, including hypervisor
    steal time.
    """
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def own_seconds():
    """Return the CPU seconds of this process and of its children that have exited."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Watch:
    """Context manager that measures the CPU use of other programs: `.others`, in cores."""

    def __enter__(self):
        self.start = time.monotonic(), busy_seconds(), own_seconds()
        self.others = 0.0
        return self

    def __exit__(self, *_):
        wall, busy, own = time.monotonic() - self.start[0], busy_seconds() - self.start[1], own_seconds() - self.start[2]
        # The kernel counts CPU time in ticks, so differences over less than a fifth of a second are
        # noise.
        self.others = max(0.0, busy - own) / max(wall, 0.2)


def wait_until_quiet(max_load, patience=60.0):
    """Wait until other programs use at most `max_load` cores for half a second.

    Raise TooBusy after `patience` seconds.
    """
    if max_load >= (os.cpu_count() or 1):
        return 0.0  # other programs cannot use more cores than the machine has
    deadline = time.monotonic() + patience
    while True:
        with Watch() as watch:
            time.sleep(0.5)
        if watch.others <= max_load:
            return watch.others
        if time.monotonic() > deadline:
            raise TooBusy(f"machine too busy: other programs use {watch.others:.2f} cores, expected at most {max_load} (--max-load); "
                          "no figures are given")
