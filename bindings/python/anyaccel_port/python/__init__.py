"""Finds and fixes CUDA dependencies in Python sources."""

from __future__ import annotations

from ..findings import Finding, SourceError
from . import compose, imports
from .aliases import find_aliases
from .calls import find_names
from .hardware import find_hardware
from .libraries import find_libraries
from .methods import find_methods
from .source import Source
from .strings import find_strings


def find(text: str, file: str, target: str, extensions: frozenset[str] = frozenset()) -> list[Finding]:
    """The findings in a source, in its order. `extensions`: names of the project's modules that are built
    from CUDA sources. Raises SourceError if the source cannot be parsed."""
    source = Source(text, file, target)
    find_aliases(source)
    find_strings(source)
    find_methods(source)
    find_names(source)
    find_libraries(source)
    find_hardware(source)
    imports.find_imports(source, extensions)
    return source.finish()


def fix(text: str, findings: list[Finding], target: str) -> str:
    """The source with the edits of these findings, and with the imports that they need."""
    edits = [edit for finding in findings if not finding.extra.get(imports.IMPORT) for edit in finding.edits]
    if not any(finding.edits for finding in findings):
        return text
    source = Source(text, findings[0].file, target)
    first = min((edit.start for edit in edits), default=0)
    lines = imports.needed(source, "\n".join(edit.text for edit in edits))
    edits += imports.removals(source, findings, edits)
    if lines:
        edits.insert(0, imports.insertion(source, lines, first))  # before edits of the same statement
    fixed = compose.apply(text, edits)
    _check(fixed)
    return fixed


def _check(text: str) -> None:
    try:
        Source(text, "", "anyaccel")
    except SourceError as error:
        raise SourceError(f"the fixes were not applied, because the result would be wrong: {error.message}", error.line) from None


__all__ = ["find", "fix"]
