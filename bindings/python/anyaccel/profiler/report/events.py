"""Reads the events of one window, one at a time, so that a window of any size needs little memory,
and so that a truncated window still yields the events before its end.
"""
import gzip
import json
import pathlib
import re
from typing import Any, Dict, Iterator, List, Tuple
import zlib

_CHUNK = 1 << 20
_MOST = 1 << 26  # maximum number of characters per event
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(-?\d{1,20})')
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_SPACE = re.compile(r"[\s,]*")


_EVALUATE = "autograd::engine::evaluate_function: "


class Ops:
    """Expands the events in which the recorder packs ops (native/profiler_ops.h) to one event per op.
    Like torch's profiler, it adds arrows from forward to backward ops, and gives autograd's
    evaluate_function the sequence number of the backward op in it.
    """
    def __init__(self) -> None:
        self._kinds: Dict[int, List[Any]] = {}
        self._time: Dict[int, int] = {}  # begin of each thread's last op, in ns since the base
        self._evaluating: Dict[int, Dict[str, Any]] = {}  # by thread: the last op, if it is evaluate_function
        self._count = 0
        #: (logical thread, sequence number) -> (thread, begin in µs): the last forward op, and the
        #: first backward op.
        self._forward: Dict[Tuple[int, int], Tuple[int, float]] = {}
        self._backward: Dict[Tuple[int, int], Tuple[int, float]] = {}

    def expand(self, packed: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """The ops of an event, in any order."""
        tid, logical, rows = int(packed["tid"]), int(packed["logical"]), packed["rows"]
        kinds = self._kinds.setdefault(tid, [])
        kinds.extend(packed["kinds"])
        time = self._time.get(tid, 0)
        for kind, delta, duration, sequence in zip(rows[::4], rows[1::4], rows[2::4], rows[3::4]):
            name, shapes, types, forward = kinds[kind]
            time += delta
            self._time[tid] = time
            self._count += 1
            begin = time / 1000
            args = {"External id": self._count, "Input Dims": shapes, "Input type": types}
            op = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 0, "tid": tid, "ts": begin, "dur": duration / 1000, "args": args}
            outer = self._evaluating.pop(tid, None)
            if sequence >= 0:
                numbers = {"Sequence number": sequence, "Fwd thread id": forward}
                args.update(numbers)
                if forward == 0:
                    self._forward[logical, sequence] = (tid, begin)
                else:
                    self._backward.setdefault((forward, sequence), (tid, begin))
                if outer and outer["name"] == _EVALUATE + name:
                    outer["args"].update(numbers)
            if outer:
                yield outer
            if name.startswith(_EVALUATE):
                self._evaluating[tid] = op
            else:
                yield op

    def rest(self) -> Iterator[Dict[str, Any]]:
        """The last ops, and the arrows."""
        yield from self._evaluating.values()
        for number, (key, target) in enumerate(self._backward.items(), 1):
            if key in self._forward:
                arrow = {"id": number, "pid": 0, "cat": "fwdbwd", "name": "fwdbwd"}
                for phase, (tid, begin) in (({"ph": "s"}, self._forward[key]), ({"ph": "f", "bp": "e"}, target)):
                    yield {**phase, **arrow, "tid": tid, "ts": begin}


def _expand_memory(packed: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """The allocations in an event."""
    rows, tid, time = packed["rows"], int(packed["tid"]), 0
    for at in range(0, len(rows), 7):
        delta, address, size, allocated, reserved, kind, device = rows[at:at + 7]
        time += delta
        yield {
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 0, "tid": tid, "ts": time / 1000, "args": {
                "Total Reserved": reserved, "Total Allocated": allocated, "Bytes": size, "Addr": address, "Device Id": device,
                "Device Type": kind
            }
        }


class Window:
    """Iterate over a window's events. `base_ns` is known after the first event. `error` says why
    the end of the file is missing; it is empty if the file is complete.
    """
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.base_ns = 0
        self.error = ""

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        ops = Ops()
        for event in self._stored():
            phase = event.get("ph")
            if phase not in ("ops", "memory"):
                yield event
                continue
            try:
                yield from ops.expand(event) if phase == "ops" else _expand_memory(event)
            except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
                self.error = self.error or f"unreadable {phase}: {type(error).__name__}: {error}"[:200]
        yield from ops.rest()

    def _stored(self) -> Iterator[Dict[str, Any]]:
        decode = json.JSONDecoder().raw_decode
        try:
            with (gzip.open(self.path) if self.path.suffix == ".gz" else open(self.path, "rb")) as file:
                text = ""
                while not (begin := _BEGIN.search(text)):
                    more = file.read(_CHUNK).decode("utf-8", "replace")
                    if not more or len(text) > _MOST:
                        self.error = 'no "traceEvents"'
                        return
                    text += more
                if base := _BASE.search(text, 0, begin.start()):
                    self.base_ns = int(base[1])
                at = begin.end()
                while True:
                    at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
                    if text[at:at + 1] == "]":
                        return
                    try:
                        event, end = decode(text, at)
                    except ValueError as error:
                        more = file.read(_CHUNK).decode("utf-8", "replace")
                        if not more or len(text) - at > _MOST:
                            self.error = f"truncated or corrupt: {error}"
                            return
                        text, at = text[at:] + more, 0
                        continue
                    at = end
                    if isinstance(event, dict):
                        yield event
        except (OSError, EOFError, zlib.error, RecursionError) as error:
            self.error = f"truncated or corrupt: {error}"
