"""A report for programs. docs/reference/port.md describes the format."""

from __future__ import annotations

import json

from ..findings import Finding
from ..report import Report, is_harmless


def _finding(finding: Finding) -> dict:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "harmless": is_harmless(finding),
        "file": finding.file,
        "cell": finding.cell,
        "line": finding.line,
        "column": finding.column,
        "text": finding.text,
        "message": finding.message,
        "replacement": finding.replacement,
        "fixable": finding.fixable,
        "suppressed": finding.suppressed,
        "known": finding.known
    }


def render(report: Report) -> str:
    fixable, with_equivalent = report.mechanical
    return json.dumps(
        {
            "version": 1,
            "target": report.target,
            "files": len(report.results),
            "lines": report.lines,
            "findings": [_finding(finding) for finding in report.findings],
            "fixed": [_finding(finding) for finding in report.fixed],
            "broken": [{
                "file": r.file,
                "line": r.error_line,
                "message": r.error
            } for r in report.broken],
            "failures": [{
                "file": r.file,
                "message": r.failure
            } for r in report.failures],
            "skipped": [{
                "file": r.file,
                "message": r.skipped
            } for r in report.skipped],
            "unused_suppressions": [{
                "file": file,
                **each
            } for file, each in report.unused],
            "stale_baseline": [{
                "file": file,
                "rule": rule,
                "text": text
            } for file, rule, text in report.stale],
            "summary": {
                "by_severity": report.by_severity(),
                "mechanical": fixable,
                "with_equivalent": with_equivalent
            },
        },
        indent=1) + "\n"
