"""Edits of the includes of a C++ source."""

from __future__ import annotations

import re

from ..findings import Edit, Finding
from .text import Blanked

# The headers that replacements need.
INCLUDES = {
    "anyaccel::": "#include <anyaccel/accelerator.h>",
    "at::accelerator::": "#include <ATen/DeviceAccelerator.h>",
    "c10::DeviceGuard": "#include <c10/core/DeviceGuard.h>",
    "c10::OptionalDeviceGuard": "#include <c10/core/DeviceGuard.h>",
    "c10::StreamGuard": "#include <c10/core/StreamGuard.h>",
    "c10::Event ": "#include <c10/core/Event.h>",
}


def without_line(text: str, finding: Finding) -> Edit:
    """Removes a finding's line."""
    end = text.find("\n", finding.end)
    start = text.rfind("\n", 0, finding.start) + 1
    return Edit(start, len(text) if end == -1 else end + 1, "")


def insertion(text: str) -> int:
    """Where an include goes: after the last one at the top that is outside of conditions."""
    code = Blanked(text).code
    depth, at = 0, None
    for match in re.finditer(r"^[ \t]*(?:#[ \t]*(\w+)[^\n]*|[^\s#][^\n]*)\n?", code, re.M):
        word = match[1]
        if word in ("if", "ifdef", "ifndef"):
            depth += 1
        elif word == "endif":
            depth -= 1
        elif word in ("include", "pragma") and (depth == 0 or at is None
                                                and word == "include") or word == "define" and at is None and depth == 1:
            at = match.end()
        elif word is None:
            break
    if at is not None:
        return at
    first = re.search(r"\S", code)
    return text.rfind("\n", 0, first.start()) + 1 if first else 0
