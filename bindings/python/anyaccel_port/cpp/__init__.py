"""Finds CUDA dependencies in C++ and CUDA sources."""

from __future__ import annotations

import re

from .. import matching
from ..findings import Edit, Finding
from . import includes
from .finder import Finder
from .settle import needs_header


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a C++ or CUDA source. Raises SourceError for unclosed comments or brackets."""
    return Finder(text, file, target).run()


def fix(text: str, findings: list[Finding], target: str) -> str:
    """Apply the findings' edits, and replace includes that the edited code does not need."""
    others = [e for f in findings if f.rule != "cpp-include" for e in f.edits]
    wanted = {f.text for f in findings if f.rule == "cpp-include" and f.edits}
    fixed = matching.apply(text, others)
    needed = list(dict.fromkeys(line for name, line in includes.INCLUDES.items() if any(name in e.text for e in others)))
    eol = "\r\n" if "\r\n" in text else "\n"
    needed = [line for line in needed if not re.search(rf"^[ \t]*{re.escape(line)}", fixed, re.M)]
    # The findings in the fixed text show whether something still needs the old headers.
    left = find(fixed, findings[0].file if findings else "", target)
    edits = []
    if not any(needs_header(f) for f in left):
        for include in left:
            if include.rule == "cpp-include" and include.text in wanted:
                edits.append(
                    Edit(include.start, include.end, eol.join(needed)) if needed else includes.without_line(fixed, include))
                needed = []
    if needed:
        at = includes.insertion(fixed)
        edits.append(Edit(at, at, eol.join(needed) + eol))
    return matching.apply(fixed, edits)


__all__ = ["find", "fix"]
