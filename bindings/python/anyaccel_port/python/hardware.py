"""Names of NVIDIA's devices in tables, comparisons and requests for nodes, and their peak throughput."""

from __future__ import annotations

import re

import libcst as cst

from .. import gpu_names
from .source import Source
from .uses import Use, literal, use_of

# Peak throughputs of the V100, A100 and H100 in operations per second.
_PEAKS = frozenset((112e12, 125e12, 156e12, 312e12, 624e12, 494e12, 756e12, 989e12, 989.4e12, 989.5e12, 1979e12))
_CONTAINERS = (cst.List, cst.Tuple, cst.Set, cst.Dict)
_METHODS = ("startswith", "endswith", "find", "count", "index")
_DEVICE_TEXT = re.compile(r"(?i)gpu|device|name|card|cuda|arch")


def find_hardware(source: Source) -> None:
    tables: dict[int, list[tuple[cst.SimpleString, str]]] = {}
    containers: dict[int, cst.CSTNode] = {}
    for node in source.names.nodes.get(cst.SimpleString, ()):
        text = literal(node) or ""
        if len(text) >= 60 or id(node) in source.done:
            continue
        if gpu_names.REQUEST.search(text) and gpu_names.KEY.fullmatch(_key(source, node)):
            source.add("scheduler-device", source.tree.span(node), node)
        elif gpu_names.is_name(text):
            table = _table(source, node)
            if table is not None:
                containers[id(table)] = table
                tables.setdefault(id(table), []).append((node, text))
            else:
                _comparison(source, node, text)
    for key, found in tables.items():
        if len({text.lower() for _, text in found}) > 1 and any(gpu_names.is_clear(text) for _, text in found):
            _add_table(source, containers[key], found[0][0])
        elif use_of(source, found[0][0]).kind == "compare":
            _comparison(source, *found[0])
    for kind in (cst.Float, cst.Integer):
        for node in source.names.nodes.get(kind, ()):
            _peak(source, node)


def _key(source: Source, node: cst.SimpleString) -> str:
    """The key, keyword or variable that receives a string."""
    use = use_of(source, node)
    return use.name if use.kind in ("argument", "assign", "default", "other") else ""


def _table(source: Source, node: cst.CSTNode) -> cst.CSTNode | None:
    """The outermost list, tuple, set or dictionary around a string."""
    table = None
    parent = source.names.parent(node)
    while isinstance(parent, (*_CONTAINERS, cst.Element, cst.DictElement)):
        if isinstance(parent, _CONTAINERS):
            table = parent
        parent = source.names.parent(parent)
    return table


def _add_table(source: Source, table: cst.CSTNode, first: cst.SimpleString) -> None:
    use = use_of(source, table)
    if use.kind in ("log", "statement"):
        return
    if use.kind == "compare":
        source.add("device-name-comparison", source.tree.span(first), first)
        return
    parent = source.names.parent(table)
    span = source.tree.span(parent.targets[0].target if isinstance(parent, cst.Assign) else first)
    source.add("device-name-table", span, first)


def _comparison(source: Source, node: cst.SimpleString, text: str) -> None:
    use = use_of(source, node)
    if use.kind == "compare":
        comparison = source.names.parent(use.node)
        if isinstance(comparison, cst.ComparisonTarget):
            comparison = source.names.parent(comparison)
        other = source.tree.source(comparison)
    elif _is_method(use):
        other = source.tree.source(use.call.func)
    else:
        return
    if gpu_names.is_clear(text) or _DEVICE_TEXT.search(other):
        source.add("device-name-comparison", source.tree.span(node), node)


def _is_method(use: Use) -> bool:
    return use.kind == "argument" and isinstance(use.call.func, cst.Attribute) and use.call.func.attr.value in _METHODS


def _peak(source: Source, node: cst.Float | cst.Integer) -> None:
    """`flops_promised = 312e12`."""
    if node.evaluated_value in _PEAKS:
        use = use_of(source, node)
        if use.kind in ("assign", "default", "argument") and not use.collection and re.search(r"(?i)flop|peak|promised", use.name):
            source.add("peak-flops", source.tree.span(node), node)


