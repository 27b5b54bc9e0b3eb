"""Finds and fixes what ties a Python source to CUDA."""

from __future__ import annotations

from ..findings import Finding
from . import compose, imports
from .calls import find_names
from .methods import find_methods
from .source import Source
from .strings import find_strings


def find(text: str, file: str, target: str) -> list[Finding]:
    """The findings in a source, in its order. Raises SourceError if the source cannot be parsed."""
    source = Source(text, file, target)
    find_strings(source)
    find_methods(source)
    find_names(source)
    return sorted(source.findings, key=lambda f: (f.start, -f.end))


def fix(text: str, findings: list[Finding], target: str) -> str:
    """The source with the edits of these findings, and with the imports that they need."""
    edits = [edit for finding in findings for edit in finding.edits]
    if not edits:
        return text
    source = Source(text, "", target)
    lines = imports.needed(source, "\n".join(edit.text for edit in edits))
    if lines:
        edits.append(imports.insertion(source, lines, min(edit.start for edit in edits)))
    return compose.apply(text, edits)
