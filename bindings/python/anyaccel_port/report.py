"""The results of a run, as all output formats present them."""

from __future__ import annotations

import collections
import dataclasses
import functools

from . import rules
from .analysis import Result
from .findings import EQUIVALENT, NONE, REVIEW, Finding
from .languages import ALL

_PACKAGES = "pip install 'anyaccel[port]'"


@dataclasses.dataclass
class Report:
    """Results by file, and data about the whole run."""

    target: str
    results: list[Result]
    baseline: str | None = None
    stale: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    fix: bool = False  # the files were fixed, or a diff was printed

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """All findings that are left, in order of files and lines."""
        return [finding for result in self.results for finding in result.findings]

    @functools.cached_property
    def active(self) -> list[Finding]:
        """The findings that are neither suppressed nor known."""
        return [finding for finding in self.findings if not finding.suppressed and not finding.known]

    @property
    def failing(self) -> list[Finding]:
        """The findings that fail --check."""
        return [finding for finding in self.active if not is_harmless(finding)]

    @functools.cached_property
    def fixed(self) -> list[Finding]:
        return [finding for result in self.results for finding in result.fixed]

    @property
    def broken(self) -> list[Result]:
        return [result for result in self.results if result.error]

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.failure]

    @property
    def written(self) -> int:
        """The number of files that --fix has written."""
        return sum(result.written for result in self.results)

    @property
    def skipped(self) -> list[Result]:
        return [result for result in self.results if result.skipped]

    @property
    def unused(self) -> list[tuple[str, dict]]:
        return [(result.file, each) for result in self.results for each in result.unused]

    @property
    def missing(self) -> list[str]:
        """A message for each language whose package is not installed."""
        counts = collections.Counter((result.language, result.missing) for result in self.results if result.missing)
        titles = {language.name: language.title for language in ALL}
        messages = []
        for (language, package), count in sorted(counts.items()):
            were = "was" if count == 1 else "were"
            messages.append(f"{files(count)} ({titles[language]}) {were} not examined, because the Python package "
                            f"{package} is not installed. Run: {_PACKAGES}")
        return messages

    @property
    def lines(self) -> int:
        return sum(result.lines for result in self.results)

    def by_severity(self, findings: list[Finding] | None = None) -> dict[str, int]:
        counts = collections.Counter(finding.severity for finding in (self.active if findings is None else findings))
        return {severity: counts[severity] for severity in (EQUIVALENT, REVIEW, NONE)}

    @property
    def mechanical(self) -> tuple[int, int]:
        """The number of equivalent findings that are or can be fixed mechanically, and the number of all of them."""
        with_equivalent = [finding for finding in (*self.active, *self.fixed) if finding.severity == EQUIVALENT]
        return sum(finding.fixable for finding in with_equivalent), len(with_equivalent)


def is_harmless(finding: Finding) -> bool:
    """Whether the code can stay as it is, so that --check does not fail."""
    if "harmless" in finding.extra:
        return bool(finding.extra["harmless"])
    rule = rules.BY_ID.get(finding.rule)
    return rule is not None and rule.harmless


def files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
