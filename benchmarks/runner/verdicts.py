"""The result of a comparison: a row for each figure, and the page in Markdown."""
import dataclasses
import datetime
import math
import statistics

from . import intervals, measure, write

HOW = """Each figure is taken from both commits in turn, in ABBA order. "time, new / old" is the interquartile mean of its ratio over the rounds; rates are
inverted, so above 1 the new commit is slower. Intervals are bootstrap 95 % intervals, and the resolution is half their width. A figure is
slower or faster if its interval does not contain 1, in the first rounds and again in fresh ones, whose values are shown."""


@dataclasses.dataclass
class Row:
    """A figure.

    If only one commit has the figure, `only` is "old" or "new". A figure that both commits have
    but that lacks an interval is not a speed.
    """
    key: tuple
    medians: dict
    rounds: int
    interval: intervals.Interval = None
    only: str = ""

    def differs(self):
        return self.interval is not None and self.interval.verdict(math.inf) in ("slower", "faster")

    def cells(self, limit):
        name = f"{self.key[0]}: {write.label(self.key[1])}"
        values = [write.number(self.medians[word]) if word in self.medians else "" for word in ("old", "new")]
        if self.interval is None:
            return [name, *values, "", "", "", str(self.rounds), f"only in {self.only.upper()}" if self.only else "not a speed"]
        if math.isinf(self.interval.high):
            return [name, *values, f"{self.interval.ratio:.3f}", "", "", str(self.rounds), self.interval.verdict(limit)]
        return [name, *values, f"{self.interval.ratio:.3f}", f"{self.interval.low:.3f} to {self.interval.high:.3f}",
                f"{self.interval.resolution:.1f} %", str(self.rounds), self.interval.verdict(limit)]


def rows(taken):
    """Return a Row for each figure in the rounds {(program, number): {"old": value, "new": value}}.
    """
    out = []
    for key in dict.fromkeys(key for numbers in taken for key in numbers):
        found = [numbers[key] for numbers in taken if key in numbers]
        values = {word: [each[word] for each in found if word in each] for word in ("old", "new")}
        medians = {word: statistics.median(numbers) for word, numbers in values.items() if numbers}
        paired = [each for each in found if len(each) == 2]
        if len(medians) == 1:
            out.append(Row(key, medians, len(found), only=next(iter(medians))))
        elif intervals.kind(key[1]) is None or any(value <= 0 for each in paired for value in each.values()):
            out.append(Row(key, medians, len(found)))
        else:
            ratios = [intervals.time_ratio(key[1], each["old"], each["new"]) for each in paired]
            out.append(Row(key, medians, len(paired), intervals.bootstrap(ratios)))
    return out


class Page:
    """Collects the rows of all benchmarks and writes them."""

    def __init__(self, builds, only, limit, max_load):
        self.builds, self.only, self.limit, self.max_load = builds, only, limit, max_load
        self.sections, self.all_rows, self.failures = [], [], []

    def add(self, title, found, only):
        self.all_rows += found
        lines = [f"## {title}", ""]
        if found:
            head = ["figure", "old", "new", "time, new / old", "95 % interval", "resolution", "rounds", "verdict"]
            lines += [write.table(head, [row.cells(self.limit) for row in found]), ""]
        lines += [f"Only in {word.upper()}: {', '.join(names)}.\n" for word, names in only.items() if names]
        self.sections.append("\n".join(lines))

    def failed(self, title, reason):
        self.failures.append(title)
        self.sections.append(f"## {title}\n\nNo figures: {' '.join(reason.split())}\n")

    def count(self, verdict):
        return sum(row.interval is not None and row.interval.verdict(self.limit).startswith(verdict) for row in self.all_rows)

    def text(self):
        judged = sum(row.interval is not None for row in self.all_rows)
        lines = ["# Benchmarks of two commits", ""]
        lines += [f"- {word}: `{build.commit[:12]}` {build.subject}" for word, build in self.builds.items()]
        lines += ["", f"{judged} figures: {self.count('slower')} slower, {self.count('faster')} faster, {self.count('no change')} without a change, "
                  f"{self.count('resolution')} with a resolution above {self.limit:g} %.", ""]
        lines += [f"Benchmarks only in {word.upper()}: {', '.join(names)}.\n" for word, names in self.only.items() if names]
        if self.failures:
            lines.append(f"No figures: {', '.join(self.failures)}.\n")
        machine = measure.machine()
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        lines += [HOW, "", *self.sections, f"{date}, {machine['cpu']}, {machine['cores']} cores, {machine['system']}; other programs "
                  f"may use {self.max_load:g} cores."]
        if self.max_load > 0.5:
            lines.append("\n**Trial run on a busy machine: do not quote these figures.**")
        return "\n".join(lines) + "\n"
