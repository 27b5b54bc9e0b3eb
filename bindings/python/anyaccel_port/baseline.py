"""Known findings, which do not fail --check.

The file is JSON: {"version": 1, "findings": [{"file", "rule", "text", "count"}, ...]}. It contains no
line numbers, so unrelated changes do not invalidate it. Files are relative to the baseline's folder.
"""

from __future__ import annotations

import collections
import json
import os

from . import write
from .errors import UsageError
from .escaped import quoted_text
from .findings import Finding

Key = tuple[str, str, str]


def key(finding: Finding, folder: str) -> Key:
    file = os.path.relpath(finding.file, folder).replace(os.sep, "/")
    return file, finding.rule, " ".join(finding.text.split())[:200]


def folder_of(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def read(path: str) -> collections.Counter[Key]:
    """The number of known findings by key. Raises UsageError for a malformed file."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if content["version"] != 1:
            raise ValueError(f"version {content['version']!s:.20}, expected 1")
        return collections.Counter({(str(e["file"]), str(e["rule"]), str(e["text"])): int(e["count"]) for e in content["findings"]})
    except OSError as error:
        raise UsageError(
            f"cannot read the baseline {quoted_text(path)}: {error.strerror}. Create it with --update-baseline.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{quoted_text(path)} is not a baseline: {quoted_text(error)}. Create it with --update-baseline.") from error


def dump(path: str, findings: list[Finding]) -> None:
    """Write the findings that are not suppressed as the new baseline."""
    counts = collections.Counter(key(finding, folder_of(path)) for finding in findings if not finding.suppressed)
    entries = [{"file": file, "rule": rule, "text": text, "count": count} for (file, rule, text), count in sorted(counts.items())]
    write.replace(path, json.dumps({"version": 1, "findings": entries}, indent=1) + "\n")


def mark(path: str, known: collections.Counter[Key], findings: list[Finding]) -> list[Key]:
    """Mark known findings. Returns the keys that are no longer found."""
    left = known.copy()
    folder = folder_of(path)
    for finding in findings:
        each = key(finding, folder)
        if not finding.suppressed and left[each] > 0:
            left[each] -= 1
            finding.known = True
    return sorted(each for each, count in left.items() if count > 0)
