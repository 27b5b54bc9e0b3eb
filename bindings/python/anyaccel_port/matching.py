"""Code that the finders share: making findings from rules, and applying edits."""

from __future__ import annotations

import bisect
import re

from .findings import NONE, Edit, Finding, Lines
from .rules import Rule

# A `{0}`, `{args}` or `{args|default}` of a replacement. `{*0}` dereferences the argument.
_PLACEHOLDER = re.compile(r"\{(\*?\d|args|self|name)(?:\|([^}]*))?\}")


class Source:
    """A file's text, from which findings are made."""

    def __init__(self, text: str, file: str, target: str):
        self.text = text
        self.file = file
        self.target = target
        self.lines = Lines(text)
        self.findings: list[Finding] = []

    def add(self,
            rule: Rule,
            start: int,
            end: int,
            *,
            severity: str | None = None,
            replacement: str | None = None,
            edits: tuple[Edit, ...] | None = None,
            message: str | None = None) -> Finding:
        """Add a finding. With a replacement, the edit replaces the whole match unless `edits` says otherwise."""
        if severity is None:
            severity = rule.severity if not rule.to else rule.severity_for(self.target)
        if edits is None:
            edits = (Edit(start, end, replacement), ) if replacement is not None and severity != NONE else ()
        line, column = self.lines.position(start)
        finding = Finding(rule.id, severity, self.file, start, end, line, column, self.text[start:end], message or rule.why,
                          replacement, edits)
        self.findings.append(finding)
        return finding

    def result(self) -> list[Finding]:
        return sorted(self.findings, key=lambda f: (f.start, f.end))


def render(template: str, args: list[str], *, self_: str = "", name: str = "") -> str:
    """Fill in a rule's replacement."""

    def value(match: re.Match) -> str:
        key, default = match[1], match[2] or ""
        if key == "args":
            return ", ".join(args) or default
        if key in ("self", "name"):
            return self_ if key == "self" else name
        index = int(key.lstrip("*"))
        text = args[index] if index < len(args) else default
        if key.startswith("*"):
            return text[1:].strip() if text.startswith("&") else f"*{text}"
        return text

    return _PLACEHOLDER.sub(value, template)


def apply(text: str, edits: list[Edit]) -> str:
    """Apply edits. Of two edits that overlap, the outer one wins."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda e: (e.start, -e.end)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    for edit in reversed(kept):
        text = text[:edit.start] + edit.text + text[edit.end:]
    return text


class Offsets:
    """Converts offsets of characters to offsets of UTF-8 bytes and back."""

    def __init__(self, text: str):
        self.bytes: list[int] | None = None
        if not text.isascii():
            self.bytes = [0]
            for character in text:
                self.bytes.append(self.bytes[-1] + len(character.encode("utf-8", "surrogatepass")))

    def to_byte(self, character: int) -> int:
        return character if self.bytes is None else self.bytes[character]

    def to_character(self, byte: int) -> int:
        return byte if self.bytes is None else bisect.bisect_right(self.bytes, byte) - 1
