"""CUDA-specific code in C++ sources: headers, preprocessor conditions, kernels and their launches."""

from __future__ import annotations

import re
import typing

from ..rules import BY_ID
from . import patterns

if typing.TYPE_CHECKING:
    from .finder import Finder


def on_include(finder: Finder, match, start, end):
    header = match["header"] or finder.text[start:end].split('"')[1]
    start += len(match[0]) - len(match[0].lstrip())
    if patterns.TORCH_HEADER.match(header):
        finder.includes.append((start, end))
        finder.done = end
    elif patterns.CUDA_HEADER.fullmatch(header) and (match["header"] or not header.startswith("cuda/")):
        finder.add(BY_ID["cpp-include-cuda"], start, end)


def on_condition(finder: Finder, match, start, end):
    if patterns.CONDITION.search(match[0]):
        start += len(match[0]) - len(match[0].lstrip())
        finder.add(BY_ID["cpp-condition"], start, start + len(match[0].strip()))


def on_using(finder: Finder, match, start, end):
    finder.add(BY_ID["cpp-using"], start, end)


def on_kernel(finder: Finder, match, start, end):
    rule = BY_ID["cpp-kernel"]
    stop = finder.blanked.definition(start)
    finder.add(rule, start, _header(finder, start, end, stop))
    finder.done = max(finder.done, stop)


def on_device(finder: Finder, match, start, end):
    first = start
    before = re.compile(r"(?:__host__|__forceinline__|__noinline__|static|inline|constexpr|extern)\s*$")
    while previous := before.search(finder.code, max(0, first - 40), first):
        first = previous.start()
    stop = finder.blanked.definition(start)
    finder.add(BY_ID["cpp-device-function"], first, _header(finder, first, end, stop))
    finder.done = max(finder.done, stop)


def _header(finder: Finder, start: int, keyword: int, stop: int) -> int:
    """The end of a declaration without its body."""
    bodies = [at for mark in "{;" if (at := finder.code.find(mark, keyword, stop)) != -1]
    end = min(bodies, default=stop)
    return start + len(finder.code[start:end].rstrip())


def on_launch(finder: Finder, match, start, end):
    close = finder.code.find(">>>", end)
    if close == -1 or ";" in finder.code[end:close] and "[" not in finder.code[end:close]:
        return
    close += 3
    at = finder.blanked.skip(close)
    if at >= len(finder.code) or finder.code[at] != "(":
        return
    stop = finder.blanked.closing(at) or close
    name = re.search(r"[\w:]+\s*(?:<[^;{}<>]*(?:<[^<>]*>[^;{}<>]*)*>)?\s*$", finder.code[max(0, start - 300):start])
    first = start - len(name[0]) if name else start
    finder.add(BY_ID["cpp-kernel-launch"], first, stop)


def on_size(finder: Finder, match, start, end):
    if "dim3" not in finder.names.defined:
        finder.add(BY_ID["cpp-launch-size"], start, end)


def on_intrinsic(finder: Finder, match, start, end):
    """One finding per function: device functions can be declared by macros, such as CUTLASS_DEVICE."""
    function = finder.function(start)
    if function not in finder.device_code:
        finder.device_code.add(function)
        finder.add(BY_ID["cpp-intrinsic"], start, end)


def on_version(finder: Finder, match, start, end):
    finder.add(BY_ID["cpp-cuda-version"], start, end)


HANDLERS = {
    "include": on_include,
    "condition": on_condition,
    "using": on_using,
    "kernel": on_kernel,
    "device": on_device,
    "launch": on_launch,
    "size": on_size,
    "intrinsic": on_intrinsic,
    "version": on_version,
}
