"""Findings: places in a file that a rule matches, and the edits that replace them."""

from __future__ import annotations

import bisect
import dataclasses
import re

EQUIVALENT = "equivalent"
REVIEW = "review"
NONE = "none"
SEVERITIES = (EQUIVALENT, REVIEW, NONE)
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replaces the characters [start, end) of a file's text with `text`. Offsets count characters
    of the decoded text, not bytes."""

    start: int
    end: int
    text: str


@dataclasses.dataclass
class Finding:
    """A place that depends on CUDA.

    `start` and `end` are character offsets of the matched source in the file's text; `line` and
    `column` are 1-based and are derived from `start`. `edits` replace it; they are empty if `--fix`
    leaves this place alone. `replacement` is the new source of the matched place, for people; it can
    be present although `edits` is empty, because a person must decide. `severity` and `why` are the
    rule's, unless the place is special. `cell` is the 1-based number of a notebook's cell, whose
    source `line` refers to.
    """

    rule: str
    severity: str
    file: str
    start: int
    end: int
    line: int
    column: int
    text: str
    message: str
    replacement: str | None = None
    edits: tuple[Edit, ...] = ()
    cell: int | None = None
    suppressed: bool = False
    known: bool = False
    extra: dict = dataclasses.field(default_factory=dict)

    @property
    def fixable(self) -> bool:
        return bool(self.edits)


class Lines:
    """Converts offsets of a text to 1-based lines and columns."""

    def __init__(self, text: str):
        self.text = text
        # Editors do not count form feeds and Unicode separators as line ends, unlike splitlines().
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> tuple[int, int]:
        row = bisect.bisect_right(self.starts, offset) - 1
        return row + 1, offset - self.starts[row] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a 1-based line and a 0-based column."""
        return self.starts[line - 1] + column


class SourceError(Exception):
    """A source that cannot be parsed. `line` is 1-based; 0 means unknown."""

    def __init__(self, message: str, line: int = 0):
        super().__init__(message)
        self.message = message
        self.line = line
