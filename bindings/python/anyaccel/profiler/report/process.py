"""Totals for one process, added window by window."""
from typing import Any, Counter, Dict, List, Optional, Set, Tuple

from . import costs
from .events import Window
from .files import Lines, Problems, ProcessFiles
from .memory import Memory, Sample
from .store import COLLECTIVE, IDLE, KERNEL, RANGE, SYNC, Store
from .threads import DEVICE, HOST, RANGES, Event, Thread, clip, covered, event, is_loader, length, overlap, union
from .totals import DeviceWindow, Evidence, Gap, Op, Work

_MOST = 1_000_000  # maximum number of events analyzed at once
_GAP = 10_000  # duration in ns of the shortest gap that the page shows
_START = 0.01  # share of a device's work that counts as the program's startup
_LONGEST = 366 * 86400 * 10**9  # maximum duration of a recording, in ns
_TINY = 10_000  # in ns; shorter kernels count as tiny
# Minimum duration, in ns, of a call that launches nothing but seems to wait for a busy device.
_WAIT = 20_000


class Process:
    """One recorded process. `tracks` are (kind, label, sort key) of its rows on the page."""

    def __init__(self, files: ProcessFiles, store: Store, tracks: List[Dict[str, Any]], index: int, zero: int) -> None:
        self.files, self.store, self.tracks, self.index, self.zero = files, store, tracks, index, zero
        self._track: Dict[Tuple[Any, ...], int] = {}
        self.thread_names: Dict[str, str] = {}
        self.ops: Dict[str, Op] = {}
        self.memories: Dict[Tuple[int, int], Memory] = {}
        self.events = self.windows = self.first = self.last = 0
        #: By device: busy time, time of the first activity, and windows since then.
        self.busy: Dict[int, int] = {}
        self.device_first: Dict[int, int] = {}
        self.device_windows: Dict[int, List[DeviceWindow]] = {}
        self.exposed = self.in_ops = self.kernels = 0
        self.on_device, self.on_host = Work(), Work()
        self.sync, self.pageable, self.tiny, self.loader = (Evidence() for _ in range(4))
        self._forward: Dict[int, str] = {}
        self.spans: List[Tuple[int, int]] = []

    @property
    def span(self) -> int:
        """Recorded time. Windows overlap if a kernel of one of them runs into the next one."""
        return length(union(self.spans))

    def active_windows(self) -> List[DeviceWindow]:
        """Windows of all devices, each without the startup phase, in which the device does the
        first 1 % of its work: programs often take long to start.
        """
        found = []
        for windows in self.device_windows.values():
            done, least = 0, _START * sum(w.busy for w in windows)
            for w in windows:
                if done + w.busy > least:
                    found.append(w.without_start(least - done) if done <= least else w)
                done += w.busy
        return found

    @property
    def work(self) -> Work:
        """The work on devices, or on the host if no device was used."""
        return self.on_device if self.busy else self.on_host

    def track(self, kind: str, *key: Any) -> int:
        found = self._track.get((kind, *key))
        if found is None:
            found = self._track[(kind, *key)] = len(self.tracks)
            device = self.files.device_type
            label = {
                "host": lambda: " ".join([self.thread_names.get(str(key[0]), f"thread {key[0]}"), *key[1:]]),
                "stream": lambda: f"{device}:{key[0]} stream {key[1]}",
                "idle": lambda: f"{device}:{key[0]} idle"
            }[kind]()
            self.tracks.append({
                "process":
                self.index,
                "kind":
                kind,
                "label":
                label[:100],
                "device":
                key[0] if kind != "host" else -1,
                "order": [("idle", "stream", "host").index(kind), kind == "host" and str(key[0]) != str(self.files.pid),
                          *(str(k).rjust(12) for k in key)]
            })
        return found

    def read(self, window: Window, lines: Lines, problems: Problems, copy: Any) -> None:
        """Add a window. `copy` is called with each event, for the merged trace."""
        part = _Part()
        offset, count, unusable, why = self.files.offset_ns, 0, 0, ""
        if times := self.files.window_times.get(window.path.name.split(".")[0]):
            part.bounds = [t + offset for t in times]
        for data in window:
            count += 1
            try:
                self._take(data, window.base_ns + offset, part, copy)
            except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
                unusable, why = unusable + 1, f"{type(error).__name__}: {error}"
            if part.count >= _MOST:
                self._analyze(part, lines, whole=False)
                part = _Part(part.bounds, part.in_ops)
        if window.error:
            problems.add(f"{self.files.folder.name}/{window.path.name}", f"{window.error} ({count} events read)")
        if unusable:
            problems.add(f"{self.files.folder.name}/{window.path.name}", f"{unusable} of {count} events are unusable ({why})")
        self._analyze(part, lines, whole=part.first)
        if part.bounds:
            begin, end = part.bounds
            self.in_ops += length(clip(part.in_ops, max(begin, self.last), end))
            self.spans.append((begin, end))
            self.first, self.last = min(self.first or begin, begin), max(self.last, end)
        self.windows += count > 0
        self.events += count

    def _take(self, data: Dict[str, Any], base: int, part: "_Part", copy: Any) -> None:
        phase, cat = data.get("ph"), data.get("cat")
        begin = base + round(data["ts"] * 1000) if "ts" in data else self.zero
        duration = max(0, round(data.get("dur", 0) * 1000))
        if max(abs(begin - self.zero), duration) > _LONGEST:
            raise ValueError(f"implausible time {data.get('ts')!r} or duration {data.get('dur')!r}"[:200])
        if phase == "X":
            if cat in DEVICE:
                part.streams.setdefault((int(data["pid"]), int(data["tid"])), []).append(event(data, begin, duration))
            elif cat in HOST:
                part.threads.setdefault(str(data["tid"]), []).append(event(data, begin, duration))
            else:
                if cat == "Trace" and str(data.get("name", "")).startswith("PyTorch Profiler"):
                    part.extend(begin, begin + duration)
                return
            part.count += 1
            # A range may have begun in an earlier window, and most of its time may not be recorded.
            if cat not in RANGES:
                part.extend(begin, begin + duration)
        elif phase == "i" and data.get("name") == "[memory]":
            args = data["args"]
            where = (int(args["Device Type"]), int(args["Device Id"]))
            sample = (begin, int(args["Addr"]), int(args["Bytes"]), int(args["Total Allocated"]), str(data["tid"]))
            if max(map(abs, sample[1:4])) >= 1 << 62:
                raise ValueError("implausible numbers in a memory event")
            part.memory.setdefault(where, []).append(sample)
            part.count += 1
        elif phase == "M" and data.get("name") == "thread_name":
            self.thread_names.setdefault(str(data["tid"]), str(data["args"]["name"]))
        copy(self, data, begin)

    def _analyze(self, part: "_Part", lines: Lines, whole: bool) -> None:
        """Add a window, or a part of a very large one."""
        offset = self.files.offset_ns
        threads = {tid: Thread(events) for tid, events in part.threads.items()}
        used = {e.external for events in part.streams.values() for e in events if e.external >= 0}
        launched: Dict[int, Tuple[Thread, int]] = {}
        if len(self._forward) > 500_000:
            self._forward.clear()
        for tid, thread in sorted(threads.items(), key=lambda item: sum(e.backward for e in item[1].events)):
            thread.mark_launches(used)
            starts, texts = lines.threads.get(tid, ([], []))
            thread.set_lines([s + offset for s in starts], texts, self._forward)
            for i, e in enumerate(thread.events):
                if e.cat == "cpu_op" and e.external >= 0:
                    launched[e.external] = (thread, i)
        top = max([e for e in launched], default=0) + 1
        busy = union([(e.begin, e.end) for events in part.streams.values() for e in events if e.cat != "gpu_user_annotation"])
        for tid, thread in threads.items():
            self._host(tid, thread, busy)
        tops = [(thread.events[i].begin, thread.events[i].end) for thread in threads.values() for i in thread.top]
        part.in_ops = union(part.in_ops + tops)
        self._devices(part, threads, launched, whole)
        self._memory(part, threads)
        self.store.base += top

    def _host(self, tid: str, thread: Thread, busy: List[Tuple[int, int]]) -> None:
        track = self.track("host", tid)
        device = self.files.device_type != "cpu"
        for i, e in enumerate(thread.events):
            kind, time = thread.categories[i], e.end - e.begin
            key = self.store.base + e.external if e.cat == "cpu_op" and e.external >= 0 else 0
            row = self.track("host", tid, "asynchronous") if i in thread.asynchronous else track
            self.store.add(e.begin - self.zero, time, key, e.name, row, thread.lines[i], e.shapes, thread.depths[i], kind)
            if kind == RANGE:
                if is_loader(e.name):
                    self.loader.note(time)
                continue
            # item() on a CPU tensor does not wait.
            waits = kind == SYNC and (thread.launches[i] or e.cat != "cpu_op" or
                                      (time >= _WAIT and 2 * overlap(e.begin, e.end, busy) >= time))
            if device and waits and not any(thread.categories[p] == SYNC for p in _above(thread, i)):
                self.sync.note(time, thread.lines[i])
            if e.cat != "cpu_op" and kind != COLLECTIVE:
                continue
            calls = (self.ops.get(e.name) or self._op(e.name)).host
            own = thread.self_time(i)
            calls.add(own, thread.lines[i])
            if not thread.within_same(i):
                calls.call(e)
                calls.measure(time, e)  # not its own time: the ops that it calls do its work
            if kind == COLLECTIVE:
                self.on_host.collective += own
            else:
                self.on_host.compute += own
            if e.dtype == "float32" and costs.base_name(e.name) in costs.MATMULS:
                self.on_host.matmul32.note(own, thread.lines[i])

    def _devices(self, part: "_Part", threads: Dict[str, Thread], launched: Dict[int, Tuple[Thread, int]], whole: bool) -> None:
        busy: Dict[int, List[Tuple[int, int, int]]] = {}
        called: Set[int] = set()
        for (device, stream), events in sorted(part.streams.items()):
            row, track = Thread(events), self.track("stream", device, stream)
            for i, e in enumerate(events):
                kind, time = row.categories[i], e.end - e.begin
                thread, at = launched.get(e.external, (None, -1))
                source = thread.events[at] if thread else None
                line = thread.lines[at] if thread else ""
                if source and thread and kind == KERNEL and any(thread.categories[p] == COLLECTIVE
                                                                for p in [at, *_above(thread, at)]):
                    kind = COLLECTIVE
                self.store.add(e.begin - self.zero, time, -(self.store.base + e.external) if source else 0, e.name, track, line,
                               source.shapes if source else "", row.depths[i], kind)
                if kind == RANGE:
                    continue
                if e.end > self.last:  # the earlier windows contain the time until `last`
                    busy.setdefault(device, []).append((max(e.begin, self.last), e.end, kind))
                self._kernel(e, kind, time, line, source, called)
        waits = _host_collectives(threads)
        for device in sorted({*busy, *self.busy}):
            spans = busy.get(device, [])
            merged = union([(b, e) for b, e, _ in spans])
            self.busy[device] = self.busy.get(device, 0) + length(merged)
            compute = union([(b, e) for b, e, kind in spans if kind == KERNEL])
            collective = union([(b, e) for b, e, kind in spans if kind == COLLECTIVE] + waits)
            waits = []
            self.on_device.compute += length(compute)
            self.on_device.collective += length(collective)
            self.exposed += length(collective) - covered(collective, compute)
            if merged:
                self.device_first.setdefault(device, merged[0][0])
            if whole and part.bounds:
                self._gaps(device, merged, threads, max(part.bounds[0], self.last, self.device_first[device]), part.bounds[1])
            elif merged:
                self._gaps(device, merged, threads, merged[0][0], merged[-1][1])

    def _op(self, name: str) -> Op:
        """Add an op. Ops beyond the first 50000 names share one entry."""
        return self.ops.setdefault(name if len(self.ops) < 50_000 else "other ops", Op())

    def _kernel(self, e: Event, kind: int, time: int, line: str, source: Optional[Event], called: Set[int]) -> None:
        name = source.name if source else costs.base_name(e.name)
        calls = (self.ops.get(name) or self._op(name)).device
        calls.add(time, line)
        calls.measure(time, source or e)
        if not source or e.external not in called:
            called.add(e.external)
            calls.call(source or e)
        if kind == KERNEL:
            self.kernels += 1
            if time < _TINY:
                self.tiny.note(time, line)
        if "Pageable" in e.name:
            self.pageable.note(time, line)
        if source and source.dtype == "float32" and costs.base_name(name) in costs.MATMULS:
            self.on_device.matmul32.note(time, line)

    def _gaps(self, device: int, busy: List[Tuple[int, int]], threads: Dict[str, Thread], begin: int, end: int) -> None:
        """Add the gaps between a device's work, and what the host does during each gap."""
        if begin >= end:
            return
        track = self.track("idle", device)
        window = DeviceWindow(begin, end, length(busy))
        self.device_windows.setdefault(device, []).append(window)
        edges = [begin] + [t for span in busy for t in span] + [end]
        main = max(threads.values(), key=lambda t: len(t.events), default=None)
        done = 0
        for number, (a, b) in enumerate(zip(edges[::2], edges[1::2])):
            done += length(busy[number - 1:number]) if number else 0
            if b - a < _GAP:
                continue
            best, share = "", 0
            for thread in threads.values():
                if not thread.events or thread.begins[0] > b:
                    continue
                doing = thread.activity(a, b)
                rest = doing.pop("")
                if thread is main and not best:
                    best, share = "the program's own code", rest
                name = max(doing, key=doing.__getitem__, default="")
                if name and doing[name] > share:
                    best, share = name, doing[name]
            best = best or "nothing recorded"
            window.add(Gap(b - a, a, best, done))
            self.store.add(a - self.zero, b - a, 0, f"idle; host: {best}", track, "", "", 0, IDLE)

    def _memory(self, part: "_Part", threads: Dict[str, Thread]) -> None:
        for (kind, device), rows in part.memory.items():
            label = "host memory" if kind == 0 else f"{self.files.device_type}:{device} memory"
            samples = []
            for time, address, size, allocated, tid in rows:
                thread = threads.get(tid)
                place = thread.place(thread.at(time)) if thread and size > 0 else ("", "", "")
                samples.append(Sample(time - self.zero, address, size, allocated, *place))
            self.memories.setdefault((kind, device), Memory(label, kind == 0)).add(samples)


