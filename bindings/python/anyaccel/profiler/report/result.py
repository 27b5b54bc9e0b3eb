"""The totals of all processes, as the page and the summary show them."""
from typing import Any, Counter, Dict, List, Optional

from .process import Process
from .suggest import device_times
from .totals import Calls
from .units import seconds


_MOST = 0.8


def state(p: Process) -> str:
    """How the process ended."""
    f = p.files
    if f.exit_kind == "exception":
        return f"ended with an exception: {f.exit_detail}" if f.exit_detail else "ended with an exception"
    if f.exit_kind == "fork":
        return f.exit_detail or "forked child, not recorded"
    if f.end_ns is None:
        if not p.last:
            return "ended without notice; nothing was recorded"
        return f"ended without notice; last window at {seconds(p.last - p.zero)}"
    if f.exit_kind == "exit" and f.exit_detail not in ("", "0"):
        return f"exited: {f.exit_detail}"
    return "exited"


def top_ops(processes: List[Process], most: int = 10) -> List[Dict[str, Any]]:
    """The most expensive ops by device time, or by the host's own time if no device was used."""
    device = any(p.busy for p in processes)
    found: Dict[str, List[Calls]] = {}
    for p in processes:
        for name, op in p.ops.items():
            found.setdefault(name, []).append(op.device if device else op.host)
    times = {name: sum(c.time for c in calls) for name, calls in found.items()}
    total = sum(times.values())
    names = sorted((name for name in found if times[name] > 0), key=lambda name: (-times[name], name))
    return [_row(name, found[name], total, processes) for name in names[:most]]


def _row(name: str, all_calls: List[Calls], total: int, processes: List[Process]) -> Dict[str, Any]:
    count, time = sum(c.count for c in all_calls), sum(c.time for c in all_calls)
    lines, dtypes = Counter[str](), Counter[str]()
    for c in all_calls:
        lines.update(c.lines)
        dtypes.update(c.dtypes)
    dtype = dtypes.most_common(1)[0][0] if dtypes else ""
    measured = sum(c.measured for c in all_calls)
    flops = _known(sum(c.flops for c in all_calls), sum(c.flops_time for c in all_calls), measured)
    size = _known(sum(c.bytes for c in all_calls), sum(c.bytes_time for c in all_calls), measured)
    # Compare with the slowest device, so that no share of mixed devices is overstated.
    peaks = [p.files.peak_flops[dtype] for p in processes if dtype in p.files.peak_flops]
    rates = [p.files.peak_bytes for p in processes if p.files.peak_bytes]
    return {
        "name": name,
        "calls": count,
        "time": time,
        "share": time / total if total else 0.0,
        "dtype": dtype,
        "flops": flops,
        "flops_peak": flops / min(peaks) if flops is not None and peaks else None,
        "bytes": size,
        "bytes_peak": size / min(rates) if size is not None and rates else None,
        "lines": [[line, spent] for line, spent in lines.most_common(3)]
    }


def _known(amount: int, known: int, time: int) -> Optional[float]:
    """Rate per second of the calls whose amount is known, if these calls take most of the time."""
    return amount / known * 1e9 if amount and known >= _MOST * time > 0 else None


def memories(p: Process) -> List[Dict[str, Any]]:
    """Memory usage over time, for each of the process's devices and for the host."""
    found = []
    for (kind, _device), m in sorted(p.memories.items(), key=lambda item: (item[1].host, item[0])):
        if not m.count or (m.host and p.busy and m.peak < 1 << 20 and len(p.memories) > 1):
            continue
        times, values = m.series()
        base = times[0] if times else 0
        found.append({
            "label":
            m.label,
            "host":
            m.host,
            "base":
            base,
            "times": [t - base for t in times],
            "values":
            list(values),
            "peak":
            m.peak,
            "peak_time":
            m.peak_time,
            "before":
            m.before,
            "largest": [{
                "bytes": s.bytes,
                "time": s.time,
                "op": s.op,
                "ranges": s.ranges,
                "line": s.line
            } for s in m.largest]
        })
    return found


def headline(processes: List[Process]) -> str:
    """One sentence about where the time goes."""
    used = [p for p in processes if p.span > 0]
    if not used:
        return "Nothing was recorded."
    ranks = f"{len(used)} processes" if len(used) > 1 else "One process"
    span = max(p.last for p in used) - min(p.first for p in used)
    recorded = sum(p.span for p in used)
    text = f"{ranks}, {seconds(span)}"
    if any(p.busy for p in used):
        busy, whole = device_times(used)
        share = busy / whole if whole else 0.0
        devices = "the device is" if sum(len(p.busy) for p in used) == 1 else "the devices are"
        return f"{text}: {devices} busy {share * 100:.0f} % of the time."
    return f"{text}: the host runs ops {min(1.0, sum(p.in_ops for p in used) / recorded) * 100:.0f} % of the time."


def findings(p: Process, data: Any) -> List[Dict[str, Any]]:
    """The problems that the checker found in one process."""
    problems = data.get("problems") if isinstance(data, dict) else data
    found = []
    for problem in problems[:1000] if isinstance(problems, list) else []:
        if isinstance(problem, dict):
            time = next((problem[k] for k in ("time_ns", "time") if isinstance(problem.get(k), int)), None)
            found.append({
                "process": p.index,
                **{
                    key: str(problem.get(key) or "")[:600]
                    for key in ("kind", "what", "op", "stream", "line", "remedy")
                }, "seen": problem.get("seen") if isinstance(problem.get("seen"), int) else 1,
                "time": time + p.files.offset_ns - p.zero if time and time > 1 << 60 else None
            })
    return found
