"""Writes the problems of a test run in SARIF 2.1.0. Code hosting services show them next to the
source.
"""

from anyaccel_port import write as files
from anyaccel_port.output import sarif

from anyaccel import __version__

from . import baseline

_TITLES = {
    "host_access": "Host access to device memory",
    "wrong_device": "Use of a tensor on the wrong device",
    "not_synchronized": "Host access to pinned memory before a copy has completed",
    "unordered_streams": "Unordered use on two streams",
    "freed_in_use": "Memory freed while work may still use it",
    "memory_limit": "Allocation that exceeds the device memory",
    "unordered_threads": "Unordered launches from two host threads",
    "uninitialized": "Read of uninitialized memory",
    "leak": "Memory still allocated at exit",
    "other_accelerator": "Use of another accelerator's device",
    "out_of_bounds": "Write outside of a tensor's memory",
}


def _result(problem, known):
    result = {
        "ruleId": problem["kind"],
        "level": "note" if known else "error",
        "message": {"text": f"{problem['what']}. Fix: {problem['remedy']}. Found by the test {problem['test']}."},
        "partialFingerprints": {"anyaccel/v1": "|".join(baseline.key(problem))},
        "baselineState": "unchanged" if known else "new",
    }  # yapf: disable
    if problem["file"]:
        result["locations"] = [sarif.location(problem["file"], {"startLine": problem["line"]})]
    return result


def write(path, problems):
    """Write `problems`, a list of (problem, is known) pairs, to a SARIF file."""
    rules = [{"id": kind, "shortDescription": {"text": title}} for kind, title in _TITLES.items()]
    tool = {"name": "AnyAccel checker", "version": __version__, "rules": rules}
    files.replace(path, sarif.document(tool, [_result(*each) for each in problems]))
