"""Totals for ops, and evidence for suggestions."""
from typing import Counter, List, NamedTuple

from .threads import Event


class Places(Counter[str]):
    """Time per source line, for at most 1000 lines."""

    def note(self, line: str, time: int) -> None:
        if line and (line in self or len(self) < 1000):
            self[line] += time


class Calls:
    """Calls to an op: how many, their time, FLOPs and bytes, and their source lines."""

    def __init__(self) -> None:
        self.count = self.time = self.flops = self.bytes = 0
        #: Time of the measured calls: of all, and of those whose FLOPs and bytes are known.
        self.measured = self.flops_time = self.bytes_time = 0
        self.lines, self.dtypes = Places(), Counter[str]()

    def add(self, time: int, line: str) -> None:
        self.time += time
        self.lines.note(line, time)

    def measure(self, time: int, e: Event) -> None:
        """Add the time in which the work of `e` is done, which its rates are relative to."""
        self.measured += time
        self.flops_time += time if e.cost[0] is not None else 0
        self.bytes_time += time if e.cost[1] is not None else 0

    def call(self, e: Event) -> None:
        self.count += 1
        self.flops += e.cost[0] or 0
        self.bytes += e.cost[1] or 0
        if e.dtype:
            self.dtypes[e.dtype] += 1


class Op:
    """Totals for one op: the work on devices, and the op's own time on the host."""

    def __init__(self) -> None:
        self.device, self.host = Calls(), Calls()


class Evidence:
    """How often something occurred, how long it took, and where."""

    def __init__(self) -> None:
        self.count = self.time = 0
        self.lines = Places()

    def note(self, time: int, line: str = "") -> None:
        self.count, self.time = self.count + 1, self.time + time
        self.lines.note(line, time)


class Gap(NamedTuple):
    """A period in which a device is idle. `before`: busy time of the window before the gap."""
    duration: int
    begin: int
    reason: str
    before: int


class DeviceWindow:
    """Activity of one device in one window. Times are in ns. Starts at the device's first activity."""
    def __init__(self, begin: int, end: int, busy: int) -> None:
        self.begin, self.end, self.busy = begin, end, busy
        self.reasons: Counter[str] = Counter()  # time of the gaps, keyed by what the host does
        self.gaps: List[Gap] = []  # the longest gaps, longest first

    def add(self, gap: Gap) -> None:
        known = gap.reason in self.reasons or len(self.reasons) < 30
        self.reasons[gap.reason if known else "others"] += gap.duration
        self.gaps = sorted([*self.gaps, gap], reverse=True)[:20]

    def without_start(self, least: float) -> "DeviceWindow":
        """Return the window without its startup: the part after the last long gap that follows at
        most `least` ns of work.
        """
        start = max((g.begin + g.duration for g in self.gaps if g.before <= least), default=self.begin)
        left_out = [g for g in self.gaps if g.begin < start]
        rest = DeviceWindow(start, self.end, self.busy - max((g.before for g in left_out), default=0))
        rest.reasons = self.reasons - Counter[str]()
        for g in left_out:
            rest.reasons[g.reason if g.reason in rest.reasons else "others"] -= g.duration
        rest.reasons = +rest.reasons
        rest.gaps = [g for g in self.gaps if g.begin >= start]
        return rest


class Work:
    """Time of a process's work, on devices or on the host."""

    def __init__(self) -> None:
        self.compute = self.collective = 0
        self.matmul32 = Evidence()
