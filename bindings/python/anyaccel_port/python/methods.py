"""Methods and attributes of tensors and modules: .cuda(), .is_cuda, .record_stream()."""

from __future__ import annotations

import libcst as cst

from .. import rules
from .source import REVIEW, Source


def find_methods(source: Source) -> None:
    for node in source.names.nodes.get(cst.Call, ()):
        if isinstance(node.func, cst.Attribute) and id(node) not in source.done:
            if node.func.attr.value == "cuda":
                _cuda(source, node)
            elif node.func.attr.value == "record_stream":
                source.add("record-stream", source.tree.span(node), node)
    for node in source.names.nodes.get(cst.Attribute, ()):
        if node.attr.value == "is_cuda" and id(node) not in source.done:
            rule = rules.BY_ID["tensor-is-cuda"]
            source.add(rule.id, source.tree.span(node), node, source.template(rule), {"self": source.tree.outer(node.value)})


def _cuda(source: Source, node: cst.Call) -> None:
    owner = source.names.qualified(node.func.value)
    if owner.split(".")[0] not in ("", "self"):
        if not owner.startswith("torch.") or owner in ("torch.Tensor", "torch.nn.Module"):
            if owner in ("torch.Tensor", "torch.nn.Module"):
                source.add("tensor-cuda", source.tree.span(node), node, severity=REVIEW)
                return
    tree = source.tree
    start = tree.span(node.func.attr)[0]
    span = (start, tree.span(node)[1])
    pieces = {"self": tree.outer(node.func.value)}
    device = None
    rest = []
    for i, arg in enumerate(node.args):
        if arg.star:
            source.add("tensor-cuda", span, node, severity=REVIEW)
            return
        if (i == 0 and arg.keyword is None) or (arg.keyword is not None and arg.keyword.value == "device"):
            device = arg
        else:
            rest.append((i, arg))
    text = "to({type}"
    if device is not None:
        pieces["device"] = tree.outer(device.value)
        text = "to({acc}.device_name({device})"
    for i, arg in rest:
        name = f"rest{i}"
        pieces[name] = tree.outer(arg.value)
        text += f", non_blocking={{{name}}}"
    source.add("tensor-cuda", span, node, text + ")", pieces)
