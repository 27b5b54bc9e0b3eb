"""Unified diffs, which `git apply` and `patch -p1` accept."""

from __future__ import annotations

import difflib
import os
import re

from ..report import Report

_SPECIAL = re.compile(rb'[\x00-\x1f\x7f"\\]')


def _name(prefix: str, file: str) -> bytes:
    """A file's name as git writes it: names with special characters are quoted."""
    name = os.fsencode(f"{prefix}/{file}".replace("//", "/"))
    if not _SPECIAL.search(name):
        return name
    return b'"' + _SPECIAL.sub(lambda match: b"\\%03o" % ord(match[0]), name) + b'"'


def diff(file: str, before: bytes, after: bytes) -> bytes:

    def lines(data: bytes) -> list[bytes]:
        return [line + b"\n"
                for line in data.split(b"\n")[:-1]] + ([data.rpartition(b"\n")[2]] if not data.endswith(b"\n") and data else [])

    out = difflib.diff_bytes(difflib.unified_diff, lines(before), lines(after), _name("a", file), _name("b", file))
    return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in out)


def render(report: Report) -> bytes:
    return b"".join(diff(result.file, result.before, result.after) for result in report.results if result.after is not None)
