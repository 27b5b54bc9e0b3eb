"""A report for terminals: one line per finding, and each rule's explanation once."""

from __future__ import annotations

from ..escaped import one_line, printable_text
from ..findings import EQUIVALENT, NONE, REVIEW, Finding
from ..report import Report, files, is_harmless, number

_LABELS = {EQUIVALENT: "equivalent", REVIEW: "needs review", NONE: "no equivalent"}


def place(finding: Finding) -> str:
    cell = f"cell {finding.cell}:" if finding.cell is not None else ""
    return f"{printable_text(finding.file)}:{cell}{finding.line}:{finding.column}"


def _line(finding: Finding) -> str:
    label = "harmless" if is_harmless(finding) else _LABELS[finding.severity]
    line = f"{place(finding)}: {label}: {one_line(finding.text)}"
    if finding.replacement is not None:
        line += f" -> {one_line(finding.replacement)}"
    return f"{line} [{finding.rule}]"


def _summary(report: Report) -> list[str]:
    counts = report.by_severity()
    lines = []
    if report.fix:
        lines.append(
            f"{number(len(report.fixed), 'finding')} fixed in {files(sum(bool(result.fixed) for result in report.results))}.")
    harmless = sum(map(is_harmless, report.active))
    may_stay = f"; {harmless} {'is' if harmless == 1 else 'are'} harmless" if harmless else ""
    left = " left" if report.fix else ""
    with_findings = sum(any(not f.suppressed and not f.known for f in result.findings) for result in report.results)
    lines.append(
        f"{number(len(report.active), 'finding')}{left} in {with_findings} of {files(len(report.results))} "
        f"({report.lines} lines): {counts[EQUIVALENT]} with an equivalent, {counts[REVIEW]} to review, "
        f"{counts[NONE]} without an equivalent{may_stay}.")
    fixable = sum(finding.fixable and finding.severity == EQUIVALENT for finding in report.active)
    unsafe = sum(finding.fixable and finding.severity == REVIEW for finding in report.active)
    if fixable and not report.fix:
        lines.append(f"--fix replaces {fixable} of them.")
    if unsafe:
        lines.append(
            f"--fix --unsafe-fixes {'also ' if fixable else ''}replaces {unsafe} that {'needs' if unsafe == 1 else 'need'} review.")
    suppressed, known = sum(f.suppressed for f in report.findings), sum(f.known for f in report.findings)
    if suppressed or known:
        lines.append(f"Not counted: {suppressed} suppressed, {known} in the baseline.")
    if report.broken or report.skipped:
        lines.append(f"Not examined: {files(len(report.broken))} with broken sources, {files(len(report.skipped))} skipped.")
    return lines


def render(report: Report) -> str:
    lines, explained = [], set()
    for result in report.results:
        name = printable_text(result.file)
        if result.error:
            at = f":{result.error_line}" if result.error_line else ""
            lines.append(f"{name}{at}: broken source, not changed: {one_line(result.error, 200)}")
        if result.skipped:
            lines.append(f"{name}: skipped: {result.skipped}")
        for finding in result.findings:
            if finding.suppressed or finding.known:
                continue
            lines.append(_line(finding))
            if (finding.rule, finding.message) not in explained:
                explained.add((finding.rule, finding.message))
                lines.append(f"    {printable_text(finding.message)}")
        for each in result.unused:
            cell = f"cell {each['cell']}:" if each["cell"] is not None else ""
            lines.append(f"{name}:{cell}{each['line']}: unused suppression: {printable_text(each['message'])}")
    for file, rule, text in report.stale:
        lines.append(f"{printable_text(report.baseline or '')}: no longer found: {printable_text(f'{file}: {text} [{rule}]')}. "
                     "Update the baseline with --update-baseline.")
    return "\n".join([*lines, *([""] if lines else []), *_summary(report)]) + "\n"
