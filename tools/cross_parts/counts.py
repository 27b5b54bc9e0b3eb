"""Counts of passed, failed and skipped tests."""
import re
import xml.etree.ElementTree as xml


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0, reasons=()):
        self.passed, self.failed, self.skipped, self.reasons = passed, failed, skipped, list(reasons)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def of_googletest(text):
    """Return the counts in an XML report of GoogleTest, with one reason per skipped test."""
    counts = Counts()
    for case in xml.fromstring(text).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            counts.failed += 1
        elif case.get("status") == "notrun":
            counts.skipped += 1
            counts.reasons.append("disabled")
        elif skipped is not None or case.get("result") == "skipped":
            counts.skipped += 1
            lines = (skipped.get("message", "") if skipped is not None else "").strip().splitlines()
            counts.reasons.append(lines[-1] if lines else "no reason given")
        else:
            counts.passed += 1
    return counts


def of_run_tests(text):
    """Return the counts in a file that `tools/run_tests --results` wrote."""
    first, *rest = text.splitlines()
    numbers = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", first)
    reasons = []
    for line in rest:
        number, reason = line.split("\t", 1)
        reasons += [reason] * int(number)
    return Counts(*map(int, numbers.groups()), reasons)


def summary(counts):
    """Return the lines of a results file, as tools/run_tests writes them."""
    return [str(counts)] + [f"{counts.reasons.count(reason)}\t{reason}" for reason in dict.fromkeys(counts.reasons)]


def of_conformance(text):
    """Return the counts in the output of tools/conformance."""
    total = Counts()
    for passed, failed, skipped in re.findall(r"(\d+) passed, (\d+) failed, (\d+) skipped", text):
        total.add(Counts(int(passed), int(failed), int(skipped), ["does not apply to this accelerator"] * int(skipped)))
    if "cannot be tested" in text or not total.passed:
        total.failed += 1
    return total


def of_unittest(text, status):
    """Return the counts of a run of Python's unittest, or of a script that was skipped."""
    if status == 77:
        reason = re.search(r"^SKIP: (.*)$", text, re.M)
        return Counts(skipped=1, reasons=[reason.group(1) if reason else "no reason given"])
    ran = re.search(r"^Ran (\d+) tests?", text, re.M)
    if not ran:
        return Counts(failed=1)
    named = {name: int(number) for name, number in re.findall(r"(failures|errors|skipped)=(\d+)", text)}
    failed, skipped = named.get("failures", 0) + named.get("errors", 0), named.get("skipped", 0)
    return Counts(int(ran.group(1)) - failed - skipped, failed, skipped, ["skipped by the test"] * skipped)
