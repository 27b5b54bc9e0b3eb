"""Device names in strings."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from .source import Source

_DEVICE = re.compile(r"cuda(?::(\d+))?$")


def find_strings(source: Source) -> None:
    for node in source.names.nodes.get(cst.SimpleString, ()):
        if id(node) in source.done or "b" in node.prefix:
            continue
        match = _DEVICE.match(node.raw_value)
        if match and not isinstance(source.names.parent(node), cst.Expr):
            rule = rules.BY_ID["device-string-index" if match.group(1) else "device-string"]
            source.add(rule.id, source.tree.span(node), node, source.template(rule), values={"0": match.group(1) or ""})
