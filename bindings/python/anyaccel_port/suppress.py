"""Suppressions: comments that accept a finding.

`# anyaccel: ignore` accepts all findings on its line, and `# anyaccel: ignore[rule, rule]` only
those of these rules. A comment alone on a line applies to the next line. C++ comments begin with `//`.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
import tokenize

from . import rules
from .findings import Finding
from .languages import JSON, NOTEBOOK, PYTHON, Language

_DIRECTIVE = r"\s*anyaccel:\s*ignore\b(?:\s*\[(?P<rules>[^\]\n]*)\])?"
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclasses.dataclass
class Suppression:
    """A suppression and the line it applies to. `rules` is empty if it accepts all rules."""

    line: int
    applies_to: int
    rules: tuple[str, ...]
    cell: int | None = None
    used: set[str] = dataclasses.field(default_factory=set)

    def unused(self, enabled: frozenset[str] | None) -> list[str]:
        """Describe the rules that accepted nothing. `enabled`: the rules that were applied, None for all."""
        if not self.rules:
            return [] if self.used or enabled is not None else ["it accepts no finding"]
        messages = []
        for rule in self.rules:
            if rule not in rules.BY_ID:
                messages.append(f"{rule!r} is not a rule")
            elif rule not in self.used and (enabled is None or rule in enabled):
                messages.append(f"{rule} has no finding here")
        return messages


def _python_comments(text: str):
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string, not token.line[:token.start[1]].strip()
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return  # notebooks' cells may contain magic commands


def _other_comments(text: str, comment: str):
    pattern = re.compile(f"(?P<before>.*?)(?P<comment>(?:{comment}){_DIRECTIVE})")
    for number, line in enumerate(_NEWLINE.split(text), 1):
        if "anyaccel" in line and (match := pattern.match(line)):
            yield number, match["comment"], not match["before"].strip()


def _in_text(text: str, language: Language, cell: int | None = None) -> list[Suppression]:
    if not re.search(_DIRECTIVE, text) or not language.comment:
        return []
    found = []
    comments = _python_comments(text) if language in (PYTHON, NOTEBOOK) else _other_comments(text, language.comment)
    for line, comment, alone in comments:
        if match := re.match(f"(?:{language.comment}){_DIRECTIVE}", comment):
            names = tuple(name.strip() for name in (match["rules"] or "").split(",") if name.strip())
            if match["rules"] is None or names:
                found.append(Suppression(line, line + alone, names, cell))
    return found


def _cells(text: str):
    cells = json.loads(text).get("cells", [])
    for number, cell in enumerate(cells, 1):
        source = cell.get("source", "")
        yield number, source if isinstance(source, str) else "".join(source)


def read(text: str, language: Language) -> list[Suppression]:
    """The suppressions of a file."""
    if "anyaccel" not in text or language == JSON:
        return []
    if language != NOTEBOOK:
        return _in_text(text, language)
    try:
        return [each for number, source in _cells(text) for each in _in_text(source, language, number)]
    except (ValueError, AttributeError, TypeError):
        return []  # the finder reports the broken notebook


def mark(findings: list[Finding], suppressions: list[Suppression]) -> None:
    """Mark the findings that a suppression accepts."""
    by_line: dict[tuple[int | None, int], list[Suppression]] = {}
    for each in suppressions:
        by_line.setdefault((each.cell, each.applies_to), []).append(each)
    if not by_line:
        return
    for finding in findings:
        last = finding.line + len(_NEWLINE.findall(finding.text))
        for line in range(finding.line, last + 1):
            for each in by_line.get((finding.cell, line), ()):
                if not each.rules or finding.rule in each.rules:
                    finding.suppressed = True
                    each.used.add(finding.rule)
