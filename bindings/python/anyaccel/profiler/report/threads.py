"""Nested events of one host thread or stream in one window."""
from bisect import bisect_left, bisect_right
import re
from typing import Any, Container, Dict, List, NamedTuple, Optional, Set, Tuple

from . import costs
from .store import COLLECTIVE, COPY, KERNEL, OP, RANGE, RUNTIME, SYNC

_COLLECTIVE = re.compile(
    r"nccl|rccl|hccl|c10d::|record_param_comms|gloo:|mpi:|\bccl|all_?reduce|all_?gather|reduce_scatter|all_?to_?all|barrier",
    re.IGNORECASE)
_TORCH_COLLECTIVE = re.compile(r"(all_|_all)?(reduce|gather|to_all|scatter)\w*|broadcast\w*|all_\w+|reduce_scatter\w*|barrier")
_SYNC = re.compile(r"aten::(item|_local_scalar_dense|is_nonzero|nonzero)$|\w+(Stream|Device|Event)Synchronize$")
_ALLOCATE = re.compile(r"aten::(empty|new_empty|resize_|_resize|zeros|ones|full|clone|contiguous|reshape)")
_LOADER = re.compile(r"enumerate\(DataLoader\)")
_NEAR = 1000  # in ns; adjacent events that overlap by less than this are not nested
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
RANGES = {"user_annotation", "gpu_user_annotation"}
HOST = {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver", "xpu_runtime"}


def category(name: str, cat: str) -> int:
    """Category of an event on the page."""
    if cat in RANGES:
        return COLLECTIVE if cat == "user_annotation" and name.startswith(("gloo:", "nccl:", "mpi:")) else RANGE
    if _SYNC.match(name):
        return SYNC
    if _COLLECTIVE.search(name):
        return COLLECTIVE
    if cat == "kernel":
        return COPY if name.startswith(("aten::copy_", "aten::_copy_from", "Memcpy")) else KERNEL
    if cat in ("gpu_memcpy", "gpu_memset"):
        return COPY
    return OP if cat == "cpu_op" else RUNTIME


class Event(NamedTuple):
    """An event as read from the file. Times are in ns, on rank 0's clock."""
    begin: int
    end: int
    name: str
    cat: str
    external: int
    sequence: int
    backward: bool
    shapes: str
    cost: Tuple[Optional[int], Optional[int]]
    dtype: str


def event(data: Dict[str, Any], begin: int, duration: int) -> Event:
    """Convert one "X" event from the trace."""
    args = data.get("args")
    args = args if isinstance(args, dict) else {}
    name, cat = str(data.get("name", ""))[:300], str(data.get("cat", ""))
    op = cat == "cpu_op"

    def number(key: str) -> int:
        value = args.get(key)
        return value if isinstance(value, int) and 0 <= value < 1 << 40 else -1

    return Event(begin, begin + duration, name, cat, number("External id"), number("Sequence number"),
                 number("Fwd thread id") > 0, *(costs.inputs(name, args) if op else ("", (None, None), "")))


class Thread:
    """Events sorted by begin, with their depths and parents (-1: none)."""
    def __init__(self, events: List[Event]) -> None:
        self.events = events
        events.sort(key=lambda e: (e.begin, -e.end))
        self.begins = [e.begin for e in events]
        self.depths = [0] * len(events)
        self.parents = [-1] * len(events)
        self.inside = [0] * len(events)  # total time of the child events
        self.categories = [category(e.name, e.cat) for e in events]
        self.lines = [""] * len(events)
        self.launches = [False] * len(events)  # whether the device does work for the event
        #: Events that outlast the call that began them, such as asynchronous collectives. They have
        #: their own rows, and later events are not nested in them.
        self.asynchronous: Set[int] = set()
        self._ends: List[int] = []  # end of the last event in each row of asynchronous events
        stack: List[int] = []
        for i, e in enumerate(events):
            while stack and self._is_over(events[stack[-1]], e):
                stack.pop()
            if stack:
                self.parents[i] = stack[-1]
                if e.end > events[stack[-1]].end + _NEAR:
                    self._add_asynchronous(i)
                    continue
                self.inside[stack[-1]] += min(e.end, events[stack[-1]].end) - e.begin
            self.depths[i] = len(stack)
            stack.append(i)
        self._name_collectives()
        #: Outermost events that are not ranges. They do not overlap.
        self.top = [
            i for i in range(len(events)) if self.categories[i] != RANGE and i not in self.asynchronous and not self._in_op(i)
        ]
        self.top_begins = [self.begins[i] for i in self.top]

    def _name_collectives(self) -> None:
        """Treat the ranges that torch opens around collectives as collectives."""
        for i, e in enumerate(self.events):
            parent = self.parents[i]
            inside = i in self.asynchronous or (parent >= 0 and self.categories[parent] == COLLECTIVE)
            if self.categories[i] == RANGE and inside and _TORCH_COLLECTIVE.fullmatch(e.name):
                self.categories[i] = COLLECTIVE

    def _add_asynchronous(self, i: int) -> None:
        begin, end = self.events[i].begin, self.events[i].end
        row = next((row for row, last in enumerate(self._ends) if last <= begin), len(self._ends))
        self._ends[row:row + 1] = [end]
        self.depths[i] = row
        self.asynchronous.add(i)

    @staticmethod
    def _is_over(before: Event, e: Event) -> bool:
        """Whether `before` ends before `e` begins, allowing for the clock's inaccuracy."""
        return before.end <= e.begin + _NEAR and before.end < e.end or before.end < e.begin or before.end == e.begin < e.end

    def _in_op(self, i: int) -> bool:
        i = self.parents[i]
        while i >= 0:
            if self.categories[i] != RANGE:
                return True
            i = self.parents[i]
        return False

    def self_time(self, i: int) -> int:
        return max(0, self.events[i].end - self.events[i].begin - self.inside[i])

    def within_same(self, i: int) -> bool:
        """Whether an enclosing op has the same name, as when autograd's op calls a backend's op."""
        name, i = self.events[i].name, self.parents[i]
        while i >= 0:
            if self.events[i].name == name:
                return True
            i = self.parents[i]
        return False

    def at(self, time: int) -> int:
        """Index of the innermost event at a time, or -1."""
        i = bisect_right(self.begins, time) - 1
        while i >= 0 and (self.events[i].end < time or i in self.asynchronous):
            i = self.parents[i]
        return i

    def place(self, i: int) -> Tuple[str, str, str]:
        """Return (op, ranges, line) for an allocation in an event: the innermost op that does more
        than allocate, if there is one.
        """
        line, op, ranges = (self.lines[i] if i >= 0 else ""), "", []
        while i >= 0:
            name = self.events[i].name
            if self.categories[i] == RANGE:
                ranges.append(name)
            elif not op or (_ALLOCATE.match(op) and not name.startswith("autograd::")):
                op = name
            i = self.parents[i]
        return op, " > ".join(reversed(ranges[:3])), line

    def mark_launches(self, used: Container[int]) -> None:
        """Mark the events that have an external id in `used`, and the events that enclose one of
        these.
        """
        for i in range(len(self.events) - 1, -1, -1):
            if self.launches[i] or (self.events[i].cat == "cpu_op" and self.events[i].external in used):
                self.launches[i] = True
                if self.parents[i] >= 0:
                    self.launches[self.parents[i]] = True

    def set_lines(self, starts: List[int], texts: List[str], forward: Dict[int, str]) -> None:
        """Set the source line of each event: that of its outermost op, or, in a backward pass, that
        of the forward op with the same sequence number.
        """
        for i, e in enumerate(self.events):
            parent = self.parents[i]
            if self.categories[i] == RANGE:
                continue
            line = self.lines[parent] if parent >= 0 else ""
            if not line and starts:
                # The recorder and torch's profiler read the clock at slightly different times.
                at = bisect_left(starts, e.begin)
                near = min((k for k in (at - 1, at) if 0 <= k < len(starts)), key=lambda k: abs(starts[k] - e.begin))
                if e.begin - 20_000 <= starts[near] <= max(e.end, e.begin + 20_000):
                    line = texts[near]
            if e.sequence >= 0:
                if e.backward:
                    found = forward.get(e.sequence, "")
                    line = f"backward of {found}" if found and not line.startswith("backward of") else line
                elif line:
                    forward[e.sequence] = line
            self.lines[i] = line

    def activity(self, begin: int, end: int) -> Dict[str, int]:
        """Time that the thread spends in each outermost op between `begin` and `end`; "" is the
        rest.
        """
        found: Dict[str, int] = {}
        i = max(0, bisect_right(self.top_begins, begin) - 1)
        rest = end - begin
        while i < len(self.top) and self.top_begins[i] < end:
            e = self.events[self.top[i]]
            time = min(end, e.end) - max(begin, e.begin)
            if time > 0:
                found[e.name] = found.get(e.name, 0) + time
                rest -= time
            i += 1
        found[""] = max(0, rest)
        return found


def is_loader(name: str) -> bool:
    """Whether a range waits for a DataLoader's next batch."""
    return bool(_LOADER.match(name))


def union(spans: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Merge overlapping spans."""
    merged: List[Tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(spans: List[Tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans)


def clip(spans: List[Tuple[int, int]], begin: int, end: int) -> List[Tuple[int, int]]:
    """Limit spans to [begin, end)."""
    return [(max(a, begin), min(b, end)) for a, b in spans if b > begin and a < end]


def overlap(begin: int, end: int, spans: List[Tuple[int, int]]) -> int:
    """Length of the part of [begin, end) that merged spans cover."""
    total, i = 0, max(0, bisect_right(spans, (begin, 1 << 63)) - 1)
    while i < len(spans) and spans[i][0] < end:
        total += max(0, min(end, spans[i][1]) - max(begin, spans[i][0]))
        i += 1
    return total


def covered(spans: List[Tuple[int, int]], others: List[Tuple[int, int]]) -> int:
    """Time that two merged lists of spans both cover."""
    total = i = 0
    for begin, end in spans:
        while i > 0 and others[i - 1][1] > begin:
            i -= 1
        while i < len(others) and others[i][0] < end:
            total += max(0, min(end, others[i][1]) - max(begin, others[i][0]))
            i += 1
    return total
