"""Totals of ops and of evidence for suggestions."""
from typing import Counter

from .threads import Event


class Places(Counter[str]):
    """Time by source line, of at most 1000 lines."""

    def note(self, line: str, time: int) -> None:
        if line and (line in self or len(self) < 1000):
            self[line] += time


class Calls:
    """Calls of an op: how many, their time, FLOPs and bytes, and where they are."""

    def __init__(self) -> None:
        self.count = self.time = self.flops = self.bytes = 0
        self.known_flops = self.known_bytes = 0  # calls whose FLOPs and bytes are known
        self.lines, self.dtypes = Places(), Counter[str]()

    def add(self, time: int, line: str) -> None:
        self.time += time
        self.lines.note(line, time)

    def call(self, e: Event) -> None:
        self.count += 1
        flops, size = e.cost
        if flops is not None:
            self.flops, self.known_flops = self.flops + flops, self.known_flops + 1
        if size is not None:
            self.bytes, self.known_bytes = self.bytes + size, self.known_bytes + 1
        if e.dtype:
            self.dtypes[e.dtype] += 1


class Op:
    """Totals of one op: the work on devices, and the op's own time on the host."""

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


class Work:
    """Time of a process's work, on devices or on the host."""

    def __init__(self) -> None:
        self.compute = self.collective = 0
        self.matmul32 = Evidence()
