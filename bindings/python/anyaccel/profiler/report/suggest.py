"""Suggestions: rules over the totals. Each rule states its evidence and its threshold, and does not
suggest anything without evidence. docs/reference/profile.md lists the rules.
"""
from typing import Any, Counter, Dict, List, Tuple

from .memory import LARGE
from .process import Process
from .totals import Evidence
from .units import percent, seconds, size

IDLE = 0.20  # threshold, as a share of the recorded time
SYNC_TIME, SYNC_CALLS, SYNC_IDLE = 0.02, 20, 0.05
PAGEABLE = 0.01
TINY_SHARE, TINY_KERNELS = 0.5, 100
FLOAT32, FASTER = 0.10, 1.5
EXPOSED = 0.10
LOADER = 0.05
ALLOCATIONS = 20
IMBALANCE = 0.15


def suggestions(processes: List[Process]) -> List[Dict[str, Any]]:
    """Return {"rule", "title", "text", "why", "lines", "at", "weight"}, the most important first.

    "at" is (begin, end) in ns of an example on the timeline, or None.
    """
    found: List[Dict[str, Any]] = []
    for rule in (_idle, _sync, _pageable, _tiny, _float32, _exposed, _loader, _allocations, _imbalance):
        found += rule([p for p in processes if p.span > 0])
    return sorted(found, key=lambda s: -s["weight"])


def _make(rule: str, weight: float, title: str, text: str, why: str, lines: Any = (), at: Any = None) -> List[Dict[str, Any]]:
    return [{
        "rule": rule, "weight": weight, "title": title, "text": text, "why": why, "lines": [[line, time] for line, time in lines],
        "at": at
    }]


def _sum(evidence: List[Evidence]) -> Evidence:
    total = Evidence()
    for e in evidence:
        total.count, total.time = total.count + e.count, total.time + e.time
        total.lines.update(e.lines)
    return total


def _span(processes: List[Process]) -> int:
    return sum(p.span for p in processes)


def _devices(processes: List[Process]) -> List[Process]:
    return [p for p in processes if p.busy]


def device_times(processes: List[Process]) -> Tuple[int, int]:
    """Return (busy, recorded) time of all devices, without their startup phases
    (Process.active_windows()).
    """
    windows = [w for p in processes for w in p.active_windows()]
    return sum(w.busy for w in windows), sum(w.end - w.begin for w in windows)


def idle_share(processes: List[Process]) -> float:
    """Fraction of the time that devices are idle."""
    busy, whole = device_times(processes)
    return 1 - busy / whole if whole else 0.0


def _idle(processes: List[Process]) -> List[Dict[str, Any]]:
    windows = [w for p in processes for w in p.active_windows()]
    share = idle_share(processes)
    if not windows or share < IDLE:
        return []
    reasons: Counter[str] = Counter()
    for w in windows:
        reasons.update(w.reasons)
    whole = sum(w.end - w.begin for w in windows)
    top = ", ".join(f"{name} ({percent(time, whole)})" for name, time in reasons.most_common(3))
    gaps = ((g.duration, g.begin - p.zero) for p in processes for w in p.active_windows() for g in w.gaps)
    duration, begin = max(gaps, default=(0, 0))
    return _make(
        "device-idle", share, f"The device is idle {share * 100:.0f} % of the time",
        f"During the gaps, the host mostly runs: {top}. Larger batches, fewer and larger ops, capturing the step as a graph, "
        "or moving work off the host's main thread keep the device busy.",
        f"The device is idle for at least {IDLE * 100:.0f} % of the time, not counting the program's start.",
        at=[begin, begin + duration] if duration else None)


def _sync(processes: List[Process]) -> List[Dict[str, Any]]:
    used = _devices(processes)
    e, span = _sum([p.sync for p in used]), _span(used)
    idle = idle_share(used)
    if not used or (e.time < SYNC_TIME * span and e.count < SYNC_CALLS) or not e.count or idle < SYNC_IDLE:
        return []
    return _make(
        "synchronizing-calls", min(idle, e.time / span),
        f"{e.count} {'call makes' if e.count == 1 else 'calls make'} the host wait for the device",
        f"The host waits for {seconds(e.time)}, {percent(e.time, span)} of the time, and launches nothing meanwhile. Read "
        "values such as the loss less often (every N steps), or copy them with non_blocking=True and read them later.",
        f"Calls such as aten::item take at least {SYNC_TIME * 100:.0f} % of the recorded time, or there are at least "
        f"{SYNC_CALLS}, and the device is idle for at least {SYNC_IDLE * 100:.0f} % of the time.", e.lines.most_common(5))


def _pageable(processes: List[Process]) -> List[Dict[str, Any]]:
    used = _devices(processes)
    e, span = _sum([p.pageable for p in used]), _span(used)
    if not e.count or e.time < PAGEABLE * span:
        return []
    return _make(
        "pageable-copies", e.time / span, f"{e.count} copies use pageable host memory",
        f"They take {seconds(e.time)}, {percent(e.time, span)} of the time, and the host waits for them. Use "
        "DataLoader(pin_memory=True) or tensor.pin_memory(), and copy with non_blocking=True.",
        f"Copies from or to pageable memory take at least {PAGEABLE * 100:.0f} % of the recorded time.", e.lines.most_common(5))


