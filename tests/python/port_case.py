"""Helpers of the tests of `anyaccel port` for Python sources."""

import pathlib
import sys

import pytest

pytest.importorskip("libcst", reason="libcst is not installed; `anyaccel port` needs it for Python sources")
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

from anyaccel_port import python  # noqa: E402

IMPORT = "from anyaccel import get_accelerator\n"


def find(text, target="anyaccel", file="x.py"):
    return python.find(text, file, target)


def rules_of(text, target="anyaccel"):
    """(rule, severity) of each finding, in the order of the source."""
    return [(f.rule, f.severity) for f in find(text, target)]


def fix(text, target="anyaccel", severities=("equivalent", )):
    """The source after the fixes. A second run must find nothing more to fix, and the result must be valid."""
    fixed = python.fix(text, [f for f in find(text, target) if f.severity in severities], target)
    compile(fixed.removeprefix("\ufeff"), "x.py", "exec", dont_inherit=True)
    assert [f.text for f in find(fixed, target) if f.severity in severities and f.edits] == []
    return fixed


def line(code, before="import torch\n", target="anyaccel", severities=("equivalent", )):
    """The line `code` after the fixes, without the import that they insert."""
    fixed = fix(before + code + "\n", target,
                severities).replace(IMPORT, "").replace("from deepspeed.accelerator import get_accelerator\n", "")
    assert fixed.startswith(before)
    return fixed[len(before):-1]
