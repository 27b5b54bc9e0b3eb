"""The text summary: at most 40 lines of at most 80 columns."""
import textwrap
from typing import Any, Dict, List

from .process import Process
from .suggest import device_times
from .result import headline, memories, state, top_ops
from .units import of_peak, percent, rate, seconds, size


def _clean(text: str, width: int) -> str:
    """Text from the program, safe to print, in at most `width` columns."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= width else text[:width - 1] + "…"


def _end(text: str, width: int) -> str:
    """Like _clean(), but truncate the beginning instead of the end, for paths."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= width else "…" + text[1 - width:]


def summary(processes: List[Process], found: List[Dict[str, Any]], problems: List[str], findings: int, page: str) -> str:
    """Return the summary. `page` is the path of the page."""
    out = [headline(processes)]
    for p in processes[:5]:
        f = p.files
        busy = percent(*device_times([p]))
        share = f"device busy {busy}" if p.busy else f"in ops {percent(p.in_ops, p.span)}"
        out.append(_clean(f"  {f.name()}: {f.device_name or f.device_type}, {seconds(p.span)}, {share}", 80))
        if state(p) != "exited":
            out.append(_clean(f"    {state(p)}", 80))
    if len(processes) > 5:
        out.append(f"  and {len(processes) - 5} more processes")
    rows = top_ops(processes)
    if rows:
        device = any(p.busy for p in processes)
        out += ["", f"{'device time' if device else 'host time':>11}  {'share':>6}  {'calls':>7}  {'achieved':>15}  op"]
    for row in rows:
        best = max((x for x in (row["flops_peak"], row["bytes_peak"]) if x is not None), default=None)
        part = "n/a" if row["bytes"] is None and row["flops"] is None else rate(row["flops"], "FLOP") if row["flops"] else rate(
            row["bytes"], "B")
        part = of_peak(best) if best is not None else part
        out.append(
            f"{seconds(row['time']):>11}  {percent(row['share'], 1):>6}  {row['calls']:>7}  {part:>15}  "
            f"{_clean(row['name'].replace('autograd::engine::evaluate_function: ', ''), 30)}"
        )
    peaks = [(p, m) for p in processes for m in memories(p)[:1]]
    if peaks:
        p, m = max(peaks, key=lambda item: item[1]["peak"])
        out += ["", f"Peak: {size(m['peak'])} of {_clean(m['label'], 40)} ({p.files.name()})"]
        for t in m["largest"][:3]:
            out.append(f"  {size(t['bytes']):>9}  {_clean(t['op'], 24):24}  {_end(t['line'] or t['ranges'], 41)}".rstrip())
    if found:
        out.append("")
    for s in found[:4]:
        out += textwrap.wrap("* " + _clean(s["title"], 150) + ".", 80, subsequent_indent="  ")[:2]
    if len(found) > 4:
        out.append(f"  and {len(found) - 4} more suggestions on the page")
    out.append("")
    if findings:
        out.append(f"The checker found {findings} {'problem' if findings == 1 else 'problems'}; the page lists them.")
    if problems:
        out.append(
            f"{len(problems)} {'file was' if len(problems) == 1 else 'files were'} not read completely; the page lists them.")
    out.append(f"Page: {page}")
    return "\n".join(out if len(out) <= 40 else out[:39] + out[-1:]) + "\n"
