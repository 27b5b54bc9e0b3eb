"""Writes the merged Chrome trace, with one process per rank and all times on rank 0's clock."""
import gzip
import json
import pathlib
from typing import Any, Dict, Set, Tuple

from .process import Process
from .threads import DEVICE

_encode = json.JSONEncoder(separators=(",", ":")).encode
_STREAMS = 1 << 30  # thread numbers of streams, above those of threads


class Trace:
    """trace.json.gz, written while the windows are read. Times are µs since the recording's start."""
    def __init__(self, path: pathlib.Path, zero: int) -> None:
        self._path, self._zero = path, zero
        self._temporary = path.with_name(path.name + ".part")
        self._file = gzip.open(self._temporary, "wt", encoding="utf-8", compresslevel=1)
        self._file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        self._comma = ""
        self._named: Set[Tuple[int, int]] = set()

    def _write(self, event: Dict[str, Any]) -> None:
        self._file.write(self._comma + _encode(event))
        self._comma = ",\n"

    def process(self, p: Process) -> None:
        """Name a process. Call it before its windows are read."""
        f = p.files
        name = f"{f.name()} ({f.host}, {f.device_name or f.device_type})"
        for kind, key, value in (("process_name", "name", name), ("process_labels", "labels", " ".join(f.argv)[:200]),
                                 ("process_sort_index", "sort_index", p.index)):
            self._write({"ph": "M", "name": kind, "pid": p.index, "tid": 0, "args": {key: value}})

    def _thread(self, p: Process, tid: int, name: str, order: int) -> None:
        if (p.index, tid) in self._named:
            return
        self._named.add((p.index, tid))
        self._write({"ph": "M", "name": "thread_name", "pid": p.index, "tid": tid, "args": {"name": name}})
        self._write({"ph": "M", "name": "thread_sort_index", "pid": p.index, "tid": tid, "args": {"sort_index": order}})

    def event(self, p: Process, data: Dict[str, Any], begin: int) -> None:
        """Copy an event from a window. `begin` is its time in ns."""
        phase, cat = data.get("ph"), data.get("cat")
        if phase == "M" or (phase == "i" and data.get("s") == "g"):
            return
        out = dict(data, pid=p.index, ts=(begin - self._zero) / 1000)
        if phase == "i" and data.get("name") == "[memory]":
            args = data["args"]
            device = "host" if args["Device Type"] == 0 else f"{p.files.device_type}:{args['Device Id']}"
            self._write({
                "ph": "C", "name": f"memory {device}", "pid": p.index, "ts": out["ts"], "args": {"bytes": args["Total Allocated"]}
            })
            return
        tid = int(data["tid"])
        if cat in DEVICE or (cat == "ac2g" and phase == "f"):
            index, stream = int(data["pid"]), tid
            out["tid"] = tid = _STREAMS + 1000 * index + stream
            self._thread(p, tid, f"{p.files.device_type}:{index} stream {stream}", tid)
        else:
            self._thread(p, tid, p.thread_names.get(str(tid), f"thread {tid}"), 0 if tid == p.files.pid else 1)
        if "id" in data:  # flow events, which viewers draw as arrows
            out["id"] = f"{p.index}.{p.windows}.{cat}.{data['id']}"
        self._write(out)

    def close(self) -> None:
        self._file.write("\n]}\n")
        self._file.close()
        self._temporary.replace(self._path)
