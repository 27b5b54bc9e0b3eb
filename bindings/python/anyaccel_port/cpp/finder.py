"""Collects the findings of a C++ or CUDA source: searches for names, and calls the handler of each match."""

from __future__ import annotations

import re

from .. import matching
from ..findings import EQUIVALENT, REVIEW, Finding
from ..rules import BY_ID, Rule
from . import declarations, device_code, host_code, patterns, settle
from .names import Names
from .tree import Tree

_KERNEL_FILE = (
    "This file contains CUDA kernels or their launches, so it is built for CUDA only. Keep it for CUDA, and write "
    "the op for other accelerators. "
)
_HANDLERS = device_code.HANDLERS | host_code.HANDLERS


class Finder(Tree):
    """Collects the findings in one file."""

    def __init__(self, text: str, file: str, target: str):
        super().__init__(text)
        self.source = matching.Source(text, file, target)
        self.target = target
        self.names = Names(self.code)
        self.kernels = bool(re.search(r"\b__global__\b|<<<|\b__device__\b", self.code)) or file.endswith((".cu", ".cuh"))
        self.done = -1  # everything before this offset belongs to a finding
        self.device_code: set[tuple[int, int]] = set()  # functions with a finding for built-in names
        self.includes: list[tuple[int, int]] = []

    def add(self, rule: Rule, start: int, end: int, replacement: str | None = None, **options) -> Finding:
        """Add a finding. In CUDA sources, replacements are shown but not applied."""
        severity = options.pop("severity", None) or (rule.severity_for(self.target) if rule.to else rule.severity)
        message = None
        if severity == EQUIVALENT and self.kernels:
            severity, message, options["edits"] = REVIEW, _KERNEL_FILE + rule.why, ()
        elif self.kernels and replacement is not None:
            options["edits"] = ()
        self.done = max(self.done, end)
        return self.source.add(rule, start, end, severity=severity, replacement=replacement, message=message, **options)

    def run(self) -> list[Finding]:
        self.done = 0
        for match in self.candidates():
            if match.start() < self.done:
                continue
            kind = match.lastgroup if match.lastgroup != "header" else "include"
            if kind not in ("include", "condition") and self.macro(match):
                continue
            _HANDLERS[kind](self, match, match.start(), match.end())
        self.strings()
        settle.handles(self)
        settle.includes(self)
        return self.source.result()

    def candidates(self):
        """The matches of the names. Only lines that can contain one are searched."""
        at = 0
        for line in self.code.splitlines(keepends=True):
            start, at = at, at + len(line)
            lowered = line.lower()
            if at > self.done and any(key in lowered for key in patterns.KEYS):
                yield from patterns.CANDIDATE.finditer(self.code, start, at)

    def macro(self, match: re.Match) -> bool:
        """Whether the match is in a macro's definition, which then becomes one finding."""
        start = self.code.rfind("\n", 0, match.start()) + 1
        while start > 1 and self.code.endswith(("\\", "\\\r"), max(0, start - 3), start - 1):
            start = self.code.rfind("\n", 0, start - 1) + 1
        if not re.match(r"[ \t]*#", self.code[start:match.start()]):
            return False
        if not re.match(r"[ \t]*#[ \t]*define\b", self.code[start:match.start()]):
            return True
        end = match.end()
        while (end := self.code.find("\n", end)) != -1 and self.code.endswith(("\\", "\\\r"), end - 2, end):
            end += 1
        end = len(self.code) if end == -1 else end
        self.add(BY_ID["cpp-macro"], start, start + len(self.code[start:end].rstrip()))
        return True

    def strings(self):
        """Device names in string literals."""
        taken = [(f.start, f.end) for f in self.source.findings if f.rule == "cpp-macro"]
        for start, end in self.blanked.strings:
            match = re.fullmatch(r'"cuda(?::(\d+))?"', self.text[start:end])
            if match is None or any(a <= start < b for a, b in taken):
                continue
            declarations.device_string(self, match, start, end)