def _tiny(processes: List[Process]) -> List[Dict[str, Any]]:
    used = _devices(processes)
    e, kernels, share = _sum([p.tiny for p in used]), sum(p.kernels for p in used), idle_share(used)
    if kernels < TINY_KERNELS or e.count < TINY_SHARE * kernels or share < IDLE:
        return []
    return _make(
        "tiny-kernels", share * e.count / kernels, f"{percent(e.count, kernels)} of the kernels are shorter than 10 µs",
        f"{e.count} of {kernels} kernels run for {seconds(e.time / e.count)} on average, and the device is idle "
        f"{share * 100:.0f} % of the time: "
        "starting them costs more than running them. Use fused ops, torch.compile, a foreach or fused optimizer, or a "
        "captured graph.",
        f"At least {TINY_SHARE * 100:.0f} % of at least {TINY_KERNELS} kernels are shorter than 10 µs, and the device is idle "
        f"for at least {IDLE * 100:.0f} % of the time.", e.lines.most_common(5))


def _float32(processes: List[Process]) -> List[Dict[str, Any]]:
    used = [
        p for p in processes if p.files.peak_flops.get("bfloat16", 0) >= FASTER * p.files.peak_flops.get("float32", float("inf"))
    ]
    e, span = _sum([p.work.matmul32 for p in used]), _span(used)
    if not e.count or e.time < FLOAT32 * span:
        return []
    ratio = used[0].files.peak_flops["bfloat16"] / used[0].files.peak_flops["float32"]
    return _make(
        "float32-matmul", e.time / span, f"Matrix products in float32 take {percent(e.time, span)} of the time",
        f"In bfloat16, this device is {ratio:.1f} times as fast. Use torch.autocast(device_type, dtype=torch.bfloat16), or a "
        "bfloat16 model.",
        f"float32 products take at least {FLOAT32 * 100:.0f} % of the recorded time, and the device's measured bfloat16 peak "
        f"is at least {FASTER} times its float32 peak.", e.lines.most_common(5))


def _exposed(processes: List[Process]) -> List[Dict[str, Any]]:
    used = [p for p in _devices(processes) if p.on_device.collective]
    exposed, collective, span = sum(p.exposed for p in used), sum(p.on_device.collective for p in used), _span(used)
    if not span or exposed < EXPOSED * span:
        return []
    return _make(
        "exposed-collectives", exposed / span, f"Collectives without concurrent compute take {percent(exposed, span)} of the time",
        f"{seconds(exposed)} of {seconds(collective)} in collectives do not overlap with compute. Start collectives earlier "
        "(async_op=True, gradient buckets), or make the batches larger.",
        f"Collectives that do not overlap with compute take at least {EXPOSED * 100:.0f} % of the recorded time.")


def _loader(processes: List[Process]) -> List[Dict[str, Any]]:
    e, span = _sum([p.loader for p in processes]), _span(processes)
    if not e.count or e.time < LOADER * span:
        return []
    return _make(
        "dataloader", e.time / span, f"The program waits for its DataLoader {percent(e.time, span)} of the time",
        f"{e.count} batches take {seconds(e.time / e.count)} each on average. Raise num_workers, set persistent_workers=True, "
        "or move preprocessing out of the loop.", f"DataLoader ranges take at least {LOADER * 100:.0f} % of the recorded time.")


def _allocations(processes: List[Process]) -> List[Dict[str, Any]]:
    sites: Counter[Any] = Counter()
    for p in processes:
        for memory in p.memories.values():
            if memory.host == (not p.busy):
                sites.update(memory.sites)
    found = [(site, count) for site, count in sites.items() if count >= ALLOCATIONS]
    if not found:
        return []
    (bytes_, op, line), count = max(found, key=lambda item: item[0][0] * item[1])
    return _make(
        "repeated-allocations", 0.01, f"{op or 'The program'} allocates {size(bytes_)} {count} times",
        "If the allocation shows up in the timeline, allocate the tensor once and reuse it (out=, in-place ops, copy_()).",
        f"The same op at the same place allocates the same size of at least {size(LARGE)} at least {ALLOCATIONS} times.",
        [(line, 0)] if line else [])


def _imbalance(processes: List[Process]) -> List[Dict[str, Any]]:
    ranks = [(p.work.compute, p) for p in processes if p.files.rank is not None and p.work.compute > 0]
    if len({p.files.rank for _, p in ranks}) < 2:
        return []
    (least, low), (most, high) = min(ranks, key=lambda r: r[0]), max(ranks, key=lambda r: r[0])
    if most - least < IMBALANCE * most:
        return []
    return _make(
        "rank-imbalance", 1 - least / most,
        f"{high.files.name()} computes {percent(most - least, most)} longer than {low.files.name()}".capitalize(),
        f"{seconds(most)} on {high.files.name()}, {seconds(least)} on {low.files.name()}. The others wait for the slowest "
        "rank in collectives. Balance the batches or the layers between the ranks.",
        f"The computing time of two ranks, without collectives, differs by at least {IMBALANCE * 100:.0f} % of the longer one.")
