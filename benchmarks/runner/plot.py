"""Draws a benchmark's targets as an SVG picture that is legible on light and dark pages.

Each row is a target: the median is a dot, and the quartiles are a bar. The scale is logarithmic.
The limit is at 1, and figures to the right of it meet the target.
"""
import math
from xml.sax.saxutils import escape

ROW, LEFT, WIDTH, TOP, RIGHT = 20, 350, 300, 34, 80
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MET, MISSED, GRAY = "#3f8f5f", "#c2553b", "#8792a4"


def reserve(target, value):
    """Return a figure relative to its limit: at least 1 if it meets the target."""
    if target["kind"] == "at least":
        return value / target["limit"] if target["limit"] else 1
    return target["limit"] / value if value else 1


def shorten(text, size):
    return text if len(text) <= size else text[:size - 3] + "..."


def picture(result):
    """Return the SVG text, or "" for a benchmark with fewer than two targets that have a limit."""
    rows = [t for t in result["targets"] if t["limit"] and t["median"] > 0]
    if len(rows) < 2:
        return ""
    points = [sorted((reserve(t, t["low"] or t["median"]), reserve(t, t["median"]), reserve(t, t["high"]))) for t in rows]
    lowest = min(0.9, min(p[0] for p in points)) / 1.05
    highest = max(1.1, max(p[2] for p in points)) * 1.05
    scale = WIDTH / math.log(highest / lowest)
    x = lambda value: LEFT + scale * math.log(value / lowest)
    height = TOP + ROW * len(rows) + 12
    name = result["name"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" role="img" aria-labelledby="{name}-title" '
           'color="#7d8794" fill="currentColor" font-family="system-ui, sans-serif" font-size="11.5">',
           f'<title id="{name}-title">{escape(result["title"])}: targets relative to their limits</title>']
    for tick in TICKS:
        if lowest <= tick <= highest:
            width = 1.6 if tick == 1 else 0.6
            out += [f'<line x1="{x(tick):.1f}" y1="{TOP - 8}" x2="{x(tick):.1f}" y2="{height - 10}" stroke="{GRAY}" stroke-width="{width}"'
                    + ("/>" if tick == 1 else ' stroke-dasharray="2 3"/>'),
                    f'<text x="{x(tick):.1f}" y="{TOP - 14}" text-anchor="middle">{"limit" if tick == 1 else f"{tick:g}"}</text>']
    for number, (target, (low, middle, high)) in enumerate(zip(rows, points)):
        y = TOP + ROW * number + ROW / 2
        color = MET if target["pass"] else MISSED
        out += [f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(shorten(target["text"], 62))}</text>',
                f'<line x1="{x(low):.1f}" y1="{y:.1f}" x2="{x(high):.1f}" y2="{y:.1f}" stroke="{color}" stroke-width="5" stroke-opacity="0.45"/>',
                f'<circle cx="{x(middle):.1f}" cy="{y:.1f}" r="3.6" fill="{color}"/>',
                f'<text x="{LEFT + WIDTH + 8}" y="{y + 4:.1f}">{middle:.2f}</text>']
    return "\n".join([*out, "</svg>", ""])
