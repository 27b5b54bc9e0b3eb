"""The rules of `anyaccel port`, by what they match."""

from . import configuration, hardware, libraries, native, python, torch_cuda
from .rule import ANYACCEL, DEEPSPEED, TARGETS, TORCH, Rule

RULES = (*torch_cuda.RULES, *python.RULES, *libraries.RULES, *hardware.RULES, *native.RULES, *configuration.RULES)
BY_ID = {rule.id: rule for rule in RULES}
BY_NAME = {name: rule for rule in RULES for name in rule.names}


def find(name: str) -> Rule | None:
    """The rule for a qualified name: the most specific one of `a.b.c`, `a.b.*` and `a.*`."""
    if name in BY_NAME:
        return BY_NAME[name]
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        if rule := BY_NAME.get(".".join(parts[:length]) + ".*"):
            return rule
    return None


__all__ = ["ANYACCEL", "BY_ID", "BY_NAME", "DEEPSPEED", "RULES", "TARGETS", "TORCH", "Rule", "find"]
