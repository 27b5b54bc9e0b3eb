"""Counts what was redirected, and reports it at exit."""

from __future__ import annotations

import json
import os
import sys

from .devices import is_programs

_LIBRARY = os.path.dirname(os.__file__)


class Usage:
    """The uses of CUDA in a process: how often, and where first."""

    def __init__(self) -> None:
        self.redirected: dict[str, int] = {}
        self.missing: dict[str, tuple[str, str]] = {}
        self.places: dict[str, str] = {}

    def count(self, name: str) -> None:
        """Count one redirected use of `name`."""
        if name in self.redirected:
            self.redirected[name] += 1
        else:
            self.redirected[name] = 1
            self.places[name] = caller()

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
