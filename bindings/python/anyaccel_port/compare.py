"""Compares the outputs of two runs of a program: their lines and the numbers in them."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# Times, rates and addresses differ between two runs of any program.
_VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b|\b0x[0-9a-fA-F]+\b|"
    rf"{_NUMBER}\s*(?:s|sec|secs|seconds?|ms|us|µs|ns|min|minutes?|h|hours?|it/s|s/it|"
    r"[A-Za-z]+/(?:s|sec|second)|[kKMGT]i?B/s|T?G?FLOPS?)\b|"
    rf"\b(?:time|elapsed|duration|eta|dt|pid|throughput|latency|tokens?_per_sec(?:ond)?|mfu|seconds?|fps)\w*\s*[:=]?\s*{_NUMBER}%?",
    re.IGNORECASE)
_DEVICE = re.compile(r"\b(?:cuda|sim|privateuseone)(?::(\d+))?\b", re.IGNORECASE)
_TOKEN = re.compile(rf"(?<![\w.]){_NUMBER}(?![\w])|\bnan\b|[-+]?\binf(?:inity)?\b", re.IGNORECASE)
_MAX_LINES = 100_000


@dataclasses.dataclass(frozen=True)
class Difference:
    """A line that differs. `kind`: "number", "only before" or "only after"."""

    kind: str
    line: int
    before: str
    after: str
    relative: float = 0.0


@dataclasses.dataclass
class Comparison:
    numbers: int = 0
    largest: float = 0.0  # the largest relative difference
    differences: list[Difference] = dataclasses.field(default_factory=list)


def _lines(text: str, paths: tuple[str, ...]) -> list[str]:
    """The lines of an output. Of a progress bar, which overwrites its line, only the last state
    is kept."""
    for path in paths:
        text = text.replace(path, "PATH")
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return [line for line in lines if line.strip()][:_MAX_LINES]


def _shape(line: str) -> tuple[str, list[str]]:
    """A line without the parts that may vary, and its numbers."""
    line = _VARYING.sub("VARIES", line)
    line = _DEVICE.sub("DEVICE", line)
    numbers = _TOKEN.findall(line)
    return " ".join(_TOKEN.sub("#", line).split()), numbers


def relative(before: str, after: str) -> float:
    """The relative difference of two numbers, infinite if only one is finite."""
    a, b = float(before), float(after)
    if a == b or math.isnan(a) and math.isnan(b):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


def _tolerated(before: str, after: str, difference: float, tolerance: float) -> bool:
    if difference <= tolerance:
        return True
    if not math.isfinite(difference) or tolerance == 0:
        return False
    # Printing rounds numbers: 0.12 and 0.13 can come from 0.12499 and 0.12501.
    places = [len(text.partition(".")[2]) if "." in text and "e" not in text.lower() else 0 for text in (before, after)]
    unit = 10.0**-min(places) if min(places) > 0 else 0.0
    a, b = float(before), float(after)
    return abs(a - b) - 1.0001 * unit <= tolerance * max(abs(a), abs(b))


def compare(before: str, after: str, tolerance: float, paths: tuple[str, ...] = ()) -> Comparison:
    """Compare two outputs. paths: folders that count as equal in both outputs."""
    old, new = _lines(before, paths), _lines(after, paths)
    old_shapes, new_shapes = [_shape(line) for line in old], [_shape(line) for line in new]
    result = Comparison()
    matcher = difflib.SequenceMatcher(None, [s for s, _ in old_shapes], [s for s, _ in new_shapes], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            result.differences += [Difference("only before", i + 1, old[i], "") for i in range(i1, i2)]
            result.differences += [Difference("only after", j + 1, "", new[j]) for j in range(j1, j2)]
            continue
        for i, j in zip(range(i1, i2), range(j1, j2)):
            pairs = list(zip(old_shapes[i][1], new_shapes[j][1]))
            worst = max((relative(a, b) for a, b in pairs), default=0.0)
            result.numbers += len(pairs)
            result.largest = max(result.largest, worst)
            if not all(_tolerated(a, b, relative(a, b), tolerance) for a, b in pairs):
                result.differences.append(Difference("number", i + 1, old[i], new[j], worst))
    return result
