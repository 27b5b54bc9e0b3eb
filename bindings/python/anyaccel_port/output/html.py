"""A report as a single page that works offline."""

from __future__ import annotations

import collections
import html
import pathlib
import string

from .. import rules
from ..escaped import printable_text
from ..findings import EQUIVALENT, NONE, REVIEW, Finding
from ..report import Report, files, is_harmless, number

_STYLE = pathlib.Path(__file__).with_name("report.css")
_LIMIT = 5000  # limit of listed findings; browsers become slow with more
_LABELS = {EQUIVALENT: "exact equivalent", REVIEW: "needs review", NONE: "no equivalent"}
_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Port report</title>
<style>
$style</style>
</head>
<body>
<main>
<h1>Port report</h1>
<p class="lead">$lead</p>
$tiles
$bar
<h2 id="manual">What needs manual work</h2>
$manual
$problems
<h2 id="rules">Findings by rule</h2>
$rules
<h2 id="files">Files</h2>
$files
</main>
</body>
</html>
""")


def _e(text: str, limit: int = 1000) -> str:
    """Text of the examined program, escaped for HTML, with invisible characters shown."""
    return html.escape(printable_text(text, limit))


def _code(text: str) -> str:
    return f"<code>{_e(text, 400)}</code>"


def _badge(finding_or_rule) -> str:
    severity = finding_or_rule.severity
    return f'<span class="badge {severity}">{_LABELS[severity]}</span>'


def _tile(count: int, label: str, kind: str = "") -> str:
    return f'<li class="tile {kind}"><strong>{count}</strong><span>{label}</span></li>'


def _tiles(report: Report) -> str:
    counts = report.by_severity()
    tiles = [
        _tile(counts[EQUIVALENT], "with an exact equivalent", EQUIVALENT),
        _tile(counts[REVIEW], "need review", REVIEW),
        _tile(counts[NONE], "without an equivalent", NONE)
    ]
    if report.fix:
        tiles.insert(0, _tile(len(report.fixed), "fixed", "fixed"))
    return f'<ul class="tiles">{"".join(tiles)}</ul>'


def _bar(report: Report) -> str:
    """A bar that shows which share of the necessary changes is mechanical."""
    work = [finding for finding in (*report.active, *report.fixed) if not is_harmless(finding)]
    parts = (("mechanical", "mechanical", sum(f.fixable and f.severity == EQUIVALENT for f in work)),
             ("proposed", "replacement proposed, needs review", sum(f.fixable and f.severity != EQUIVALENT for f in work)),
             ("manual", "manual work", sum(not f.fixable for f in work)))
    if not work:
        return "<p>Nothing has to change.</p>"
    pieces = "".join(f'<span class="{kind}" style="flex-grow:{count}"></span>' for kind, _, count in parts if count)
    legend = "".join(f'<li><span class="key {kind}"></span>{count} ({count / len(work):.0%}) {label}</li>'
                     for kind, label, count in parts)
    fixable, with_equivalent = report.mechanical
    share = ""
    if with_equivalent:
        share = f"<p>{fixable} of {number(with_equivalent, 'finding')} with an exact equivalent can be fixed mechanically.</p>"
    bar = f'<div class="bar" role="img" aria-label="Shares of the findings">{pieces}</div>'
    return f'<h2>Mechanical share</h2>{bar}<ul class="legend">{legend}</ul>{share}'


def _place(finding: Finding) -> str:
    cell = f"cell {finding.cell}, line " if finding.cell is not None else ""
    return f"{cell}{finding.line}:{finding.column}"


def _change(finding: Finding) -> str:
    arrow = f" &rarr; {_code(finding.replacement)}" if finding.replacement is not None else ""
    return _code(finding.text) + arrow


def _manual(report: Report) -> str:
    groups: dict[str, list[Finding]] = collections.defaultdict(list)
    for finding in report.active:
        if not is_harmless(finding) and not (finding.fixable and finding.severity == EQUIVALENT):
            groups[finding.rule].append(finding)
    if not groups:
        return "<p>Nothing.</p>"
    parts, shown = [], 0
    for rule, found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        message = rules.BY_ID[rule].why if rule in rules.BY_ID else found[0].message
        entries = found[:max(0, _LIMIT - shown)]
        shown += len(entries)
        items = "".join(f"<li>{_e(f.file)}:{_place(f)} {_change(f)}</li>" for f in entries)
        rest = f"<li>and {len(found) - len(entries)} more</li>" if len(found) > len(entries) else ""
        parts.append(f"<details><summary>{_e(rule)} {_badge(found[0])} {number(len(found), 'place')}</summary><p>{_e(message)}</p>"
                     f"<ul class=\"places\">{items}{rest}</ul></details>")
    return "".join(parts)


def _rules(report: Report) -> str:
    rows: dict[tuple[str, str], list[Finding]] = collections.defaultdict(list)
    for finding in (*report.active, *report.fixed):
        rows[finding.rule, finding.severity].append(finding)
    fixed = collections.Counter((finding.rule, finding.severity) for finding in report.fixed)
    body = []
    for (rule, severity), found in sorted(rows.items(), key=lambda item: (-len(item[1]), item[0])):
        title = rules.BY_ID[rule].title if rule in rules.BY_ID else ""
        harmless = ' <span class="badge">harmless</span>' if all(map(is_harmless, found)) else ""
        body.append(
            f"<tr><td>{_e(rule)}</td><td>{_e(title)}</td><td>{_badge(found[0])}{harmless}</td><td class=\"n\">{len(found)}</td>"
            f"<td class=\"n\">{sum(f.fixable for f in found)}</td><td class=\"n\">{fixed[rule, severity]}</td></tr>")
    if not body:
        return "<p>No findings.</p>"
    return ("<div class=\"scroll\"><table><thead><tr><th>Rule</th><th>What it finds</th><th>Kind</th><th class=\"n\">Findings</th>"
            f"<th class=\"n\">Fixable</th><th class=\"n\">Fixed</th></tr></thead><tbody>{''.join(body)}</tbody></table></div>")


def _files(report: Report) -> str:
    parts, shown = [], 0
    for result in report.results:
        active = [finding for finding in result.findings if not finding.suppressed and not finding.known]
        if not active and not result.fixed:
            continue
        entries = active[:max(0, _LIMIT - shown)]
        shown += len(entries)
        rows = "".join(f"<tr><td>{_place(f)}</td><td>{_badge(f)}</td><td>{_change(f)}</td><td>{_e(f.rule)}</td></tr>"
                       for f in entries)
        rest = f"<p>{len(active) - len(entries)} more findings are not listed.</p>" if len(active) > len(entries) else ""
        table = f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""
        fixed = f", {len(result.fixed)} fixed" if result.fixed else ""
        parts.append(
            f"<details><summary>{_e(result.file)} {number(len(active), 'finding')}{fixed}</summary>{table}{rest}</details>")
    return "".join(parts) or "<p>No file has findings.</p>"


def _problems(report: Report) -> str:
    items = [f"<li>{_e(r.file)}:{r.error_line or 1}: broken source, not changed: {_e(r.error)}</li>" for r in report.broken]
    items += [f"<li>{_e(r.file)}: {_e(r.failure)}</li>" for r in report.failures]
    items += [f"<li>{_e(r.file)}: skipped: {_e(r.skipped)}</li>" for r in report.skipped]
    items += [f"<li>{_e(message)}</li>" for message in report.missing]
    return f'<h2>Not examined</h2><ul class="places">{"".join(items)}</ul>' if items else ""


def render(report: Report) -> str:
    suppressed, known = sum(f.suppressed for f in report.findings), sum(f.known for f in report.findings)
    lead = (
        f"{number(len(report.active), 'finding')} in {files(len(report.results))} with {number(report.lines, 'line')}, for a "
        f"port to {_e(report.target)}. {suppressed} suppressed, {known} in the baseline.")
    return _PAGE.substitute(style=_STYLE.read_text(encoding="utf-8"),
                            lead=lead,
                            tiles=_tiles(report),
                            bar=_bar(report),
                            problems=_problems(report),
                            manual=_manual(report),
                            rules=_rules(report),
                            files=_files(report))
