"""Each rule of `anyaccel port` for Python finds its example, and the fix writes the example's replacement."""

import pytest

from port_case import IMPORT, find, fix  # isort: skip (imports anyaccel_port)
from anyaccel_port import rules

RULES = [*rules.torch_cuda.RULES, *rules.python.RULES, *rules.libraries.RULES, *rules.hardware.RULES]
FILES = {"build-flavor": "setup.py"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_example(rule):
    """Breaks if a rule's names or templates and the finder disagree, or if the documented example is wrong."""
    assert rule.before and rule.why
    text = "import torch\n" + rule.before + "\n"
    found = [f for f in find(text, file=FILES.get(rule.id, "x.py")) if f.rule == rule.id]
    assert found, f"{rule.id} does not find its example"
    assert found[0].severity == rule.severity_for("anyaccel")
    if rule.after:
        assert fix(text, severities=("equivalent", "review")).replace(IMPORT, "") == "import torch\n" + rule.after + "\n"
    if rule.severity_for("anyaccel") == "equivalent":
        assert rule.after and found[0].edits


@pytest.mark.parametrize("target", rules.TARGETS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_target(rule, target):
    """For each target, all replacements of a rule's example give a valid source that needs no further fixes."""
    text = "import torch\n" + rule.before + "\n"
    assert target not in rule.to and rule.to or any(
        f.rule == rule.id for f in find(text, target, FILES.get(rule.id, "x.py")))
    fix(text, target, ("equivalent", "review"))


def test_ids_are_unique():
    assert len({rule.id for rule in RULES}) == len(RULES)