def _host_collectives(threads: Dict[str, Thread]) -> List[Tuple[int, int]]:
    """Collectives that host threads run, rather than kernels."""
    return [(t.events[i].begin, t.events[i].end) for t in threads.values() for i in range(len(t.events))
            if t.categories[i] == COLLECTIVE and (i in t.asynchronous or not t.launches[i])]


class _Part:
    """Events that are analyzed at once: a window, or a part of a very large one."""

    def __init__(self, bounds: Optional[List[int]] = None, in_ops: Optional[List[Tuple[int, int]]] = None) -> None:
        self.first = bounds is None
        self.threads: Dict[str, List[Event]] = {}
        self.streams: Dict[Tuple[int, int], List[Event]] = {}
        self.memory: Dict[Tuple[int, int], List[Tuple[int, int, int, int, str]]] = {}
        self.bounds: List[int] = bounds or []  # begin and end of the window
        self.in_ops = in_ops or []  # times in which any thread of the window runs an op, merged
        self.count = 0

    def extend(self, begin: int, end: int) -> None:
        """Extend the time range that the events cover."""
        if not self.bounds:
            self.bounds = [begin, end]
        elif begin < self.bounds[0] or end > self.bounds[1]:
            self.bounds = [min(begin, self.bounds[0]), max(end, self.bounds[1])]


def _above(thread: Thread, i: int) -> Any:
    """Indices of the events that enclose event `i`."""
    i = thread.parents[i]
    while i >= 0:
        yield i
        i = thread.parents[i]
