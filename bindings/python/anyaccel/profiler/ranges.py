"""Makes NVTX ranges visible to torch's profiler, and pauses the recording while the program uses
torch's profiler itself.
"""

import threading
from typing import Any, Dict, List

import torch
from torch.autograd.profiler import record_function

from .. import _native

_open = threading.local()
_handles: Dict[int, record_function] = {}


def _range_functions(works: bool) -> Dict[str, Any]:
    """Return functions that replace those of torch.cuda.nvtx. If `works` is true, they also call
    the originals.
    """
    nvtx = torch.cuda.nvtx
    push, pop, mark, start, end = nvtx.range_push, nvtx.range_pop, nvtx.mark, nvtx.range_start, nvtx.range_end

    def stack() -> List[record_function]:
        if not hasattr(_open, "ranges"):
            _open.ranges = []
        return _open.ranges

    def range_push(msg: str) -> int:
        stack().append(record_function(str(msg)))
        stack()[-1].__enter__()
        return push(msg) if works else len(stack()) - 1

    def range_pop() -> int:
        if stack():
            stack().pop().__exit__(None, None, None)
        return pop() if works else len(stack())

    def mark_now(msg: str) -> Any:
        with record_function(str(msg)):
            return mark(msg) if works else None

    def range_start(msg: str) -> int:
        opened = record_function(str(msg))
        opened.__enter__()
        handle = start(msg) if works else len(_handles) + 1
        _handles[handle] = opened
        return handle

    def range_end(range_id: int) -> None:
        opened = _handles.pop(range_id, None)
        if opened is not None:
            opened.__exit__(None, None, None)
        if works:
            end(range_id)

    return {"range_push": range_push, "range_pop": range_pop, "mark": mark_now, "range_start": range_start, "range_end": range_end}


def _has_nvtx() -> bool:
    """Return whether this torch has NVTX. If not, its functions raise an exception."""
    return "Stub" not in type(torch.cuda.nvtx._nvtx).__name__


def install(recorder: Any) -> None:
    """Wrap torch's functions."""
    for name, function in _range_functions(_has_nvtx()).items():
        setattr(torch.cuda.nvtx, name, function)
    profiler = torch.autograd.profiler
    paused = threading.Event()

    def pausing(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if not paused.is_set():
                paused.set()
                recorder.pause("the program uses torch.profiler")
            _native.profiler_leave_thread()
            return function(*arguments, **named)
        return call

    disable = profiler._disable_profiler

    def resuming(*arguments: Any, **named: Any) -> Any:
        try:
            return disable(*arguments, **named)
        finally:
            if paused.is_set():
                paused.clear()
                recorder.resume()

    profiler._prepare_profiler, profiler._enable_profiler = pausing(profiler._prepare_profiler), pausing(profiler._enable_profiler)
    profiler._disable_profiler = resuming
