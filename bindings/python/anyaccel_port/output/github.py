"""Workflow commands of GitHub Actions, which show the findings next to the source."""

from __future__ import annotations

from ..findings import NONE
from ..report import Report, is_harmless


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _command(level: str, file: str, line: int, column: int | None, title: str, message: str) -> str:
    at = f",col={column}" if column else ""
    return f"::{level} file={_property(file)},line={line}{at},title={_property(title)}::{_data(message)}"


def render(report: Report) -> str:
    lines = []
    for finding in report.active:
        level = "notice" if is_harmless(finding) else "error" if finding.severity == NONE else "warning"
        text = finding.text if finding.replacement is None else f"{finding.text} -> {finding.replacement}"
        where = f"cell {finding.cell}, line {finding.line}: " if finding.cell is not None else ""
        at = (1, None) if finding.cell is not None else (finding.line, finding.column)
        lines.append(_command(level, finding.file, *at, f"anyaccel port: {finding.rule}", f"{where}{text}\n{finding.message}"))
    for result in report.broken:
        lines.append(_command("error", result.file, result.error_line or 1, None, "anyaccel port: broken source", result.error))
    for file, each in report.unused:
        lines.append(_command("warning", file, each["line"], None, "anyaccel port: unused suppression", each["message"]))
    return "".join(line + "\n" for line in lines)
