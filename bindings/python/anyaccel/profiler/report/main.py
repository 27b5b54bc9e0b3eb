"""Reads DIR/raw, and writes DIR/profile.html, DIR/trace.json.gz and DIR/summary.txt."""
import argparse
import os
import pathlib
import re
import sys
from typing import Any, Dict, List, Optional, Tuple

from .events import Window
from .files import Lines, Problems, processes, read_json
from .page import pack, page
from .process import Process
from .result import findings, headline, memories, state, top_ops
from .store import FINDING, Store
from .suggest import device_times, idle_share, suggestions
from .summary import summary
from .trace import Trace

LIMIT = 200_000
_CHECKER_LINE = re.compile(r'File "(.*)", line (\d+)\b')
_RECORDED_LINE = re.compile(r"(.+):(\d+)(?: in |$)")


class Unreadable(Exception):
    """The folder is not a recording."""


def build(folder: pathlib.Path, limit: int = LIMIT) -> str:
    """Write the three files to `folder`, and return the summary."""
    problems = Problems()
    files = processes(folder / "raw", problems)
    if not files:
        raise Unreadable(f"cannot build a profile page: {str(folder / 'raw')!r} has no recorded process. Give the folder that "
                         "`anyaccel profile -o DIR` wrote")
    starts = [f.start_ns + f.offset_ns for f in files if f.start_ns is not None]
    zero = min(starts) if starts else _first(files)
    store, tracks = Store(limit), []  # type: Store, List[Dict[str, Any]]
    trace = Trace(folder / "trace.json.gz", zero)
    found = [Process(f, store, tracks, index, zero) for index, f in enumerate(files)]
    reports: List[Dict[str, Any]] = []
    for p in found:
        trace.process(p)
        for path in p.files.windows:
            number = path.name.split("-")[1].split(".")[0]
            p.read(Window(path), Lines(p.files, number, problems), problems, trace.event)
        reports += _findings(p, problems)
    trace.close()
    _mark(reports, store, tracks)
    advice = suggestions(found)
    for p in found:
        if not p.events and p.files.exit_kind != "fork":
            problems.add(p.files.folder.name, "no events")
    data = _data(found, tracks, advice, reports, problems, store)
    columns, strings = store.finish()
    data["dropped"] = store.dropped
    _write(folder / "profile.html", page(pack(data, columns, strings)))
    place = min(os.path.relpath(folder / "profile.html"), str(folder / "profile.html"), key=len)
    text = summary(found, advice, problems.texts, len(reports), place)
    _write(folder / "summary.txt", text)
    return text


def _first(files: List[Any]) -> int:
    """Time of the first event, if no process.json is readable."""
    for f in files:
        for path in f.windows:
            window = Window(path)
            for event in window:
                if isinstance(event.get("ts"), (int, float)) and event.get("ph") == "X":
                    return window.base_ns + int(round(event["ts"] * 1000))
    return 0


def _findings(p: Process, problems: Problems) -> List[Dict[str, Any]]:
    path = p.files.folder / "findings.json"
    if not path.exists():
        return []
    try:
        return findings(p, read_json(path))
    except ValueError as error:
        problems.add(f"{p.files.folder.name}/findings.json", error)
        return []


def _same_line(found: str, recorded: str) -> bool:
    """Whether the checker's line (File "/path/train.py", line 3 in f) and an op's line (train.py:3
    in f) are the same.
    """
    if found == recorded:
        return True
    parts, name = _CHECKER_LINE.match(found), _RECORDED_LINE.match(recorded)
    return bool(parts and name and parts[2] == name[2] and f"/{parts[1]}".endswith("/" + name[1].lstrip("/")))


def _mark(reports: List[Dict[str, Any]], store: Store, tracks: List[Dict[str, Any]]) -> None:
    """Place the checker's findings on the timeline: at their time, or at the first op with their line."""
    if not reports:
        return
    hosts = {i: track["process"] for i, track in enumerate(tracks) if track["kind"] == "host"}
    first: Dict[Tuple[int, int], Tuple[int, int]] = {}  # {(process, line): (begin, track)}
    for begin, track, line in zip(store.columns[0], store.columns[4], store.columns[5]):
        key = (hosts.get(track, -1), line)
        if line and begin < first.get(key, (begin + 1, 0))[0]:
            first[key] = (begin, track)
    for number, report in enumerate(reports):
        process = report["process"]
        at = None
        if report["time"] is not None:
            at = next(((report["time"], track) for track, owner in hosts.items() if owner == process), None)
        elif report["line"]:
            at = min((place for (owner, line), place in first.items()
                      if owner == process and _same_line(report["line"], store.strings.texts[line])), default=None)
        if at is not None:
            report["time"] = at[0]
            store.add(at[0], 0, 0, f"checker: {report['kind']}", at[1], report["line"], "", number % 2, FINDING)


def _data(found: List[Process], tracks: List[Dict[str, Any]], advice: Any, reports: Any, problems: Problems,
          store: Store) -> Dict[str, Any]:
    device = any(p.busy for p in found)
    first = min((p.first - p.zero for p in found if p.first), default=0)
    last = max((p.last - p.zero for p in found if p.last), default=1)
    return {
        "version":
        1,
        "headline":
        headline(found),
        "device":
        device,
        "first":
        first,
        "last":
        last,
        "zero":
        str(found[0].zero),
        "idle":
        idle_share([p for p in found if p.span > 0]) if device else None,
        "tracks":
        tracks,
        "ops":
        top_ops(found),
        "suggestions":
        advice,
        "findings":
        reports,
        "problems":
        problems.texts,
        "problem_count":
        problems.count,
        "events":
        sum(p.events for p in found),
        "processes": [{
            "name": p.files.name(),
            "host": p.files.host,
            "pid": p.files.pid,
            "argv": p.files.argv,
            "device": p.files.device_name or p.files.device_type,
            "accelerator": p.files.accelerator,
            "torch": p.files.torch,
            "python": p.files.python,
            "state": state(p),
            "span": p.span,
            "busy": sum(p.busy.values()),
            "device_busy": device_times([p])[0],
            "device_span": device_times([p])[1],
            "devices": len(p.busy),
            "in_ops": p.in_ops,
            "compute": p.work.compute,
            "collective": p.work.collective,
            "dropped_events": p.files.dropped_events,
            "dropped_windows": p.files.dropped_windows,
            "overhead": p.files.overhead_ns,
            "windows": [[a - p.zero, b - p.zero] for a, b in p.spans[:10_000]],
            "memories": memories(p),
            "offset": p.files.offset_ns,
            "ended": p.files.end_ns is not None or p.files.exit_kind == "fork"
        } for p in found],
    }


def _write(path: pathlib.Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    # The folder's name need not be UTF-8.
    temporary.write_text(text, "utf-8", errors="replace")
    temporary.replace(path)


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m anyaccel.profiler", description="Build the profile page of a recording.")
    parser.add_argument("folder", metavar="DIR", type=pathlib.Path, help="Folder that contains raw/")
    parser.add_argument("--max-events", type=int, default=LIMIT, metavar="N",
                        help="Number of events on the page (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="Do not print the summary")
    options = parser.parse_args(arguments)
    if options.max_events < 1:
        parser.error(f"--max-events: got {options.max_events}, expected at least 1")
    try:
        text = build(options.folder, options.max_events)
    except (Unreadable, OSError) as error:
        print(f"anyaccel profile: {error}", file=sys.stderr)
        return 1
    if not options.quiet:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        print(text, end="")
    return 0
