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


class Ops:
    """Expands the events in which the recorder packs ops (native/profiler_ops.h) to one event per op,
    and adds arrows from forward to backward ops, as torch's profiler does.
    """
    def __init__(self) -> None:
        self._kinds: Dict[int, List[Any]] = {}
        self._time: Dict[int, int] = {}  # begin of each thread's last op, in ns since the base
        self._count = 0
        #: (logical thread, sequence number) -> (thread, begin in µs): the innermost forward op, and
        #: the outermost backward op.
        self._forward: Dict[Tuple[int, int], Tuple[int, float]] = {}
        self._backward: Dict[Tuple[int, int], Tuple[int, float]] = {}

    def expand(self, packed: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
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
            if sequence >= 0:
                args.update({"Sequence number": sequence, "Fwd thread id": forward})
                if forward > 0:
                    self._backward.setdefault((forward, sequence), (tid, begin))
                else:
                    self._forward[logical, sequence] = (tid, begin)
            yield {
                "ph": "X", "cat": "cpu_op", "name": name, "pid": 0, "tid": tid, "ts": begin, "dur": duration / 1000, "args": args
            }

    def arrows(self) -> Iterator[Dict[str, Any]]:
        """The arrows between the ops that were expanded."""
        for number, (key, target) in enumerate(self._backward.items(), 1):
            if key in self._forward:
                for phase, (tid, begin) in (("s", self._forward[key]), ("f", target)):
                    arrow = {"ph": phase, "id": number, "pid": 0, "tid": tid, "ts": begin, "cat": "fwdbwd", "name": "fwdbwd"}
                    yield {**arrow, "bp": "e"} if phase == "f" else arrow


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
            if event.get("ph") != "ops":
                yield event
                continue
            try:
                yield from ops.expand(event)
            except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
                self.error = self.error or f"unreadable ops: {type(error).__name__}: {error}"[:200]
        yield from ops.arrows()

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
