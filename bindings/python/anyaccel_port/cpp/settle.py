"""Findings that depend on others in the same C++ source: handles of streams, and includes."""

from __future__ import annotations

import typing

from ..findings import EQUIVALENT, REVIEW, Finding
from ..rules import BY_ID

if typing.TYPE_CHECKING:
    from .finder import Finder

_HANDLES = frozenset(
    ("cpp-current-stream", "cpp-default-stream", "cpp-new-stream", "cpp-set-stream", "cpp-stream-type", "cpp-stream-guard",
     "cpp-event", "cpp-runtime-stream", "cpp-runtime-event", "cpp-external-stream", "cpp-graph"))
_NEED_NO_HEADER = frozenset(
    ("cpp-is-cuda", "cpp-dispatch-key", "cpp-device-comparison", "cpp-device-string", "cpp-tensor-cuda", "cpp-device-type"))


def needs_header(finding: Finding) -> bool:
    return not finding.rule.startswith(("cpp-include", "cpp-condition")) and finding.rule not in _NEED_NO_HEADER


def handles(finder: Finder):
    """Streams and events are replaced throughout a function or not at all, because the old and the
    new types do not mix."""
    found = [f for f in finder.source.findings if f.rule in _HANDLES]
    left = {finder.function(f.start) for f in found if f.severity != EQUIVALENT}
    for finding in found:
        if finding.severity == EQUIVALENT and finder.function(finding.start) in left:
            finding.severity, finding.edits = REVIEW, ()
            finding.message += " Other code in this function needs CUDA's type."


def includes(finder: Finder):
    """torch's headers are replaced if all code that needs them is replaced. A header that this file
    does not need stays, because other files may need it."""
    rule = BY_ID["cpp-include"]
    users = [f for f in finder.source.findings if needs_header(f)]
    replaced = bool(users) and all(f.severity == EQUIVALENT and f.edits for f in users)
    for start, end in finder.includes:
        if replaced and not finder.kernels:
            finder.source.add(rule, start, end, replacement=rule.to[finder.target])
        else:
            finder.source.add(rule, start, end, severity=REVIEW, replacement=rule.to[finder.target], edits=())
