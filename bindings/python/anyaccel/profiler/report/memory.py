"""Memory usage of one device over time, and the largest tensors at its peak."""
from array import array
import heapq
from typing import Dict, List, NamedTuple, Tuple

_SAMPLES = 4000
LARGE = 1 << 20  # minimum size in bytes of a large allocation


class Sample(NamedTuple):
    """An allocation (bytes > 0) or release (bytes < 0)."""
    time: int
    address: int
    bytes: int
    allocated: int
    op: str
    ranges: str
    line: str


class Memory:
    """Allocations on one device of one process, added window by window."""
    def __init__(self, label: str, host: bool) -> None:
        self.label, self.host = label, host
        self.times, self.values = array("q"), array("q")
        self.live: Dict[int, Sample] = {}
        self.peak = self.peak_time = self.reserved = 0
        self.largest: List[Sample] = []
        self.before = 0  # bytes at the peak that were allocated before the recording began
        self.count = 0
        #: Number of large allocations by (bytes, op, line).
        self.sites: Dict[Tuple[int, str, str], int] = {}

    def add(self, samples: List[Sample]) -> None:
        samples.sort(key=lambda s: s.time)
        top = max(range(len(samples)), key=lambda i: samples[i].allocated, default=-1)
        for i, s in enumerate(samples):
            self.count += 1
            if s.bytes > 0:
                self.live[s.address] = s
                site = (s.bytes, s.op, s.line)
                if s.bytes >= LARGE and (site in self.sites or len(self.sites) < 10_000):
                    self.sites[site] = self.sites.get(site, 0) + 1
            else:
                self.live.pop(s.address, None)
            self._plot(s.time, s.allocated)
            if i == top and s.allocated > self.peak:
                self.peak, self.peak_time = s.allocated, s.time
                self.largest = heapq.nlargest(10, self.live.values(), key=lambda x: x.bytes)
                self.before = max(0, s.allocated - sum(x.bytes for x in self.live.values()))

    def _plot(self, time: int, value: int) -> None:
        self.times.append(time)
        self.values.append(value)
        if len(self.times) > 4 * _SAMPLES:
            self.times, self.values = self.series(_SAMPLES)

    def series(self, most: int = _SAMPLES) -> Tuple["array[int]", "array[int]"]:
        """Return (times, bytes), reduced to about `most` samples that keep each part's extremes."""
        step = -(-2 * len(self.times) // most)
        if step <= 2:
            return self.times, self.values
        times, values = array("q"), array("q")
        for i in range(0, len(self.times), step):
            part = range(i, min(i + step, len(self.times)))
            for k in sorted({min(part, key=self.values.__getitem__), max(part, key=self.values.__getitem__)}):
                times.append(self.times[k])
                values.append(self.values[k])
        return times, values
