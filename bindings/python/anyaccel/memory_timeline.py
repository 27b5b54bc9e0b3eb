"""Records a program's device memory usage after every op, and saves it as data or as a picture.

    from anyaccel.memory_timeline import MemoryTimeline

    with MemoryTimeline() as timeline:
        timeline.mark("forward")
        loss = model(x).sum()
        timeline.mark("backward")
        loss.backward()
    print(timeline.peak())
    timeline.save("memory.svg")
"""

import json
import math
import os
import pathlib
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
from xml.sax.saxutils import escape

from torch.utils._python_dispatch import TorchDispatchMode

from ._untrusted_text import quoted_text
from .accelerator import get_accelerator
from .errors import make_error

__all__ = ["MemoryTimeline", "Sample"]

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 300, 84, 40, 16, 44
_LINE, _GRID = "#5c6bc0", "#8792a4"


class Sample(NamedTuple):
    """Memory usage after an op.

    seconds: time since the timeline began.
    allocated: bytes of tensors on the device, as reported by `memory_allocated()`.
    op: name of the op, for example "aten::mm".
    """
    seconds: float
    allocated: int
    op: str


class _Recorder(TorchDispatchMode):

    def __init__(self, timeline: "MemoryTimeline") -> None:
        super().__init__()
        self._timeline = timeline

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._timeline._add(func)
        return result


class MemoryTimeline:
    """Record `memory_allocated()` of a device after every op, in forward and backward passes.

    device_index: device to record; None records the current device at the start.

    A context manager, for one thread. Ops on other threads are not recorded, except those that
    autograd runs for this thread's backward passes. Memory that an op allocates and frees
    internally is not visible. Use it with eager code: `torch.compile` is not tested.
    """

    def __init__(self, device_index: Optional[int] = None) -> None:
        self._device_index = device_index
        self._recorder: Optional[_Recorder] = None
        self._begin = 0.0
        #: Samples in the order of the ops.
        self.samples: List[Sample] = []
        #: (index of the next sample, text) of each mark().
        self.marks: List[Tuple[int, str]] = []

    def __enter__(self) -> "MemoryTimeline":
        if self._recorder is not None:
            raise make_error("invalid_state", "MemoryTimeline", "the timeline is already active")
        self._accelerator = get_accelerator()
        if self._device_index is None:
            self._device_index = self._accelerator.current_device()
        self._begin = time.perf_counter()
        self._recorder = _Recorder(self)
        self._recorder.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.__exit__(*error)

    def _add(self, func: Any) -> None:
        name = func._schema.name if hasattr(func, "_schema") else str(func)
        self.samples.append(Sample(time.perf_counter() - self._begin, self._accelerator.memory_allocated(self._device_index), name))

    def mark(self, text: str) -> None:
        """Label the ops that follow, for example with "backward"."""
        self.marks.append((len(self.samples), text))

    def peak(self) -> Sample:
        """Return the sample with the highest memory usage, or the first one if there are several.
        Raise `invalid_state` if there are no samples.
        """
        if not self.samples:
            raise make_error("invalid_state", "MemoryTimeline", "no op was recorded")
        return max(self.samples, key=lambda sample: sample.allocated)

    def save(self, file: Union[str, "os.PathLike[str]"]) -> None:
        """Write a picture (NAME.svg) or the samples and marks (NAME.json).

        The picture plots the ops along the horizontal axis and is legible on light and dark pages.
        Raise `invalid_argument` for any other file extension, and `invalid_state` if no op was
        recorded.
        """
        path = pathlib.Path(file)
        if path.suffix == ".svg":
            text = self._svg()
        elif path.suffix == ".json":
            text = json.dumps(self._data()) + "\n"
        else:
            raise make_error("invalid_argument", "MemoryTimeline", "unknown format", quoted_text(path.name),
                             "a name that ends in .svg or .json")
        path.write_text(text, encoding="utf-8")

    def _data(self) -> Dict[str, Any]:
        return {"device": f"{self._accelerator.name()}:{self._device_index}", "samples": [list(sample) for sample in self.samples],
                "marks": [list(mark) for mark in self.marks]}

    def _svg(self) -> str:
        peak = self.peak()
        top, unit, step = _scale(peak.allocated)
        count = len(self.samples)
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

        def x(index: float) -> float:
            return _LEFT + width * index / max(1, count)

        def y(value: float) -> float:
            return _TOP + height * (1 - value / top)

        out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" color="{_GRID}" fill="currentColor" '
               'font-family="system-ui, sans-serif" font-size="12">',
               f"<title>Memory of {escape(self._accelerator.name())}:{self._device_index} after each op</title>"]
        for i in range(round(top / step) + 1):
            out += [f'<line x1="{_LEFT}" y1="{y(i * step):.1f}" x2="{_WIDTH - _RIGHT}" y2="{y(i * step):.1f}" stroke="{_GRID}" stroke-width="0.5"/>',
                    f'<text x="{_LEFT - 8}" y="{y(i * step) + 4:.1f}" text-anchor="end">{i * step / _UNITS[unit]:g} {unit}</text>']
        for number, (index, text) in enumerate(self.marks):
            out += [f'<line x1="{x(index):.1f}" y1="{_TOP}" x2="{x(index):.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="{_GRID}" stroke-dasharray="4 3"/>',
                    f'<text x="{x(index) + 4:.1f}" y="{_TOP - 8 - 14 * (number % 2)}">{escape(text[:40])}</text>']
        corners = [f"M{_LEFT} {y(0):.1f}"]
        for first, last, value in _columns(self.samples, 2 * width):
            corners.append(f"L{x(first):.1f} {y(value):.1f} L{x(last):.1f} {y(value):.1f}")
        out.append(f'<path d="{" ".join(corners)} L{x(count):.1f} {y(0):.1f} Z" fill="{_LINE}" fill-opacity="0.3" stroke="{_LINE}"/>')
        at = self.samples.index(peak)
        anchor = "end" if at > count / 2 else "start"
        out += [f'<circle cx="{x(at + 0.5):.1f}" cy="{y(peak.allocated):.1f}" r="4" fill="{_LINE}"/>',
                f'<text x="{x(at + 0.5) + (-9 if anchor == "end" else 9):.1f}" y="{y(peak.allocated) - 6:.1f}" text-anchor="{anchor}" '
                f'font-weight="600">{peak.allocated / _UNITS[unit]:.4g} {unit} after {escape(peak.op)}</text>',
                f'<text x="{_LEFT}" y="{_HEIGHT - _BOTTOM + 22}">0</text>',
                f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - _BOTTOM + 22}" text-anchor="end">{count} ops, {self.samples[-1].seconds:.3g} s</text>']
        return "\n".join([*out, "</svg>", ""])


_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _scale(peak: int) -> Tuple[float, str, float]:
    """Return (top, unit, step) of the vertical axis: its upper end in bytes, the unit of its
    labels, and the distance between its grid lines in bytes.
    """
    unit = next((name for name in ("GiB", "MiB", "KiB") if peak >= _UNITS[name]), "B")
    most = max(1.0, peak / _UNITS[unit])
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * 5 >= most)
    lines = math.ceil(most * 1.02 / step)
    return lines * step * _UNITS[unit], unit, step * _UNITS[unit]


def _columns(samples: List[Sample], most: int) -> List[Tuple[int, int, int]]:
    """Return (first, last, bytes) for each of at most `most` columns, where bytes is the maximum
    over the column's samples.
    """
    size = max(1, math.ceil(len(samples) / most))
    return [(i, min(i + size, len(samples)), max(sample.allocated for sample in samples[i:i + size])) for i in range(0, len(samples), size)]
