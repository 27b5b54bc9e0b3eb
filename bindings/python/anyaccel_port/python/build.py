"""Build scripts: requirements, flavors of the build, and macros and flags for CUDA."""

from __future__ import annotations

import re

import libcst as cst

from .. import packages
from .source import Source
from .uses import literal

_REQUIREMENTS = re.compile(r"(?i)require|extras|depend")
_MACRO = re.compile(r"(?:(?:WITH|USE|HAVE|BUILD|ENABLE)_CUDA\w*|\w+_(?:WITH|USE|HAVE|BUILD|ENABLE)_CUDA)$")


def text(source: Source, node: cst.SimpleString, value: str) -> bool:
    """Examine a string in a build script. Return whether a finding was added for it."""
    parent = source.names.parent(node)
    if isinstance(parent, cst.DictElement) and parent.key is node:
        return extra(source, node, value)
    if not isinstance(parent, cst.Element):
        return False
    if _MACRO.match(value):
        tuple_ = source.names.parent(parent)
        if isinstance(tuple_, cst.Tuple) and tuple_.elements[0] is parent:
            source.add("cuda-extension", source.tree.outer(tuple_), node)
            return True
    elif (found := packages.of(value)) and _is_requirement(source, node):
        source.add(found[0].id, source.tree.span(node), node)
        return True
    return False


def extra(source: Source, node: cst.SimpleString, value: str) -> bool:
    """Examine a key of extras_require. Return whether a finding was added for it."""
    found = packages.EXTRA.fullmatch(value) is not None and _is_requirement(source, source.names.parent(node))
    if found:
        source.add("package-extra", source.tree.span(node), node)
    return found


def _is_requirement(source: Source, node: cst.CSTNode) -> bool:
    """Whether the string is in a list that is assigned or passed as requirements."""
    parent = source.names.parent(node)
    while parent is not None and not isinstance(parent, cst.BaseSmallStatement):
        if isinstance(parent, cst.DictElement) and _REQUIREMENTS.search(literal(parent.key) or ""):
            return True
        if isinstance(parent, cst.Arg) and parent.keyword is not None and _REQUIREMENTS.search(parent.keyword.value):
            return True
        parent = source.names.parent(parent)
    targets = [t.target for t in parent.targets] if isinstance(parent, cst.Assign) else []
    return any(_REQUIREMENTS.search(source.tree.source(target)) for target in targets)
