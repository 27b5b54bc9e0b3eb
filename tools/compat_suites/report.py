"""The results of a suite, and a Markdown table of them."""
import collections
import contextlib
import datetime
import json
import os
import re
import sys
import xml.etree.ElementTree

STATES = ("passed", "failed", "skipped", "excluded")


class CannotRun(Exception):
    """The suite cannot run, for example because the tests are missing."""


class Result:
    """The state of a test, one of STATES, and the `reason` for a failure or an exclusion."""

    def __init__(self, name, state, reason=""):
        self.name, self.state, self.reason = name, state, reason


def read_exclusions(path):
    """Return {test: reason}. Lines are `FILE::CLASS::TEST<tab>reason`, with `*` for all tests of a file or class."""
    excluded = {}
    if not path.exists():
        return excluded
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition("\t")
        if not reason.strip():
            sys.exit(f"compat: {path}:{number}: expected `TEST<tab>reason`; got {line[:80]!r}")
        excluded[name] = reason.strip()
    return excluded


@contextlib.contextmanager
def log_file(folder, name):
    """Yield a file for the output of a test file: FOLDER/NAME.log, or nowhere if `folder` is None."""
    path = os.devnull if folder is None else folder / (name.replace("/", "-") + ".log")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        yield file


def saved(path, file):
    """Return the Results of a test file that an earlier run saved in `path`, or None."""
    if path is None or not path.exists():
        return None
    found = json.loads(path.read_text()).get(file)
    return None if found is None else [Result(*each) for each in found]


def save(path, file, results):
    """Add the Results of a test file to the JSON file `path`, {file: [[name, state, reason], ...]}."""
    if path is None:
        return
    everything = json.loads(path.read_text()) if path.exists() else {}
    everything[file] = [[each.name, each.state, each.reason] for each in results]
    path.write_text(json.dumps(everything, indent=1))


def read_junit(path, file):
    """Return the Results in pytest's JUnit file."""
    results = []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{file}::{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        failure = next((child for child in case if child.tag in ("failure", "error")), None)
        if failure is not None:
            results.append(Result(name, "failed", (failure.get("message") or "").strip().split("\n")[0][:200]))
        else:
            results.append(Result(name, "skipped" if case.find("skipped") is not None else "passed"))
    return results


def table(title, commit, results, excluded):
    """Return Markdown: counts per file, then failures and exclusions with their reasons."""
    counts = collections.defaultdict(collections.Counter)
    for result in results:
        counts[result.name.split("::")[0]][result.state] += 1
    total = sum(counts.values(), collections.Counter())
    selected = sum(total.values()) - total["excluded"]
    lines = [f"{title}, commit {commit}, {datetime.date.today().isoformat()}: "
             f"{selected} tests selected, {total['excluded']} excluded.", "",
             "| file | " + " | ".join(STATES) + " |", "| --- |" + " ---: |" * len(STATES)]
    lines += [f"| {file} | " + " | ".join(str(counts[file][state]) for state in STATES) + " |" for file in sorted(counts)]
    lines.append("| all | " + " | ".join(str(total[state]) for state in STATES) + " |")
    failed = collections.defaultdict(list)
    for result in results:
        if result.state == "failed":
            failed[result.reason].append(result.name)
    if failed:
        lines += ["", "| failed tests | message |", "| --- | --- |"]
        lines += [f"| {listed(names)} | {escaped(reason)} |" for reason, names in failed.items()]
    reasons = collections.Counter(excluded[result.reason] for result in results if result.state == "excluded")
    if reasons:
        lines += ["", "| reason for the exclusion | tests |", "| --- | ---: |"]
        lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def listed(names):
    """Return the names if there are at most three, otherwise their number and their files."""
    if len(names) <= 3:
        return escaped(", ".join(names))
    return f"{len(names)} tests of {', '.join(sorted({name.split('::')[0] for name in names}))}"


def escaped(text):
    return re.sub(r"[|<>`\\]", lambda match: "\\" + match.group(), text.replace("\n", " "))


def write(page, suite, text):
    """Replace the passage between `<!-- compat: SUITE -->` and `<!-- end of compat -->`."""
    source = page.read_text()
    pattern = re.compile(rf"(<!-- compat: {suite} -->\n).*?(\n<!-- end of compat -->)", re.S)
    if not pattern.search(source):
        sys.exit(f"compat: {page} has no passage `<!-- compat: {suite} -->` ... `<!-- end of compat -->`")
    page.write_text(pattern.sub(lambda match: match.group(1) + text + match.group(2), source))
