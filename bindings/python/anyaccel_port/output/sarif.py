"""Reports in SARIF 2.1.0. Code hosting services show them next to the source."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.parse

from .. import rules
from ..findings import EQUIVALENT, NONE, REVIEW, Finding
from ..report import Report, is_harmless

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {EQUIVALENT: "warning", REVIEW: "warning", NONE: "error"}


def document(tool: dict, results: list[dict]) -> str:
    """A SARIF file with one run. `tool`: name, version and rules of the program."""
    return json.dumps({
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": tool
            },
            "results": results
        }]
    }, indent=1) + "\n"


def location(file: str, region: dict) -> dict:
    # A relative URI is relative to the repository.
    uri = urllib.parse.quote(os.fsencode(file.replace("\\", "/")))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _region(finding: Finding) -> dict:
    lines = finding.text.split("\n")
    end = finding.column + len(lines[0]) if len(lines) == 1 else len(lines[-1]) + 1
    return {"startLine": finding.line, "startColumn": finding.column, "endLine": finding.line + len(lines) - 1, "endColumn": end}


def _text(finding: Finding) -> str:
    text = finding.message
    if finding.replacement is not None:
        text = f"Replace `{finding.text}` with `{finding.replacement}`. {text}"
    return f"Cell {finding.cell}: {text}" if finding.cell is not None else text


def _result(finding: Finding, count: int) -> dict:
    digest = hashlib.sha256("\0".join(
        (finding.rule, finding.file, " ".join(finding.text.split()), str(count))).encode("utf-8", "replace"))
    region = _region(finding) if finding.cell is None else {"startLine": 1}  # a cell's lines are not the file's
    result = {
        "ruleId": finding.rule,
        "level": "note" if is_harmless(finding) or finding.known else _LEVELS[finding.severity],
        "message": {
            "text": _text(finding)
        },
        "locations": [location(finding.file, region)],
        "partialFingerprints": {
            "anyaccelPort/v1": digest.hexdigest()[:32]
        },
        "baselineState": "unchanged" if finding.known else "new",
    }
    if finding.suppressed:
        result["suppressions"] = [{"kind": "inSource"}]
    return result


def _rules(findings: list[Finding]) -> list[dict]:
    used = sorted({finding.rule for finding in findings})
    return [{
        "id": rule,
        "shortDescription": {
            "text": rules.BY_ID[rule].title
        },
        "fullDescription": {
            "text": rules.BY_ID[rule].why
        }
    } if rule in rules.BY_ID else {
        "id": rule
    } for rule in used]


def render(report: Report) -> str:
    counts: dict[tuple, int] = {}
    results = []
    for finding in report.findings:
        key = (finding.rule, finding.file, finding.text)
        counts[key] = counts.get(key, 0) + 1
        results.append(_result(finding, counts[key]))
    for broken in report.broken:
        results.append({
            "ruleId": "broken-source",
            "level": "error",
            "message": {
                "text": f"The source is broken: {broken.error}"
            },
            "locations": [location(broken.file, {"startLine": broken.error_line or 1})]
        })
    tool = {"name": "anyaccel port", "rules": _rules(report.findings)}
    if report.broken:
        tool["rules"].append({"id": "broken-source", "shortDescription": {"text": "A source that cannot be parsed"}})
    return document(tool, results)
