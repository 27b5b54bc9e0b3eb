"""Examines and fixes one file. Runs in worker processes."""

from __future__ import annotations

import collections
import dataclasses
import os
import stat

from . import extensions, keywords, languages, source, suppress, syntax, write
from .findings import EQUIVALENT, REVIEW, Finding, SourceError

_MAX_PASSES = 10  # an outer edit can hide inner ones until the next pass


@dataclasses.dataclass(frozen=True)
class Request:
    """What to do with each file.

    fixes: severities of the findings to fix. write: write the fixed files. rules: ids of the
    enabled rules, None for all.
    """

    target: str
    fixes: frozenset[str] = frozenset()
    write: bool = False
    rules: frozenset[str] | None = None
    max_bytes: int = 4 << 20
    max_line: int = 100_000


@dataclasses.dataclass(frozen=True)
class File:
    """A file to examine. `shown` is its name in reports, `off` the rules disabled in it."""

    path: str
    shown: str
    language: languages.Language | None  # None: an unknown kind of file, which is skipped
    off: frozenset[str] = frozenset()


@dataclasses.dataclass
class Result:
    """The outcome for a file. `findings` are those left after fixing. `before` and `after` are the
    file's content, if it was fixed."""

    file: str
    language: str
    lines: int = 0
    findings: list[Finding] = dataclasses.field(default_factory=list)
    fixed: list[Finding] = dataclasses.field(default_factory=list)
    unused: list[dict] = dataclasses.field(default_factory=list)
    error: str = ""  # why the source cannot be parsed
    error_line: int | None = None
    failure: str = ""  # why the file could not be read or written
    skipped: str = ""
    written: bool = False  # the fixed content is in the file
    missing: str = ""  # the required Python package, if it is not installed
    before: bytes | None = None
    after: bytes | None = None
    encoding: str = "utf-8"


def fixes_for(unsafe: bool) -> frozenset[str]:
    return frozenset((EQUIVALENT, REVIEW) if unsafe else (EQUIVALENT, ))


def _read(file: File, request: Request) -> tuple[bytes, str]:
    """Return the file's content, and the reason if it is skipped."""
    limit = request.max_bytes * (16 if file.language.long_lines else 1)
    with open(file.path, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            return b"", "not a regular file"
        if status.st_size > limit:
            return b"", f"larger than {limit} bytes"
        data = stream.read()
    if source.is_binary(data):
        return b"", "a binary file"
    return data, ""


def _position(finding: Finding) -> tuple:
    return finding.cell or 0, finding.start, finding.end


def _find(text: str, file: File, request: Request) -> tuple[list[Finding], list[suppress.Suppression]]:
    options = {}
    if file.language == languages.PYTHON and (modules := extensions.names(file.path)):
        options["extensions"] = modules
    found = languages.finder(file.language.module).find(text, file.shown, request.target, **options)
    if request.rules is not None:
        found = [finding for finding in found if finding.rule in request.rules]
    if file.off:
        found = [finding for finding in found if finding.rule not in file.off]
    found.sort(key=_position)
    suppressions = suppress.read(text, file.language)
    suppress.mark(found, suppressions)
    return found, suppressions


def _fix(text: str, found: list[Finding], suppressions: list[suppress.Suppression], file: File, request: Request):
    """Fix until nothing is left to fix. Returns the text, its findings and its suppressions."""
    fix = languages.finder(file.language.module).fix
    for _ in range(_MAX_PASSES):
        chosen = [finding for finding in found if finding.fixable and finding.severity in request.fixes and not finding.suppressed]
        changed = fix(text, chosen, request.target) if chosen else text
        if changed == text:
            break
        text = changed
        try:
            found, suppressions = _find(text, file, request)
        except SourceError as error:
            raise RuntimeError(f"the fixed file would be broken at line {error.line}: {error.message}") from error
    return text, found, suppressions


def _fixed(old: list[Finding], left: list[Finding], request: Request) -> list[Finding]:
    """The findings that were fixed: they have edits, and are no longer found."""
    rest = collections.Counter((finding.rule, finding.text) for finding in left if finding.fixable)
    fixed = []
    for finding in old:
        if finding.fixable and finding.severity in request.fixes and not finding.suppressed:
            key = (finding.rule, finding.text)
            if rest[key] > 0:
                rest[key] -= 1
            else:
                fixed.append(finding)
    return fixed


def _examine(file: File, request: Request, result: Result) -> None:
    data, result.skipped = _read(file, request)
    if result.skipped:
        return
    result.lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    own = extensions.names(file.path) if file.language == languages.PYTHON else frozenset()
    if not keywords.may_match(data, file.language) and not extensions.may_match(data, own):
        if file.language in syntax.LANGUAGES:
            decoded = source.decode(data, file.language == languages.PYTHON)
            syntax.check(decoded.text, file.shown, file.language, request.target)
        return
    if not file.language.long_lines and max(map(len, data.split(b"\n"))) > request.max_line:
        result.skipped = f"a line is longer than {request.max_line} bytes"
        return
    decoded = source.decode(data, file.language == languages.PYTHON)
    found, suppressions = _find(decoded.text, file, request)
    result.findings, result.encoding = found, decoded.encoding
    if request.fixes:
        text, result.findings, suppressions = _fix(decoded.text, found, suppressions, file, request)
        if text != decoded.text:
            result.fixed = _fixed(found, result.findings, request)
            result.before, result.after = data, decoded.encode(decoded.with_own_newlines(text))
    enabled = request.rules
    for each in suppressions:
        result.unused += [{"line": each.line, "cell": each.cell, "message": message} for message in each.unused(enabled)]


def examine(file: File, request: Request) -> Result:
    """Examine a file, and compute its fixed content if requested. Errors become part of the result."""
    if file.language is None:
        return Result(file.shown, "", skipped="an unknown kind of file")
    result = Result(file.shown, file.language.name)
    try:
        _examine(file, request, result)
    except SourceError as error:
        result.error, result.error_line = error.message, error.line
    except languages.MissingPackage as error:
        result.missing = str(error)
    except RecursionError:
        result.error = "the code is nested too deeply"
    except OSError as error:
        _fail(result, error.strerror or str(error))
    except Exception as error:  # noqa: BLE001  an error in one file must not stop the others
        _fail(result, f"internal error: {type(error).__name__}: {error}")
    return result


def write_fixed(file: File, request: Request, result: Result) -> None:
    """Write the fixed content of a file. An error becomes part of the result."""
    if not request.write or result.after is None:
        return
    try:
        write.replace_source(file.path, result.before, result.after)
        result.before = result.after = None
        result.written = True
    except OSError as error:
        _fail(result, error.strerror or str(error))


def _fail(result: Result, reason: str) -> None:
    result.failure = reason
    result.findings = sorted(result.findings + result.fixed, key=_position)
    result.fixed, result.before, result.after = [], None, None
