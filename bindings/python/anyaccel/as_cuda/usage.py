"""Counts what was redirected, and reports it at exit."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import types
import typing
import weakref

import torch

from .devices import is_programs

_LIBRARY = os.path.dirname(os.__file__)


class _Call(threading.local):
    """The program's call that this thread is executing.

    names: the names that the call has counted, or None outside of one_call(). everything: whether all
    further names are ignored. module: the module under construction. module_names: the names that
    its constructor has counted.
    """
    names: "set[str] | None" = None
    everything = False
    module: "weakref.ref[object] | None" = None
    module_names: "set[str]" = set()


class Usage:
    """The uses of CUDA in a process: how often, and where first.

    The program's calls are counted: `model.cuda()` is one call, although it moves many tensors.
    """

    def __init__(self) -> None:
        self._call = _Call()
        self.redirected: dict[str, int] = {}
        self.missing: dict[str, tuple[str, str]] = {}
        self.places: dict[str, str] = {}

    def count(self, name: str) -> None:
        """Count one redirected use of `name`, unless the program's current call has counted it.
        torch.compile traces the redirection, so uses in compiled code are not counted."""
        if torch.compiler.is_compiling() or self._counted(name):
            return
        if name in self.redirected:
            self.redirected[name] += 1
        else:
            self.redirected[name] = 1
            self.places[name] = caller()

    @contextlib.contextmanager
    def one_call(self, name: str = "") -> "typing.Iterator[None]":
        """Count each name at most once in this context. With `name`, count only `name`."""
        call = self._call
        if call.names is not None:
            yield  # a nested call inside torch
            return
        if name:
            self.count(name)
        call.names, call.everything = set(), bool(name)
        try:
            yield
        finally:
            call.names, call.everything = None, False

    def _counted(self, name: str) -> bool:
        call = self._call
        if call.names is None:
            return self._counted_by_constructor(name)
        counted = call.everything or name in call.names
        call.names.add(name)
        return counted

    def _counted_by_constructor(self, name: str) -> bool:
        """Whether the constructor of a torch module that the program calls has already counted `name`."""
        frame = _outermost_internal_frame()
        if frame is None or frame.f_code.co_name != "__init__" or not frame.f_globals.get("__name__", "").startswith("torch.nn."):
            return False
        call, module = self._call, frame.f_locals.get("self")
        try:
            if call.module is None or call.module() is not module:
                call.module, call.module_names = weakref.ref(module), set()
        except TypeError:
            return False
        counted = name in call.module_names
        call.module_names.add(name)
        return counted

    def lacks(self, name: str, why: str) -> None:
        """Remember that the program uses `name`, which has no equivalent."""
        if name not in self.missing:
            self.missing[name] = (why, caller())

    def as_json(self, accelerator: str, device: str) -> dict[str, object]:
        """The report as a JSON object."""
        return {
            "accelerator": accelerator, "device": device, "pid": os.getpid(), "program": sys.argv[:],
            "redirected": [{"name": name, "count": count, "first": self.places[name]} for name, count in self._sorted()],
            "no_equivalent": [{"name": name, "why": why, "first": place} for name, (why, place) in self.missing.items()],
        }  # yapf: disable

    def as_text(self, accelerator: str, device: str) -> str:
        """The report as text."""
        lines = [f"anyaccel run --as-cuda: CUDA was redirected to {accelerator} ({device})"]
        width = max((len(name) for name in self.redirected), default=0)
        lines += [f"  {count:>9}  {name:<{width}}  first at {self.places[name]}" for name, count in self._sorted()]
        if self.missing:
            lines.append("  Used without an equivalent:")
            lines += [f"    {name} at {place}: {why}" for name, (why, place) in self.missing.items()]
        return "\n".join(lines) + "\n"

    def _sorted(self) -> list[tuple[str, int]]:
        return sorted(self.redirected.items(), key=lambda item: (-item[1], item[0]))

    def write(self, accelerator: str, device: str, file: str, quiet: bool) -> None:
        """Write the report to `file`, or to standard error. A process that has not used CUDA, such as a
        launcher, does not overwrite another one's report."""
        used = self.redirected or self.missing
        if file and (used or not os.path.exists(file)):
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(self.as_json(accelerator, device), stream, indent=1)
                stream.write("\n")
        elif used and not file and not quiet:
            sys.stderr.write(self.as_text(accelerator, device))


def _outermost_internal_frame() -> "types.FrameType | None":
    """Return the torch frame that the program's code called, or None if the program called AnyAccel directly."""
    frame, found = sys._getframe(1), None
    while frame is not None and not is_programs(frame.f_globals.get("__name__")):
        if not frame.f_globals.get("__name__", "").startswith("anyaccel."):
            found = frame
        frame = frame.f_back
    return found


def caller() -> str:
    """The source line of the program that is running: `file:line`. Prefers code outside the standard
    library and site-packages, and otherwise takes any code that is not torch's."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        file = frame.f_code.co_filename
        if is_programs(frame.f_globals.get("__name__")):
            place = f"{file}:{frame.f_lineno}"
            if not file.startswith(_LIBRARY) and "site-packages" not in file and not file.startswith("<frozen"):
                return place
            found = found or place
        frame = frame.f_back
    return found or "?"
