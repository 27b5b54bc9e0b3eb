"""Files of a recording window: the trace of torch's profiler and the source lines of its ops."""

import gzip
import json
import os
import re
import time
from typing import Any, Dict, List, Sequence, Tuple, Union

from .. import _native
from .process import Process
from .settings import Settings

_START = b'"traceEvents": ['
_BASE = re.compile(rb'"baseTimeNanoseconds":\s*(\d+)')


class Lines:
    """The lines-NNNN.json.gz files of a process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, number: int, threads: Dict[str, Dict[str, List[int]]]) -> None:
        if not threads:
            return
        texts = _native.profiler_line_texts(0)
        frames: Dict[str, int] = {}
        for thread in threads.values():
            thread["frame"] = [frames.setdefault(texts[frame], len(frames)) for frame in thread["frame"]]
        data = {"frames": list(frames), "threads": threads}
        _store(os.path.join(self._folder, f"lines-{number:04}.json.gz"), [json.dumps(data).encode()])


class Window:
    """The window that is being recorded."""

    def __init__(self, number: int, activities: Tuple[List[int], bool]) -> None:
        self.number = number
        self.activities = activities
        self.began = time.monotonic()
        self.times = [time.time_ns(), 0]
        self.ops = _native.profiler_observed_ops()

    def full(self, settings: Settings) -> bool:
        """Return whether it is time to write the window. An empty window is never full."""
        ops = _native.profiler_observed_ops() - self.ops
        return ops >= settings.window_events or (ops > 0 and time.monotonic() - self.began >= settings.window)

    def end(self) -> None:
        """Stop recording. The program's threads may still be running ops that began before."""
        _native.profiler_end_window()
        self.times[1] = time.time_ns()

    def write(self, process: Process, lines: Lines, last: bool) -> int:
        """Write the window's files and return the number of ops. `last`: ranges end now."""
        plain = os.path.join(process.folder, "window.json.tmp")
        _native.profiler_save_window(os.fsencode(plain))  # a str would have to be valid UTF-8
        with open(plain, "rb") as file:
            trace = file.read()
        os.unlink(plain)
        if not plain.isprintable():  # Kineto stores the path in the trace, but JSON must be valid UTF-8
            trace = trace.decode("utf-8", "replace").encode()
        base = _BASE.search(trace)
        taken: Dict[str, Any] = _native.profiler_take(int(base[1]) if base else 0, last)
        at = trace.find(_START)
        parts: List[Union[bytes, memoryview]] = [memoryview(trace)]
        if at >= 0 and taken["events"]:
            at += len(_START)
            parts = [parts[0][:at], b"\n", taken["events"], b",", parts[0][at:]]
        _store(os.path.join(process.folder, f"window-{self.number:04}.json.gz"), parts)
        lines.write(self.number, taken["threads"])
        process.windows.append(self.times)
        return _native.profiler_observed_ops() - self.ops + taken["count"]


def _store(path: str, parts: Sequence[Union[bytes, memoryview]]) -> None:
    """Write a compressed file. The parts may be large, and copying them would block the program's threads."""
    with open(path + ".tmp", "wb") as file, gzip.GzipFile("", "wb", 1, file) as packed:
        for part in parts:
            packed.write(part)
    os.replace(path + ".tmp", path)
