"""pytest plugin for `tools/compat`: deselects the excluded tests and records each result
immediately.

COMPAT_RESULTS names the results file, which contains one JSON list [test, state, reason] per line.
Earlier results are therefore kept if the session crashes or exceeds its time limit. COMPAT_EXCLUDED
is a JSON list of exclusions. An exclusion is a test id, or a prefix of one that ends before `[` or
`::`; a trailing `::*` has no effect. COMPAT_CASES limits the parameter sets per test function.

This file is also copied next to the tests, so it must not import compat_suites.
"""
import json
import os


def _record(test, state, reason=""):
    with open(os.environ["COMPAT_RESULTS"], "a") as file:
        file.write(json.dumps([test, state, reason]) + "\n")


def exclusion_of(test, excluded):
    """Return the entry in `excluded` that names `test`, or None."""
    for key in excluded:
        prefix = key.removesuffix("::*")
        if test == prefix or test.startswith((prefix + "[", prefix + "::")):
            return key
    return None


def chosen(tests, limit):
    """Return at most `limit` test ids per test function as a set, evenly spaced from the first to
    the last.
    """
    functions = {}
    for test in tests:
        functions.setdefault(test.partition("[")[0], []).append(test)
    kept = set()
    for ids in functions.values():
        last = max(limit - 1, 1)
        kept.update(ids if len(ids) <= limit else [ids[index * (len(ids) - 1) // last] for index in range(limit)])
    return kept


def pytest_collection_modifyitems(config, items):
    excluded = json.loads(os.environ.get("COMPAT_EXCLUDED", "[]"))
    kept = chosen([item.nodeid for item in items], int(os.environ.get("COMPAT_CASES", len(items) or 1)))
    left_out = [item for item in items if item.nodeid not in kept]
    items[:] = [item for item in items if item.nodeid in kept]
    for item in list(items):
        key = exclusion_of(item.nodeid, excluded)
        if key:
            _record(item.nodeid, "excluded", key)
            left_out.append(item)
            items.remove(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def _reason(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[0] if crash and lines else (lines[-1] if lines else "")


def pytest_collectreport(report):
    if report.failed:
        _record(f"{report.nodeid}::*", "failed", _reason(report))
    elif report.skipped:
        _record(f"{report.nodeid}::*", "skipped", str(report.longrepr[-1]))


def pytest_runtest_logreport(report):
    if report.failed:
        _record(report.nodeid, "failed", _reason(report))
    elif report.skipped:
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
        _record(report.nodeid, "skipped", str(reason))
    elif report.when == "call":
        _record(report.nodeid, "passed")
