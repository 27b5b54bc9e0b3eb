"""Imports that a fix inserts."""

from __future__ import annotations

import re

import libcst as cst

from ..findings import Edit
from .source import FUNCTION, MODULES, Source

_FUTURE = "__future__"


def needed(source: Source, replaced: str) -> list[str]:
    """The import lines that the replaced texts need and that are missing."""
    lines = []
    module = MODULES.get(source.target)
    if module and re.search(rf"\b{re.escape(source.function)}\(\)", replaced):
        bindings = source.names.scope.lookup(source.function)
        if not bindings:
            name = FUNCTION if source.function == FUNCTION else f"{FUNCTION} as {source.function}"
            lines.append(f"from {module} import {name}")
    if re.search(r"\btorch\.", replaced) and not source.names.scope.lookup("torch"):
        lines.insert(0, "import torch")
    return lines


def insertion(source: Source, lines: list[str], first_use: int) -> Edit:
    """The edit that inserts import lines before the first use."""
    newline = source.tree.module.default_newline
    body = source.tree.module.body
    place = 0
    leading = True
    after_torch = None
    for i, statement in enumerate(body):
        if not isinstance(statement, cst.SimpleStatementLine):
            leading = False
            continue
        end = source.tree.outer(statement)[1]
        if end > first_use:
            break
        small = statement.body[0]
        docstring = i == 0 and isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
        if docstring or isinstance(small, cst.ImportFrom) and isinstance(small.module, cst.Name) and small.module.value == _FUTURE:
            place = end
        elif isinstance(small, (cst.Import, cst.ImportFrom)):
            if leading:
                place = end
            if after_torch is None and any(_imports_torch(s) for s in statement.body):
                after_torch = end
            elif after_torch is not None and source.tree.span(statement)[0] == after_torch:
                after_torch = end
        else:
            leading = False
    if after_torch is not None:
        place = after_torch
    text = newline.join(lines) + newline
    if place and not source.text[:place].endswith(("\n", "\r")):
        text = newline + text
    if place == 0 and body:
        place = source.tree.span(body[0])[0]
        place = source.text.rfind("\n", 0, place) + 1
    return Edit(place, place, text)


def _imports_torch(small: cst.CSTNode) -> bool:
    if isinstance(small, cst.Import):
        return any(alias.evaluated_name.split(".")[0] == "torch" for alias in small.names)
    return isinstance(small, cst.ImportFrom) and small.module is not None and not small.relative and _first(small.module) == "torch"


def _first(node: cst.CSTNode) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value
