"""Reads the files of a recording: process.json, lines-N.json.gz and findings.json. Broken files are
noted in `Problems` and do not stop the report.
"""
import gzip
import json
import pathlib
import re
from typing import Any, Dict, List, Tuple
import zlib

LIMIT = 1 << 28  # maximum size in bytes of a JSON file that is read as a whole


class Problems:
    """Files that could not be read completely, for the page and the summary."""
    def __init__(self) -> None:
        self.texts: List[str] = []
        self.count = 0

    def add(self, path: Any, what: Any) -> None:
        self.count += 1
        if len(self.texts) < 100:
            self.texts.append(f"{path}: {str(what)[:200]}")


def read_json(path: pathlib.Path) -> Any:
    """Return the content of a JSON file (NAME.json or NAME.json.gz). Raise ValueError with one line
    if it is not readable.
    """
    try:
        with (gzip.open(path) if path.suffix == ".gz" else open(path, "rb")) as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise ValueError(f"larger than {LIMIT >> 20} MiB")
        return json.loads(data)
    except (OSError, EOFError, zlib.error, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _number(data: Dict[str, Any], key: str, default: Any) -> Any:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else default


class ProcessFiles:
    """The files of one recorded process. Attributes are named after the keys in process.json."""
    def __init__(self, folder: pathlib.Path, problems: Problems) -> None:
        self.folder = folder
        data: Any = {}
        try:
            data = read_json(folder / "process.json")
        except ValueError as error:
            problems.add(f"{folder.name}/process.json", error)
        if not isinstance(data, dict):
            problems.add(f"{folder.name}/process.json", "not a JSON object")
            data = {}
        host, _, pid = folder.name.rpartition("-")
        self.host = str(data.get("host") or host)[:200]
        self.pid = _number(data, "pid", int(pid) if pid.isascii() and pid.isdigit() else 0)
        self.rank = _number(data, "rank", None)
        argv = data.get("argv")
        self.argv = [str(word)[:500] for word in argv[:200]] if isinstance(argv, list) else []
        self.accelerator = str(data.get("accelerator") or "unknown")[:80]
        self.device_type = str(data.get("device_type") or self.accelerator)[:80]
        self.device_name = str(data.get("device_name") or "")[:200]
        self.torch, self.python = str(data.get("torch") or "")[:40], str(data.get("python") or "")[:40]
        self.start_ns = _number(data, "start_ns", None)
        self.end_ns = _number(data, "end_ns", None)
        self.offset_ns = _number(data, "clock_offset_ns", 0)
        self.overhead_ns = _number(data, "overhead_ns", 0)
        self.dropped_events = _number(data, "dropped_events", 0)
        self.dropped_windows = _number(data, "dropped_windows", 0)
        ended = data.get("exit") if isinstance(data.get("exit"), dict) else {}
        self.exit_kind, self.exit_detail = str(ended.get("kind") or "running")[:40], str(ended.get("detail") or "")[:300]
        self.peak_flops, self.peak_bytes = _peak(data.get("peak"))
        #: (begin, end) of each window by name, if the recorder stored them.
        self.window_times: Dict[str, List[int]] = {}
        times = data.get("windows")
        for number, pair in enumerate(times if isinstance(times, list) else [], 1):
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(t, int)
                                                                 for t in pair) and 0 < pair[0] < pair[1] < 1 << 62:
                self.window_times[f"window-{number:04}"] = pair
        self.windows = _numbered(folder, "window")
        self.lines = _numbered(folder, "lines")

    def name(self) -> str:
        """Name of the process on the page, for example "rank 0"."""
        return f"rank {self.rank}" if self.rank is not None else f"process {self.pid}"


def _peak(data: Any) -> Tuple[Dict[str, float], float]:
    data = data if isinstance(data, dict) else {}
    flops = data.get("flops") if isinstance(data.get("flops"), dict) else {}
    rate = data.get("bytes_per_second")
    return ({str(name): float(value)
             for name, value in flops.items()
             if isinstance(value, (int, float)) and value > 0}, float(rate) if isinstance(rate, (int, float)) and rate > 0 else 0.0)


def _numbered(folder: pathlib.Path, name: str) -> List[pathlib.Path]:
    found = []
    for path in folder.glob(name + "-*.json*"):
        match = re.fullmatch(name + r"-(\d{1,12})\.json(\.gz)?", path.name)
        if match and path.is_file():
            found.append((int(match[1]), path))
    return [path for _number_, path in sorted(found)]


def processes(raw: pathlib.Path, problems: Problems) -> List[ProcessFiles]:
    """Return the recorded processes, sorted by rank, host and PID."""
    found = [ProcessFiles(folder, problems) for folder in sorted(raw.iterdir()) if folder.is_dir()] if raw.is_dir() else []
    return sorted(found, key=lambda p: (not p.windows, p.rank is None, p.rank or 0, p.start_ns or 0, p.host, p.pid))


class Lines:
    """Source lines of top-level ops, by thread and time."""
    def __init__(self, process: ProcessFiles, number: str, problems: Problems) -> None:
        self.threads: Dict[str, Tuple[List[int], List[str]]] = {}
        for path in process.lines:
            if number and path.name.split("-")[1].split(".")[0] != number:
                continue
            try:
                data = read_json(path)
                frames = data["frames"]
                for thread, rows in data["threads"].items():
                    starts, texts = self.threads.setdefault(str(thread), ([], []))
                    for start, frame in zip(rows["start_ns"], rows["frame"]):
                        starts.append(int(start))
                        texts.append(str(frames[frame])[:300] if 0 <= frame < len(frames) else "")
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                problems.add(f"{process.folder.name}/{path.name}", f"no source lines: {type(error).__name__}: {error}")
        for thread, (starts, texts) in self.threads.items():
            if any(a > b for a, b in zip(starts, starts[1:])):
                order = sorted(range(len(starts)), key=starts.__getitem__)
                self.threads[thread] = ([starts[i] for i in order], [texts[i] for i in order])
